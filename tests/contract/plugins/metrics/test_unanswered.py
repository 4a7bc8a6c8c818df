"""Requests that began and were never answered, before a real Envoy, scraped and through a real Prometheus."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from slipway.metrics.source import MetricsSource, metrics_source
from slipway_core.metrics.samples import Reading, Sample, reading_delta
from slipway_core.spec.release_file import parse_release_spec
from slipway_sandbox.host.ports import free_port
from slipway_sandbox.services.router import Router, envoy_argv
from slipway_sandbox.services.routing import Backend, Ingress, Routing
from tests.support.monitoring.prometheus import Process, StartPrometheus
from tests.support.waiting import wait_until

pytestmark = pytest.mark.timeout(600)

ANSWERS, NOBODY, FULL = "answers-00001", "nobody-00001", "full-00001"
LIMIT_S = 2.0


@contextmanager
def full_listener() -> Iterator[int]:
    """A port whose backlog is full: nothing connects there, and nothing is refused."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        held = [socket.socket() for _ in range(4)]
        for one in held:
            one.setblocking(False)
            one.connect_ex(listener.getsockname())
        yield int(listener.getsockname()[1])
        for one in held:
            one.close()


class Endpoints:
    """A router before a server that answers, one that nobody runs, and one to which nothing connects."""

    def __init__(self, ingress: int, admin: int) -> None:
        self.ingress, self.admin = ingress, admin
        self.session = aiohttp.ClientSession()

    async def ask(self, revision: str, path: str = "/", patience_s: float = 10.0) -> int | None:
        """Ask a revision; None: the client gave up."""
        try:
            async with self.session.post(
                f"http://127.0.0.1:{self.ingress}{path}",
                headers={"Host": f"{revision}.test"},
                timeout=aiohttp.ClientTimeout(total=patience_s),
            ) as answer:
                await answer.read()
                return answer.status
        except TimeoutError:
            return None

    async def ask_often(
        self, times: int, revision: str, path: str = "/", patience_s: float = 10.0
    ) -> list[Any]:
        """Ask at once, so many times."""
        return await asyncio.gather(*(self.ask(revision, path, patience_s) for _ in range(times)))


async def _answer(request: web.Request) -> web.Response:
    if request.path == "/hang":
        await asyncio.sleep(60)
    return web.json_response({})


def before_envoy(directory: Path, story: Callable[[Endpoints], Coroutine[Any, Any, None]]) -> None:
    """Carry a story out before a real Envoy."""

    async def told(full: int) -> None:
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", _answer)
        runner = web.AppRunner(app, shutdown_timeout=0.1)
        await runner.setup()
        ports = {ANSWERS: free_port(), NOBODY: free_port(), FULL: full}
        await web.TCPSite(runner, "127.0.0.1", ports[ANSWERS]).start()
        ingress, admin = free_port(), free_port()
        envoy = Process(envoy_argv(directory, ingress, admin, workers=1), directory / "log")
        envoy.start()
        asked = Endpoints(ingress, admin)
        try:
            router = Router(directory, f"http://127.0.0.1:{admin}")
            await router.wait_ready()
            backends = tuple(Backend(name, port, free_port()) for name, port in ports.items())
            routes = tuple(Ingress(name, (f"{name}.test",), ((name, 100),)) for name in ports)
            await router.apply(Routing(backends, routes))
            await story(asked)
        finally:
            await asked.session.close()
            envoy.end()
            await runner.cleanup()

    with full_listener() as full:
        asyncio.run(told(full))


@pytest.fixture
def source(monkeypatch: pytest.MonkeyPatch) -> Callable[[int, str], MetricsSource]:
    """Makes a source as a release does."""

    def make(port: int, metrics: str) -> MetricsSource:
        connection = {"conn_type": "http", "host": "127.0.0.1", "port": port}
        monkeypatch.setenv("AIRFLOW_CONN_SLIPWAY_METRICS", json.dumps(connection))
        text = f"model: table\nsource: {{}}\nrollout: {{metrics: {{unanswered_after_s: {LIMIT_S:g}{metrics}}}}}\n"
        return metrics_source(parse_release_spec(text, "table.yaml"))

    return make


