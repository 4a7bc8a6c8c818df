"""Calls over gRPC by Triton's own clients: the blocking one for a worker, the asynchronous one for a triggerer."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from tritonclient.utils import InferenceServerException

from airflow_provider_triton.client.calls import Call, Kind
from airflow_provider_triton.client.failures import ErrorAnswerError, NoAnswerError
from airflow_provider_triton.client.settings import TritonSettings
from airflow_provider_triton.client.tensors import Arrays, arrays_of, grpc_tensors

if TYPE_CHECKING:  # the clients are imported by what uses them: every parse of a DAG would pay for gRPC
    from tritonclient import grpc as triton_grpc
    from tritonclient.grpc import aio as triton_aio

_MESSAGE_LIMIT = 2**31 - 1
# Codes that the transport gives where no answer came; Triton gives the first two as well, in its own words.
_AWAY = frozenset({"StatusCode.UNAVAILABLE", "StatusCode.DEADLINE_EXCEEDED", "StatusCode.CANCELLED"})


class GrpcTransport:
    """The gRPC endpoint of one server, for calls that block.

    Its client is made at the first call, and kept: it is a channel that connects again by itself.
    """

    def __init__(self, settings: TritonSettings) -> None:
        self._settings = settings

    @cached_property
    def client(self) -> triton_grpc.InferenceServerClient:
        """The client, for what is asked over a stream."""
        from tritonclient import grpc as triton_grpc

        return triton_grpc.InferenceServerClient(self._settings.grpc_address, **_options(self._settings))

    @property
    def headers(self) -> dict[str, str]:
        """What each request carries."""
        return _headers(self._settings)

    def send(self, call: Call[Any], limit_s: float) -> Any:
        """Return the answer's document.

        :raises ErrorAnswerError: the answer is an error.
        :raises NoAnswerError: there is none, or none of Triton's.
        """
        with translated():
            return getattr(self.client, call.rpc)(
                **_arguments(call), headers=self.headers, client_timeout=limit_s
            )

    def infer(
        self,
        model: str,
        version: int | None,
        inputs: Mapping[str, np.ndarray],
        outputs: Sequence[str],
        limit_s: float,
    ) -> Arrays:
        """Return the outputs of one inference request; errors as of `send`."""
        tensors, wanted = grpc_tensors(inputs, outputs)
        with translated():
            answer = self.client.infer(
                model,
                tensors,
                model_version="" if version is None else str(version),
                outputs=wanted,
                client_timeout=limit_s,
                headers=self.headers,
            )
            return arrays_of(answer, outputs)


class AsyncGrpcTransport:
    """The gRPC endpoint of one server, for an event loop. A channel lasts as long as an `open` block."""

    def __init__(self, settings: TritonSettings) -> None:
        self._settings = settings

    @asynccontextmanager
    async def open(self) -> AsyncIterator[AsyncGrpcSession]:
        """Give what sends calls, for as long as the block runs."""
        from tritonclient.grpc import aio as triton_aio

        client = triton_aio.InferenceServerClient(self._settings.grpc_address, **_options(self._settings))
        async with client:
            yield AsyncGrpcSession(self._settings, client)


class AsyncGrpcSession:
    """Sends calls."""

    def __init__(self, settings: TritonSettings, client: triton_aio.InferenceServerClient) -> None:
        self._headers = _headers(settings)
        self._client = client

    async def send(self, call: Call[Any], limit_s: float) -> Any:
        """Return the answer's document; errors as of `GrpcTransport.send`."""
        with translated():
            return await getattr(self._client, call.rpc)(
                **_arguments(call), headers=self._headers, client_timeout=limit_s
            )

    async def infer(
        self,
        model: str,
        version: int | None,
        inputs: Mapping[str, np.ndarray],
        outputs: Sequence[str],
        limit_s: float,
    ) -> Arrays:
        """Return the outputs of one inference request; errors as of `GrpcTransport.send`."""
        tensors, wanted = grpc_tensors(inputs, outputs)
        with translated():
            answer = await self._client.infer(
                model,
                tensors,
                model_version="" if version is None else str(version),
                outputs=wanted,
                client_timeout=limit_s,
                headers=self._headers,
            )
            return arrays_of(answer, outputs)


@contextmanager
def translated() -> Iterator[None]:
    """Tell an error that Triton answered with from an answer that did not come.

    :raises ErrorAnswerError: the former.
    :raises NoAnswerError: the latter.
    """
    try:
        yield
    except InferenceServerException as error:
        status, words = str(error.status()), error.message() or str(error)
        answer = ErrorAnswerError(status, words)
        if status in _AWAY and not answer.is_of_triton:
            raise NoAnswerError(f"{status}: {words}") from error
        raise answer from error
    except ValueError as error:
        raise ErrorAnswerError("StatusCode.OK", str(error)) from error
    except OSError as error:
        raise NoAnswerError(f"{type(error).__name__}: {error}") from error


def _arguments(call: Call[Any]) -> dict[str, Any]:
    answers_json = call.kind is Kind.QUESTION or call.rpc.startswith("update_")
    return {**call.arguments, "as_json": True} if answers_json else dict(call.arguments)


def _headers(settings: TritonSettings) -> dict[str, str]:
    return {name.lower(): value for name, value in settings.headers.items()}


def _options(settings: TritonSettings) -> dict[str, Any]:
    """Return what both clients are made with."""
    import grpc

    connect_ms = int(1000 * settings.connect_timeout_s)
    options: dict[str, Any] = {
        "channel_args": [
            ("grpc.max_send_message_length", _MESSAGE_LIMIT),
            ("grpc.max_receive_message_length", _MESSAGE_LIMIT),
            ("grpc.min_reconnect_backoff_ms", connect_ms),
        ]
    }
    if settings.tls:
        ca, key, certificate = settings.pem()
        options["creds"] = grpc.ssl_channel_credentials(ca, key, certificate)
    return options
