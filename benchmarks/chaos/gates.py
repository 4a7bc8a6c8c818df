"""What stands between a release and its servers: a way that can be shut, a cluster API whose answers can be lost."""

from __future__ import annotations

import asyncio
import json
import re
import threading
import time
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import aiohttp
from aiohttp import web

from benchmarks.chaos.plan import LEASES, RECORDS, SERVICES, Fault
from slipway_core.rollout.lease import micro_time

LOOPBACK = "127.0.0.1"
_CONFLICT = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Conflict", "code": 409}
_WRITES = ("POST", "PATCH", "PUT", "DELETE")
_EVENT = re.compile(rb"PUT /[^ ]*records/")
_FORWARDED = ("Authorization", "Content-Type", "Accept")


class Loop:
    """An event loop in a thread of its own, for the gates."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, daemon=True).start()

    def run(self, coroutine: Coroutine[Any, Any, Any], within_s: float = 10.0) -> Any:
        """Runs it there and waits for its result."""
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(within_s)

    def close(self) -> None:
        """Ends the thread."""
        self._loop.call_soon_threadsafe(self._loop.stop)


class Gate:
    """Bytes to and from another port, unless it is shut: then nobody listens, and what was open is broken off.

    :param kill: kills the task, for faults that happen when it begins to write an event of the record.
    """

    def __init__(
        self, loop: Loop, upstream_port: int, kill: Callable[[bool], None] = lambda stays: None
    ) -> None:
        self._loop, self._upstream_port, self._kill = loop, upstream_port, kill
        self.begin((), lambda fault: None)
        self._server: asyncio.Server | None = None
        self._open: set[asyncio.StreamWriter] = set()
        self.port = 0
        self.open()

    def begin(self, faults: tuple[Fault, ...], report: Callable[[Fault], None]) -> None:
        """Waits for the events of the record at which these faults happen; `report` hears when one does."""
        self._report, self._events = report, 0
        self._faults = {fault.nth: fault for fault in faults if fault.resource == RECORDS}

    def open(self) -> None:
        """Lets everybody through."""
        self._loop.run(self._listen())

    def shut(self) -> None:
        """Lets nobody through. May be called when it is shut."""
        self._loop.run(self._shut())

    async def _listen(self) -> None:
        if self._server is None:
            self._server = await asyncio.start_server(self._serve, LOOPBACK, self.port, reuse_address=True)
            self.port = self._server.sockets[0].getsockname()[1]

    async def _shut(self) -> None:
        if self._server is not None:
            self._server.close()
            self._server = None
        for writer in self._open:
            writer.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open.add(writer)
        try:
            there, back = await asyncio.open_connection(LOOPBACK, self._upstream_port)
        except OSError:
            writer.transport.abort()
            self._open.discard(writer)
            return
        self._open.add(back)
        await asyncio.gather(_pump(reader, back, self._watch), _pump(there, writer))
        self._open -= {writer, back}

    def _watch(self, content: bytes) -> None:
        if not _EVENT.match(content):
            return
        self._events += 1
        fault = self._faults.pop(self._events, None)
        if fault is not None:
            self._report(fault)
            asyncio.get_running_loop().call_later(fault.seconds, self._kill, False)


async def _pump(
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    watch: Callable[[bytes], None] = lambda content: None,
) -> None:
    with suppress(OSError):
        while content := await reader.read(1 << 16):
            watch(content)
            writer.write(content)
            await writer.drain()
    with suppress(OSError):
        writer.close()


@dataclass(frozen=True)
class Write:
    """A write of the task and what the cluster made of it; `status` is None where the cluster was never asked.

    `at` and `done_at` are unix seconds.
    """

    at: float
    done_at: float
    method: str
    resource: str
    body: dict[str, Any]
    status: int | None

    @property
    def accepted(self) -> bool:
        """Whether it has changed something."""
        return self.status is not None and self.status < 300

    @property
    def renews(self) -> bool:
        """Whether it took or renewed a lease."""
        return self.accepted and self.resource == LEASES and "renewTime" in self.body.get("spec", {})


class ClusterGate:
    """The cluster's API as a release reaches it; writes can be given faults.

    :param kill: kills the task, for faults of that kind, and is given whether it stays dead.
    """

    def __init__(self, loop: Loop, upstream_url: str, kill: Callable[[bool], None]) -> None:
        self._loop, self._upstream, self._kill = loop, upstream_url, kill
        self._late: set[asyncio.Task[Any]] = set()
        self.begin((), lambda fault: None)
        self.port: int = loop.run(self._listen())

    def begin(self, faults: tuple[Fault, ...], report: Callable[[Fault], None]) -> None:
        """Forgets what was and waits for the writes at which these faults happen; `report` hears when one does."""
        self.writes: list[Write] = []
        self._report = report
        self._counts = {LEASES: 0, SERVICES: 0}
        self._faults = {
            (fault.resource, fault.nth): fault for fault in faults if fault.resource in self._counts
        }
        self._skew_s = sum(fault.seconds for fault in faults if fault.kind == "clock_skewed")

    def close(self) -> None:
        """Stops listening."""
        self._loop.run(self._end())

    async def _listen(self) -> int:
        self._session = aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=30))
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", self._serve)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.5)
        await self._runner.setup()
        site = web.TCPSite(self._runner, LOOPBACK, 0)
        await site.start()
        return int(self._runner.addresses[0][1])

    async def _end(self) -> None:
        await self._session.close()
        await self._runner.cleanup()

    async def _serve(self, request: web.Request) -> web.Response:
        body = await request.read()
        resource = next((name for name in self._counts if f"/{name}" in request.path), None)
        if resource is None or request.method not in _WRITES:
            return await self._forwarded(request, body) or self._dropped(request)
        self._counts[resource] += 1
        fault = self._faults.pop((resource, self._counts[resource]), None)
        if fault is not None:
            self._report(fault)
        return await self._written(request, resource, body, fault)

    async def _written(
        self, request: web.Request, resource: str, body: bytes, fault: Fault | None
    ) -> web.Response:
        kind = None if fault is None else fault.kind
        seconds = 0.0 if fault is None else fault.seconds
        if kind in ("killed_before_write", "write_comes_late"):
            self._kill(False)
            if kind == "write_comes_late":
                late = asyncio.create_task(self._write(request, resource, body, seconds))
                self._late.add(late)
                late.add_done_callback(self._late.discard)
            return self._dropped(request)
        if kind == "write_refused":
            return web.json_response(_CONFLICT, status=409)
        answer = await self._write(request, resource, body, seconds if kind == "write_delayed" else 0.0)
        if kind in ("killed_after_write", "lost_after_write"):
            self._kill(kind == "lost_after_write")
        if answer is None or kind in ("killed_after_write", "lost_after_write", "answer_lost"):
            return self._dropped(request)
        return answer

    async def _write(
        self, request: web.Request, resource: str, body: bytes, after_s: float
    ) -> web.Response | None:
        await asyncio.sleep(after_s)
        writes, at = self.writes, time.time()
        value = json.loads(body) if body else {}
        for name in ("renewTime", "acquireTime"):
            if resource == LEASES and name in value.get("spec", {}):
                value["spec"][name] = _shifted(value["spec"][name], self._skew_s)
        answer = await self._forwarded(request, json.dumps(value).encode() if body else body)
        status = None if answer is None else answer.status
        writes.append(Write(at, time.time(), request.method, resource, value, status))
        return answer

    async def _forwarded(self, request: web.Request, body: bytes) -> web.Response | None:
        """The cluster's answer; None where it is away."""
        headers = {name: request.headers[name] for name in _FORWARDED if name in request.headers}
        try:
            async with self._session.request(
                request.method, f"{self._upstream}{request.path_qs}", data=body or None, headers=headers
            ) as answer:
                content = await answer.read()
                kept = {"Content-Type": answer.headers.get("Content-Type", "application/json")}
                return web.Response(status=answer.status, body=content, headers=kept)
        except (aiohttp.ClientError, OSError, TimeoutError):
            return None

    @staticmethod
    def _dropped(request: web.Request) -> web.Response:
        """Breaks the connection off without an answer."""
        if request.transport is not None:
            request.transport.abort()
        return web.Response(status=500)


def _shifted(time_text: str, by_s: float) -> str:
    return micro_time(datetime.fromisoformat(time_text) + timedelta(seconds=by_s))
