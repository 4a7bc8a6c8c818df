"""The servers behind an InferenceService's address, asked over the V2 REST protocol as its users are."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar
from urllib.parse import quote

import aiohttp

from slipway.hooks.ingress import Endpoint
from slipway_core.errors import ServerUnavailableError, UserError

T = TypeVar("T")

_CONNECT_LIMIT_S = 10.0
_ANSWER_BYTES_LIMIT = 64 * 1024 * 1024
# What a proxy says where no server answers.
_AWAY = frozenset({502, 503, 504})
_SHOWN_BYTES = 300


@dataclass(frozen=True)
class Reply:
    """What came of one request: the status, the headers in lower case, the body, and how long it took."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    latency_ms: float


class LiveServerHook:
    """The live servers of one model.

    It is no hook with a connection of its own: the InferenceService has the address, and `IngressHook` the way to it.

    :param endpoint: where to connect, and which host to ask for.
    :param timeout_s: limit of one request, to the last byte of its answer: a server that drips does not answer.
    """

    def __init__(self, endpoint: Endpoint, timeout_s: float) -> None:
        self._endpoint = endpoint
        self._timeout_s = timeout_s

    def metadata(self, model: str) -> dict[str, Any]:
        """Return a model's metadata; its `versions` are those that the server has ready.

        :raises ServerUnavailableError: there is no answer, or none of Triton's.
        """
        return self._document(f"/v2/models/{quote(model, safe='')}")

    def config(self, model: str) -> dict[str, Any]:
        """Return the configuration that one of the servers uses; each call is a new connection.

        :raises ServerUnavailableError: there is no answer, or none of Triton's.
        """
        return self._document(f"/v2/models/{quote(model, safe='')}/config")

    def post_each(self, requests: Sequence[tuple[str, bytes, Mapping[str, str]]]) -> list[Reply]:
        """Send requests, one after the other over one connection; return what came of each, whatever its status.

        :param requests: path, body and headers of each.
        :raises ServerUnavailableError: one got no answer within the limit, or a proxy's that there is no server.
        """

        async def post(session: aiohttp.ClientSession) -> list[Reply]:
            return [await self._ask(session, "POST", path, body, headers) for path, body, headers in requests]

        replies = self._run(post)
        for (path, _, _), reply in zip(requests, replies, strict=True):
            if reply.status in _AWAY:
                raise self._unavailable(path, _shown(reply))
        return replies

    def _document(self, path: str) -> dict[str, Any]:
        reply = self._run(lambda session: self._ask(session, "GET", path))
        try:
            found = json.loads(reply.body) if reply.status == 200 else None
        except (ValueError, RecursionError):
            found = None
        if isinstance(found, dict):
            return found
        raise self._unavailable(path, _shown(reply))

    def _run(self, ask: Callable[[aiohttp.ClientSession], Coroutine[Any, Any, T]]) -> T:
        async def whole() -> T:
            timeout = aiohttp.ClientTimeout(total=self._timeout_s, sock_connect=_CONNECT_LIMIT_S)
            async with aiohttp.ClientSession(
                timeout=timeout, cookie_jar=aiohttp.DummyCookieJar(), auto_decompress=True
            ) as session:
                return await ask(session)

        return asyncio.run(whole())

    async def _ask(
        self,
        session: aiohttp.ClientSession,
        method: str,
        path: str,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Reply:
        began = time.perf_counter()
        try:
            async with session.request(
                method,
                self._endpoint.base_url + path,
                data=body,
                headers={**(headers or {}), "Host": self._endpoint.host},
                allow_redirects=False,
            ) as answer:
                parts, size = [], 0
                async for part in answer.content.iter_any():
                    parts.append(part)
                    size += len(part)
                    if size > _ANSWER_BYTES_LIMIT:
                        raise UserError(
                            f"the live server's answer to {path} is too large",
                            expected=f"at most {_ANSWER_BYTES_LIMIT} bytes",
                            found="more",
                            remedy="use fewer rows: `revalidation.golden_rows`",
                        )
                headers = {name.lower(): value for name, value in answer.headers.items()}
                latency_ms = 1000.0 * (time.perf_counter() - began)
                return Reply(answer.status, headers, b"".join(parts), latency_ms)
        except (aiohttp.ClientError, OSError) as error:  # a TimeoutError is one of the latter
            raise self._unavailable(path, f"{type(error).__name__}: {error}") from error

    def _unavailable(self, path: str, found: str) -> ServerUnavailableError:
        return ServerUnavailableError(
            f"the live server {self._endpoint.host} did not answer {path}",
            expected=f"an answer from Triton within {self._timeout_s:g} s",
            found=found,
            remedy="check that its pods are ready, and check the connection `slipway_ingress`",
        )


def _shown(reply: Reply) -> str:
    return f"HTTP {reply.status}: {reply.body[:_SHOWN_BYTES].decode(errors='replace')}"
