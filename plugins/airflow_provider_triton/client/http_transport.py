"""Calls over HTTP: each within its time, whole, and no longer than an answer of Triton's can be."""

from __future__ import annotations

import json
import ssl
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from airflow_provider_triton.client.calls import Call, Kind, model_path
from airflow_provider_triton.client.failures import ErrorAnswerError, NoAnswerError
from airflow_provider_triton.client.settings import TritonSettings
from airflow_provider_triton.client.tensors import LENGTH_HEADER, Arrays, http_arrays, http_body

if (
    TYPE_CHECKING
):  # it reads the machine's certificates when it is imported, which parsing a DAG need not wait for
    import aiohttp

_DOCUMENT_BYTES_LIMIT = 64 * 2**20
_TENSORS_BYTES_LIMIT = 2 * 2**30
_SHOWN_BYTES = 300
# What Triton says of a server or a model that is not ready.
_NOT_READY = frozenset({400, 404})
_CREDENTIALS = frozenset({401, 403})


@dataclass(frozen=True)
class _Reply:
    status: int
    headers: Mapping[str, str]
    body: bytes

    def shown(self) -> str:
        return f"HTTP {self.status}: {self.body[:_SHOWN_BYTES].decode(errors='replace')}"


class HttpTransport:
    """The HTTP endpoint of one server. A connection lasts for one call, or for an `open` block.

    A connection that is kept alive would keep a stopping server waiting for its whole exit timeout.
    """

    def __init__(self, settings: TritonSettings) -> None:
        self._settings = settings

    @cached_property
    def _tls(self) -> ssl.SSLContext | bool:
        return self._settings.tls_context() if self._settings.tls else True

    @asynccontextmanager
    async def open(self) -> AsyncIterator[HttpSession]:
        """Give what sends calls, for as long as the block runs."""
        import aiohttp

        connector = aiohttp.TCPConnector(ssl=self._tls, limit=0)
        jar = aiohttp.DummyCookieJar()
        async with aiohttp.ClientSession(connector=connector, cookie_jar=jar) as session:
            yield HttpSession(self._settings, session)


class HttpSession:
    """Sends calls."""

    def __init__(self, settings: TritonSettings, session: aiohttp.ClientSession) -> None:
        self._settings = settings
        self._session = session

    async def send(self, call: Call[Any], limit_s: float) -> Any:
        """Return the answer's document.

        :raises ErrorAnswerError: the answer is an error.
        :raises NoAnswerError: there is none, or none of Triton's.
        """
        method = "GET" if call.body is None else "POST"
        body = None if call.body is None else json.dumps(call.body).encode()
        reply = await self._reply(
            method, call.path, body, {"Content-Type": "application/json"}, limit_s, _DOCUMENT_BYTES_LIMIT
        )
        if call.kind is Kind.HEALTH and reply.status in _NOT_READY | {200}:
            return reply.status == 200
        if reply.status != 200:
            raise _error(reply)
        return _parsed(reply) if reply.body else None

    async def infer(
        self,
        model: str,
        version: int | None,
        inputs: Mapping[str, np.ndarray],
        outputs: Sequence[str],
        limit_s: float,
    ) -> Arrays:
        """Return the outputs of one inference request.

        :raises ErrorAnswerError: the answer is an error, or lacks an output.
        :raises NoAnswerError: there is none, or none of Triton's.
        """
        body, headers = http_body(inputs, outputs)
        reply = await self._reply(
            "POST", f"{model_path(model, version)}/infer", body, headers, limit_s, _TENSORS_BYTES_LIMIT
        )
        if reply.status != 200:
            raise _error(reply)
        try:
            return http_arrays(reply.body, reply.headers.get(LENGTH_HEADER), outputs)
        except ValueError as error:
            raise ErrorAnswerError("200", str(error)) from error

    async def _reply(
        self,
        method: str,
        path: str,
        body: bytes | None,
        headers: Mapping[str, str],
        limit_s: float,
        bytes_limit: int,
    ) -> _Reply:
        import aiohttp
        from yarl import URL

        limits = aiohttp.ClientTimeout(total=limit_s, sock_connect=self._settings.connect_timeout_s)
        try:
            async with self._session.request(
                method,
                URL(f"{self._settings.url}/{path}", encoded=True),
                data=body,
                headers={**headers, **self._settings.headers},
                timeout=limits,
                # A login page is not an answer.
                allow_redirects=False,
            ) as answer:
                parts, size = [], 0
                async for part in answer.content.iter_any():
                    parts.append(part)
                    size += len(part)
                    if size > bytes_limit:
                        raise NoAnswerError(f"more than {bytes_limit} bytes")
                return _Reply(answer.status, answer.headers, b"".join(parts))
        except (aiohttp.ClientError, OSError) as error:  # a TimeoutError is one of the latter
            raise NoAnswerError(f"{type(error).__name__}: {error}") from error


def _parsed(reply: _Reply) -> Any:
    try:
        return json.loads(reply.body)
    except (ValueError, RecursionError) as error:
        raise NoAnswerError(reply.shown()) from error


def _error(reply: _Reply) -> Exception:
    """Return what a status that is not 200 means; without Triton's own form it is a proxy's."""
    try:
        words = json.loads(reply.body)["error"]
    except (ValueError, KeyError, TypeError, RecursionError):
        words = None
    if isinstance(words, str):
        return ErrorAnswerError(str(reply.status), words)
    if reply.status in _CREDENTIALS:
        return ErrorAnswerError(str(reply.status), reply.shown())
    return NoAnswerError(reply.shown())
