"""gRPC calls that are never answered, and streams that are open for long, before a real Envoy."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import grpc
import pytest

from slipway.metrics.sources.scrape import EnvoyMetricsHook
from slipway_core.metrics.samples import Sample, reading_delta
from slipway_sandbox.host.ports import free_port
from slipway_sandbox.services.router import Router, envoy_argv
from slipway_sandbox.services.routing import Backend, Ingress, Routing
from tests.support.monitoring.prometheus import Process

pytestmark = pytest.mark.timeout(600)

SERVED, NOBODY = "served-00001", "nobody-00001"
LIMIT_S = 1.0


class Calls(grpc.GenericRpcHandler):
    """Methods by name: `answer`, `fail`, `hang`, and `stream`, which answers each message until it is closed."""

    def service(self, handler_call_details: Any) -> Any:
        method = handler_call_details.method.rpartition("/")[2]
        if method == "stream":
            return grpc.stream_stream_rpc_method_handler(self._stream)
        return grpc.unary_unary_rpc_method_handler(getattr(self, f"_{method}"))

    async def _answer(self, request: bytes, context: Any) -> bytes:
        return request

    async def _fail(self, request: bytes, context: Any) -> None:
        await context.abort(grpc.StatusCode.INTERNAL, "no")

    async def _hang(self, request: bytes, context: Any) -> bytes:
        await asyncio.sleep(60)
        return request

    async def _stream(self, requests: Any, context: Any) -> Any:
        async for one in requests:
            yield one


def test_calls_are_counted_and_streams_have_no_age(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A call that its client gives up is an error; a stream that is open for longer than the limit is none."""
    asyncio.run(_story(tmp_path, monkeypatch))


async def _story(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ports = {SERVED: free_port(), NOBODY: free_port()}
    server = grpc.aio.server()
    server.add_generic_rpc_handlers((Calls(),))
    server.add_insecure_port(f"127.0.0.1:{ports[SERVED]}")
    await server.start()
    ingress, admin = free_port(), free_port()
    envoy = Process(envoy_argv(directory, ingress, admin, workers=1), directory / "log")
    envoy.start()
    try:
        router = Router(directory, f"http://127.0.0.1:{admin}")
        await router.wait_ready()
        backends = tuple(Backend(name, free_port(), port) for name, port in ports.items())
        routes = tuple(Ingress(name, (f"{name}.test",), ((name, 100),)) for name in ports)
        await router.apply(Routing(backends, routes))
        connection = {"conn_type": "http", "host": "127.0.0.1", "port": admin}
        monkeypatch.setenv("AIRFLOW_CONN_SLIPWAY_METRICS", json.dumps(connection))
        await _asked(EnvoyMetricsHook(unanswered_after_s=LIMIT_S), ingress)
    finally:
        envoy.end()
        await server.stop(0)


async def _asked(metrics: EnvoyMetricsHook, ingress: int) -> None:
    first = await asyncio.to_thread(metrics.read, [SERVED, NOBODY])

    async def until(revision: str, wanted: tuple[int, int, int, int | None]) -> Sample:
        """Wait for (requests, errors, unanswered, active)."""
        for _ in range(100):
            now = await asyncio.to_thread(metrics.read, [SERVED, NOBODY])
            seen = reading_delta(first[revision], now[revision])
            if (seen.requests, seen.errors, seen.unanswered, seen.active) == wanted:
                break
            await asyncio.sleep(0.05)
        assert (seen.requests, seen.errors, seen.unanswered, seen.active) == wanted
        return seen

    def channel(revision: str) -> Any:
        return grpc.aio.insecure_channel(
            f"127.0.0.1:{ingress}", options=[("grpc.default_authority", f"{revision}.test")]
        )

    async def ask(to: Any, method: str) -> grpc.StatusCode:
        try:
            await to.unary_unary(f"/test/{method}")(b"x", timeout=60.0)
        except grpc.aio.AioRpcError as error:
            return error.code()
        return grpc.StatusCode.OK

    async with channel(SERVED) as served, channel(NOBODY) as nobody:
        assert [await ask(served, "answer") for _ in range(3)] == [grpc.StatusCode.OK] * 3
        assert await ask(served, "fail") == grpc.StatusCode.INTERNAL
        # Given up, not ended by a deadline: that the server knows too, and may answer with a status.
        hanging = [served.unary_unary("/test/hang")(b"x") for _ in range(2)]
        await until(SERVED, (4, 1, 0, 2))
        for call in hanging:
            call.cancel()
        assert [await ask(nobody, "answer") for _ in range(2)] == [grpc.StatusCode.UNAVAILABLE] * 2
        await until(SERVED, (6, 3, 2, 0))
        assert (await until(NOBODY, (2, 2, 0, 0))).begun == 2
        streams = [served.stream_stream("/test/stream")() for _ in range(4)]
        for one in streams:
            await one.write(b"x")
            assert await one.read() == b"x"
        opened = asyncio.get_running_loop().time()
        await until(SERVED, (6, 3, 2, 4))
        while asyncio.get_running_loop().time() < opened + 3 * LIMIT_S:
            await until(SERVED, (6, 3, 2, 4))
            await asyncio.sleep(0.2)
        for one in streams[:3]:
            await one.done_writing()
            assert await one.read() is grpc.aio.EOF
        streams[3].cancel()
        await until(SERVED, (10, 4, 3, 0))