REVISIONS = (ANSWERS, NOBODY, FULL)


def test_what_ends_without_an_answer_is_counted_once(
    tmp_path: Path, source: Callable[[int, str], MetricsSource]
) -> None:
    """Given up, refused, never connected, retried, hanging: each request is one, and each failure is one."""

    async def story(asked: Endpoints) -> None:
        metrics = source(asked.admin, "")
        first = await asyncio.to_thread(metrics.read, REVISIONS)

        async def since() -> dict[str, Sample]:
            now = await asyncio.to_thread(metrics.read, REVISIONS)
            return {name: reading_delta(first[name], now[name]) for name in REVISIONS}

        assert await asked.ask_often(5, ANSWERS) == [200] * 5
        assert await asked.ask_often(3, NOBODY) == [503] * 3
        assert await asked.ask_often(4, ANSWERS, "/hang", 0.3) == [None] * 4
        assert await asked.ask_often(2, FULL, patience_s=0.3) == [None] * 2
        waiting = [asyncio.create_task(asked.ask(ANSWERS, "/hang")) for _ in range(6)]
        for _ in range(100):
            seen = await since()
            if seen[ANSWERS].active == 6 and seen[ANSWERS].unanswered == 4 and seen[FULL].unanswered == 2:
                break
            await asyncio.sleep(0.05)
        by_count = {name: (one.requests, one.errors, one.unanswered, one.begun) for name, one in seen.items()}
        assert by_count == {ANSWERS: (9, 4, 4, 15), NOBODY: (3, 3, 0, 3), FULL: (2, 2, 2, 2)}
        assert seen[ANSWERS].active == 6
        for _ in range(100):
            seen = await since()
            if seen[ANSWERS].unanswered == 10:
                break
            await asyncio.sleep(0.1)
        assert (seen[ANSWERS].requests, seen[ANSWERS].errors, seen[ANSWERS].active) == (15, 10, 6)
        for one in waiting:
            one.cancel()
        for _ in range(100):
            seen = await since()
            if not seen[ANSWERS].active:
                break
            await asyncio.sleep(0.05)
        assert (seen[ANSWERS].requests, seen[ANSWERS].errors, seen[ANSWERS].active) == (15, 10, 0)

    before_envoy(tmp_path, story)


def test_through_prometheus_the_same_is_counted(
    tmp_path: Path, source: Callable[[int, str], MetricsSource], start_prometheus: StartPrometheus
) -> None:
    """The query set `envoy` sees what the scraped pages show: given up, refused and never connected."""

    async def story(asked: Endpoints) -> None:
        server = await asyncio.to_thread(
            start_prometheus,
            [
                {
                    "job_name": "router",
                    "metrics_path": "/stats/prometheus",
                    "static_configs": [{"targets": [f"127.0.0.1:{asked.admin}"]}],
                }
            ],
        )
        membership = f'envoy_cluster_membership_total{{envoy_cluster_name="{FULL}|http"}}'
        await asyncio.to_thread(server.wait_for_series, membership)
        queries = ", source: prometheus, queries: envoy, staleness_s: 5, lookback_s: 30"
        metrics = source(server.port, queries)
        first: dict[str, Reading] = dict(await asyncio.to_thread(metrics.read, REVISIONS))
        await asked.ask_often(5, ANSWERS)
        await asked.ask_often(3, NOBODY)
        await asked.ask_often(4, ANSWERS, "/hang", 0.3)
        await asked.ask_often(2, FULL, patience_s=0.3)
        wanted = {ANSWERS: (9, 4, 4, 9), NOBODY: (3, 3, 0, 3), FULL: (2, 2, 2, 2)}
        seen: dict[str, tuple[int | None, ...]] = {}

        def is_counted() -> bool:
            now = metrics.read(REVISIONS)
            for name in REVISIONS:
                sample = reading_delta(first[name], now[name].remembering(first[name]))
                seen[name] = (sample.requests, sample.errors, sample.unanswered, sample.begun)
            return seen == wanted

        await asyncio.to_thread(wait_until, is_counted, "the counts", 20)

    before_envoy(tmp_path, story)
