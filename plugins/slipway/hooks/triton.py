"""Triton Inference Server: the model-control API over HTTP, inference over gRPC."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from http.client import HTTPException
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import numpy as np
from airflow.sdk import BaseHook
from tritonclient.utils import InferenceServerException

from include.model_release.errors import (
    LoadRefusedError,
    ModelInvalidError,
    ServerUnavailableError,
    SlipwayError,
    UserError,
)
from include.model_release.triton_config.staged_paths import EXTRA as REPOSITORY_PATH
from slipway.blocking_calls import BlockingCalls
from slipway.hooks.triton_stream import AnswerStream, request_tensors

if TYPE_CHECKING:  # the clients are imported by what uses them: every parse of a DAG would pay for gRPC
    from tritonclient import grpc as triton_grpc
    from tritonclient import http as triton_http

# Triton's words when its model repository, not the model, cannot be reached.
_REPOSITORY_AWAY = ("curlcode", "unable to connect", "could not connect", "connection refused", "timed out")
# A bad model, and a configuration that cannot be used; any other status is a proxy's.
_REFUSALS = frozenset({"400", "500"})
# Triton says this of a model that is not there, and also when it could not look.
_NOT_POLLED = "failed to poll from model repository"
_CONNECT_LIMIT_S = 10.0
_GRPC_AWAY = ("StatusCode.UNAVAILABLE", "StatusCode.DEADLINE_EXCEEDED", "StatusCode.CANCELLED")


class TritonHook(BaseHook):
    """One Triton server.

    The Airflow connection gives ``host``, ``port`` (HTTP), and in its extra ``grpc_port`` (default 8001), ``ssl``
    (default false) and ``repository_path``: the folder in which the server sees its model repository as files, such
    as one mounted by Mountpoint for Amazon S3. Left out where it does not.

    :param triton_conn_id: the connection.
    :param timeout_s: limit of one control or inference request. A load answers only when it is done, so this
        must exceed the time the largest model takes.
    """

    conn_name_attr = "triton_conn_id"
    default_conn_name = "triton_staging"

    def __init__(self, triton_conn_id: str = default_conn_name, timeout_s: float = 600.0) -> None:
        super().__init__()
        self.triton_conn_id = triton_conn_id
        self.timeout_s = timeout_s

    @cached_property
    def http_address(self) -> str:
        """Return ``HOST:PORT`` of the HTTP endpoint."""
        connection = self.get_connection(self.triton_conn_id)
        return f"{connection.host}:{connection.port or 8000}"

    @cached_property
    def grpc_address(self) -> str:
        """Return ``HOST:PORT`` of the gRPC endpoint."""
        connection = self.get_connection(self.triton_conn_id)
        return f"{connection.host}:{connection.extra_dejson.get('grpc_port', 8001)}"

    @cached_property
    def repository_path(self) -> str | None:
        """Return where the server sees its model repository as files, None where nobody says.

        :raises UserError: it is no absolute path.
        """
        path = self.get_connection(self.triton_conn_id).extra_dejson.get(REPOSITORY_PATH)
        if path is not None and not str(path).startswith("/"):
            raise UserError(
                f"the extra {REPOSITORY_PATH!r} of the connection {self.triton_conn_id!r} is no absolute path",
                expected="a folder of the server's, such as /mnt/staging",
                found=str(path),
                remedy="correct it, or take it out",
            )
        return None if path is None else str(path)

    @cached_property
    def _ssl(self) -> bool:
        return bool(self.get_connection(self.triton_conn_id).extra_dejson.get("ssl", False))

    @cached_property
    def _control(self) -> triton_http.InferenceServerClient:
        from tritonclient import http as triton_http

        return triton_http.InferenceServerClient(
            self.http_address,
            ssl=self._ssl,
            connection_timeout=_CONNECT_LIMIT_S,
            network_timeout=self.timeout_s,
        )

    @cached_property
    def _inference(self) -> triton_grpc.InferenceServerClient:
        from tritonclient import grpc as triton_grpc

        return triton_grpc.InferenceServerClient(self.grpc_address, ssl=self._ssl)

    def load(self, model_name: str, config: Mapping[str, Any]) -> None:
        """Load the model with a full configuration, which is what pins its versions.

        :raises LoadRefusedError: the server has the request and will not load the model.
        :raises ServerUnavailableError: the server, or its model repository, is out of reach.
        """
        try:
            with self._translated(f"loading {model_name!r}"):
                self._control.load_model(model_name, config=json.dumps(config))
        except InferenceServerException as error:
            found = error.message() or str(error)
            if error.status() in _REFUSALS and _NOT_POLLED in found:
                self.index()  # fails, with the reason, where the repository cannot be reached
            raise self._load_failed(model_name, error.status(), found) from error

    async def load_without_thread(self, model_name: str, config: Mapping[str, Any]) -> None:
        """Load the model as `load` does, for a triggerer: while the server loads, no thread waits.

        :raises LoadRefusedError: the server has the request and will not load the model.
        :raises ServerUnavailableError: the server, or its model repository, is out of reach, or the time is up.
        """
        # It reads the machine's certificates when it is imported, which parsing a DAG need not wait for.
        import aiohttp

        scheme = "https" if self._ssl else "http"
        url = f"{scheme}://{self.http_address}/v2/repository/models/{quote(model_name, safe='')}/load"
        limits = aiohttp.ClientTimeout(total=self.timeout_s, sock_connect=_CONNECT_LIMIT_S)
        try:
            async with (
                aiohttp.ClientSession(timeout=limits) as session,
                session.post(url, json={"parameters": {"config": json.dumps(config)}}) as answer,
            ):
                status, text = answer.status, await answer.text(errors="replace")
        except (aiohttp.ClientError, OSError) as error:  # a TimeoutError is one of the latter
            raise self._unavailable(f"loading {model_name!r}", f"{type(error).__name__}: {error}") from error
        if status == 200:
            return
        found = _error_of(text)
        if str(status) in _REFUSALS and _NOT_POLLED in found:
            await BlockingCalls(f"Triton at {self.http_address}", self.timeout_s).run(self.index)
        raise self._load_failed(model_name, str(status), found)

    def _load_failed(self, model_name: str, status: str | None, found: str) -> SlipwayError:
        """Return the error that an answer to a load means: the model is refused, or could not be looked at."""
        if status not in _REFUSALS:
            return self._unavailable(f"loading {model_name!r}", f"HTTP {status}: {found}")
        if any(sign in found.lower() for sign in _REPOSITORY_AWAY):
            return ServerUnavailableError(
                f"Triton at {self.http_address} cannot reach its model repository",
                expected=f"the files of {model_name!r}",
                found=found,
                remedy="check the server's --model-repository and its rights",
            )
        return LoadRefusedError(
            f"Triton at {self.http_address} refuses to load {model_name!r}",
            expected="a model that loads",
            found=found,
            remedy="read the server's log, mend the model or its serving options, release a new version",
        )

    def unload(self, model_name: str) -> None:
        """Ask the server to unload the model; one that is not loaded is no error.

        Triton answers at once and ends the model when its last request has been answered.
        """
        with self._answered(f"unloading {model_name!r}"):
            self._control.unload_model(model_name)

    def ready_versions(self, model_name: str) -> frozenset[int]:
        """Return the versions of the model that are ready, from the repository index."""
        return frozenset(
            int(entry["version"])
            for entry in self.index()
            if entry["name"] == model_name and entry.get("state") == "READY" and entry.get("version")
        )

    def index(self) -> list[dict[str, str]]:
        """Return the repository index: one entry a model version with ``name``, ``version``, ``state``, ``reason``."""
        with self._answered("reading the repository index"):
            return list(self._control.get_model_repository_index())

    def metadata(self, model_name: str, version: int) -> dict[str, Any]:
        """Return the version's metadata in the KServe v2 form: ``inputs`` and ``outputs`` with datatype and shape."""
        with self._answered(f"reading the metadata of {model_name!r} version {version}"):
            return dict(self._control.get_model_metadata(model_name, str(version)))

    def config(self, model_name: str, version: int) -> dict[str, Any]:
        """Return the configuration the server uses for the version."""
        with self._answered(f"reading the configuration of {model_name!r} version {version}"):
            return dict(self._control.get_model_config(model_name, str(version)))

    def infer(
        self, model_name: str, version: int, inputs: Mapping[str, np.ndarray], outputs: Sequence[str]
    ) -> dict[str, np.ndarray]:
        """Send one request over gRPC.

        :param inputs: an array for each input tensor, batch dimension first.
        :param outputs: names of the output tensors wanted.
        :return: an array for each of those outputs.
        :raises ModelInvalidError: the server answered with an error about this request.
        """
        tensors, wanted = request_tensors(inputs, outputs)
        with self._asked(model_name, version, outputs):
            answer = self._inference.infer(
                model_name,
                tensors,
                model_version=str(version),
                outputs=wanted,
                client_timeout=self.timeout_s,
            )
        return {name: answer.as_numpy(name) for name in outputs}

    def infer_stream(
        self,
        model_name: str,
        version: int,
        requests: Iterable[Mapping[str, np.ndarray]],
        outputs: Sequence[str],
        *,
        concurrency: int = 8,
    ) -> list[list[dict[str, np.ndarray]]]:
        """Send requests over one gRPC stream: a decoupled model answers nowhere else, other models answer there too.

        :param requests: for each request an array for each input tensor.
        :param concurrency: requests that are under way at the same time.
        :return: for each request its responses in the order of their arrival, with those of the outputs that each
            has; a response without any of them is left out.
        :raises ModelInvalidError: the server answered with an error.
        :raises TimedOutError: a request's last response did not come within ``timeout_s``.
        """
        with self._asked(model_name, version, outputs):
            stream = AnswerStream(self._inference, model_name, version, outputs, self.timeout_s)
            with stream:
                return stream.ask(requests, concurrency)

    @contextmanager
    def _asked(self, model_name: str, version: int, outputs: Sequence[str]) -> Iterator[None]:
        """For requests in which an error answer says that the model cannot be relied on."""
        try:
            with self._translated(f"asking {model_name!r} version {version}"):
                yield
        except InferenceServerException as error:
            raise ModelInvalidError(
                f"{model_name!r} version {version} at {self.grpc_address} answered a request with an error",
                expected=f"the outputs {', '.join(outputs)}",
                found=error.message() or str(error),
                remedy="mend the model and release a new version",
            ) from error

    @contextmanager
    def _answered(self, doing: str) -> Iterator[None]:
        """For requests in which an error answer says that the server cannot be relied on."""
        try:
            with self._translated(doing):
                yield
        except InferenceServerException as error:
            raise self._unavailable(doing, error.message() or str(error)) from error

    @contextmanager
    def _translated(self, doing: str) -> Iterator[None]:
        """Let an error *answer* through and turn silence into `ServerUnavailableError`."""
        try:
            yield
        except InferenceServerException as error:
            if error.status() in _GRPC_AWAY:
                raise self._unavailable(doing, error.message() or str(error)) from error
            raise
        except (OSError, HTTPException) as error:  # HTTPException: hung up, or no HTTP at all
            raise self._unavailable(doing, f"{type(error).__name__}: {error}") from error

    def _unavailable(self, doing: str, found: str) -> ServerUnavailableError:
        return ServerUnavailableError(
            f"Triton at {self.http_address} did not answer {doing}",
            expected="an answer",
            found=found,
            remedy=f"check the server and the connection {self.triton_conn_id!r}",
        )


def _error_of(text: str) -> str:
    """Return what an answer of Triton's, or of something before it, says of an error."""
    try:
        return str(json.loads(text)["error"])
    except (ValueError, KeyError, TypeError, RecursionError):
        return text[:500]
