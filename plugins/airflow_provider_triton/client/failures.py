"""How an answer that is an error, or no answer, becomes one of the provider's errors."""

from __future__ import annotations

from typing import Any

from airflow_provider_triton.client.calls import Call, Kind, named
from airflow_provider_triton.client.settings import TritonSettings
from airflow_provider_triton.errors import (
    CredentialsRefusedError,
    LoadRefusedError,
    ModelInvalidError,
    ModelNotLoadedError,
    ServerRefusedError,
    ServerUnavailableError,
    TritonError,
)

# Triton's words when its model repository, not the model, cannot be reached.
_REPOSITORY_AWAY = ("curlcode", "unable to connect", "could not connect", "connection refused", "timed out")
# Triton says this of a model that is not there, and also when it could not look.
_NOT_POLLED = "failed to poll from model repository"
_NOT_LOADED = ("request for unknown model", "is not ready", "has no available versions", "is not available")
_CONTROL_OFF = "explicit model load / unload is not allowed"
# Triton's own answer where an endpoint is restricted and the header that it wants is missing.
_RESTRICTED = "is restricted, expecting header"
_CREDENTIALS = frozenset({"401", "403", "StatusCode.UNAUTHENTICATED", "StatusCode.PERMISSION_DENIED"})
# Beside 500: the request itself cannot be answered so.
_REFUSALS = frozenset(
    {
        "400",
        "404",
        "StatusCode.ALREADY_EXISTS",
        "StatusCode.INVALID_ARGUMENT",
        "StatusCode.NOT_FOUND",
        "StatusCode.UNIMPLEMENTED",
    }
)
_BROKEN = frozenset({"500", "StatusCode.INTERNAL", "StatusCode.UNKNOWN"})


class NoAnswerError(Exception):
    """Nothing came, or nothing of Triton's: a proxy's page, a connection that broke, the end of the time."""


class ErrorAnswerError(Exception):
    """Triton, or a proxy that asks for credentials, answered with an error.

    :param status: of HTTP, or gRPC's code as the client writes it.
    """

    def __init__(self, status: str, words: str) -> None:
        super().__init__(f"{status}: {words}")
        self.status = status
        self.words = words

    def says(self, *signs: str) -> bool:
        """Return whether one of the words, in lower case, is among the answer's."""
        return any(sign in self.words.lower() for sign in signs)

    @property
    def is_not_polled(self) -> bool:
        """Return whether the repository may be what a load failed for."""
        return self.says(_NOT_POLLED)

    @property
    def is_of_triton(self) -> bool:
        """Return whether these are words by which Triton is known, where the code could be the transport's."""
        return self.says(*_NOT_LOADED, _CONTROL_OFF, _RESTRICTED, "failed to load", "failed to unload")


def error_of(call: Call[Any], answer: ErrorAnswerError, settings: TritonSettings) -> TritonError:
    """Return the error that an answer to a call means."""
    found = _common(answer, call.doing, call.model, settings)
    if found is not None:
        return found
    if call.kind is Kind.LOAD and answer.status in _REFUSALS | _BROKEN | {"StatusCode.UNAVAILABLE"}:
        return _load_failed(call, answer, settings)
    if call.kind is not Kind.LOAD and answer.status in _REFUSALS:
        return ServerRefusedError(
            f"Triton at {settings.address} refuses a request, {call.doing}",
            expected="a request that this server knows",
            found=answer.words,
            remedy="correct the request; check the server's version, too",
        )
    return unavailable(settings, call.doing, str(answer))


def inference_error(
    model: str, version: int | None, wanted: str, answer: ErrorAnswerError, settings: TritonSettings
) -> TritonError:
    """Return the error that an answer to an inference request means: the model cannot be relied on."""
    doing = f"asking {named(model, version)}"
    found = _common(answer, doing, model, settings)
    if found is not None:
        return found
    address = settings.http_address if settings.inference == "http" else settings.grpc_address
    return ModelInvalidError(
        f"{named(model, version)} at {address} answered a request with an error",
        expected=f"the outputs {wanted}",
        found=answer.words,
        remedy="if the request fits the model's signature, fix the model",
    )


def unavailable(settings: TritonSettings, doing: str, found: str) -> ServerUnavailableError:
    """Return the error for a server that gave no answer that can be used."""
    return ServerUnavailableError(
        f"Triton at {settings.address} did not answer {doing}",
        expected="an answer",
        found=found,
        remedy=f"check the server and the connection {settings.conn_id!r}",
    )


def _common(answer: ErrorAnswerError, doing: str, model: str, settings: TritonSettings) -> TritonError | None:
    """Return what an answer means whatever was asked, or None."""
    if answer.status in _CREDENTIALS or answer.says(_RESTRICTED):
        return CredentialsRefusedError(
            f"Triton at {settings.address} refuses the credentials, {doing}",
            expected=f"a token, headers or a certificate that it accepts, in the connection {settings.conn_id!r}",
            found=str(answer),
            remedy="correct the connection",
        )
    if answer.says(_CONTROL_OFF):
        return ServerRefusedError(
            f"Triton at {settings.address} does not allow models to be loaded and unloaded",
            expected="a server that was started with --model-control-mode=explicit",
            found=answer.words,
            remedy="restart the server with that option, or use another connection",
        )
    if answer.says(*_NOT_LOADED):
        return ModelNotLoadedError(
            f"Triton at {settings.address} does not have {model!r} ready, {doing}",
            expected="a model that is loaded",
            found=answer.words,
            remedy="load the model first, or wait until it is ready",
        )
    return None


def _load_failed(call: Call[Any], answer: ErrorAnswerError, settings: TritonSettings) -> TritonError:
    """Return the error of a load: the model is refused, or could not be looked at."""
    if answer.says(*_REPOSITORY_AWAY):
        return ServerUnavailableError(
            f"Triton at {settings.address} cannot reach its model repository",
            expected=f"the files of {call.model!r}",
            found=answer.words,
            remedy="check the server's --model-repository and its permissions",
        )
    return LoadRefusedError(
        f"Triton at {settings.address} refuses to load {call.model!r}",
        expected="a model that loads",
        found=answer.words,
        remedy="read the server's log, then fix the model or its configuration",
    )
