"""The way to S3 of one server, or of the controller: it can be shut, and objects can look different through it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

import aiohttp
from aiohttp import web
from yarl import URL

from benchmarks.chaos.gates import Loop
from slipway_sandbox.host.ports import LOOPBACK

Rewrite = Callable[[str, bytes], bytes]
"""From the path of an object and its content to what whoever goes through the gate sees."""

_UPSTREAM_LIMIT_S = 30.0
_OWN_HEADERS = frozenset(
    {"connection", "content-encoding", "content-length", "date", "server", "transfer-encoding"}
)
# Of a request they are signed or of the connection; moto checks no signature.
_NOT_SENT = frozenset({"connection", "content-length", "expect", "transfer-encoding"})


class StoreGate:
    """Everything to and from the object store, unless it is shut: then nobody listens, and what was open is broken off.

    :param upstream: the store's address.
    """

    def __init__(self, loop: Loop, upstream: str) -> None:
        self._loop, self._upstream = loop, upstream
        self._site: web.TCPSite | None = None
        self._rewrite: Rewrite | None = None
        self.is_shut = True
        self.port = 0
        self.port = loop.run(self._begin())

    @property
    def url(self) -> str:
        """Return the address by which the store is reached through the gate."""
        return f"http://{LOOPBACK}:{self.port}"

    def open(self) -> None:
        """Let everybody through. May be called when it is open."""
        self._loop.run(self._open())

    def shut(self) -> None:
        """Let nobody through. May be called when it is shut."""
        self._loop.run(self._shut())

    def show(self, rewrite: Rewrite | None) -> None:
        """Show objects as `rewrite` makes them from now on; None: as they are."""
        self._rewrite = rewrite

    def close(self) -> None:
        """Stop listening, for good."""
        self._loop.run(self._end())

    async def _begin(self) -> int:
        self._session = aiohttp.ClientSession(
            timeout=aiohttp.ClientTimeout(total=_UPSTREAM_LIMIT_S), auto_decompress=False
        )
        app = web.Application(client_max_size=1 << 30)
        app.router.add_route("*", "/{path:.*}", self._serve)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.2)
        await self._runner.setup()
        await self._open()
        return int(self._runner.addresses[0][1])

    async def _open(self) -> None:
        if self._site is None:
            self._site = web.TCPSite(self._runner, LOOPBACK, self.port, reuse_address=True)
            await self._site.start()
        self.is_shut = False

    async def _shut(self) -> None:
        self.is_shut = True
        if self._site is not None:
            site, self._site = self._site, None
            await site.stop()
        server = self._runner.server
        for connection in [] if server is None else server.connections:
            if connection.transport is not None:
                connection.transport.abort()

    async def _end(self) -> None:
        await self._session.close()
        await self._runner.cleanup()

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        headers = {name: value for name, value in request.headers.items() if name.lower() not in _NOT_SENT}
        try:
            async with self._session.request(
                request.method,
                URL(f"{self._upstream}{request.raw_path}", encoded=True),
                data=body,
                headers=headers,
            ) as answer:
                content = await answer.read()
        except (aiohttp.ClientError, OSError, TimeoutError):
            return self._broken_off(request)
        if self.is_shut:
            return self._broken_off(request)
        kept = [(name, value) for name, value in answer.headers.items() if name.lower() not in _OWN_HEADERS]
        if request.method == "HEAD":
            return await self._headers_alone(request, answer, kept)
        if self._rewrite is not None and request.method == "GET" and answer.status == 200:
            content = self._rewrite(request.path, content)
            # It is of what lies in the store.
            kept = [(name, value) for name, value in kept if not name.lower().startswith("x-amz-checksum-")]
        return web.Response(status=answer.status, body=content, headers=kept)

    @staticmethod
    async def _headers_alone(
        request: web.Request, answer: aiohttp.ClientResponse, kept: list[tuple[str, str]]
    ) -> web.StreamResponse:
        response = web.StreamResponse(status=answer.status, headers=kept)
        if "Content-Length" in answer.headers:
            response.content_length = int(answer.headers["Content-Length"])
        with suppress(aiohttp.ClientConnectionResetError):  # whoever asked is gone
            await response.prepare(request)
        return response

    @staticmethod
    def _broken_off(request: web.Request) -> web.StreamResponse:
        """Break the connection off without an answer."""
        if request.transport is not None:
            request.transport.abort()
        return web.Response(status=500)
