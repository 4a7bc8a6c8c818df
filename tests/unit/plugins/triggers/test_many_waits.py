"""A triggerer with many waits, and a canary among them that must be taken back at once."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from typing import Any, cast

import pytest

from airflow_provider_triton.triggers.triton import TritonLoadModelTrigger
from slipway import release_context
from slipway.hooks.inference_service import KServeHook
from slipway.release_run import ReleaseRun
from slipway.traffic.raise_permit import RaisePermit
from slipway.triggers.first_deploy import FirstDeployTrigger
from slipway_sandbox.lab.simulation.knative_model import KnativeModel
from tests.support.canary.doubles import CANDIDATE_URI, LeaseDouble, ServiceDouble
from tests.support.plugins.watching import FAILING, HEALTHY, LONG, watch
from tests.support.waiting import until

LOADS, FIRST_DEPLOYMENTS = 200, 20
AT_ONCE_S = 1.0
Live = Callable[..., KnativeModel]


@asynccontextmanager
async def silent_server() -> AsyncIterator[tuple[int, list[str]]]:
    """A server that takes every request and answers none; its port, and the first lines that came."""
    came: list[str] = []
    ended = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        came.append((await reader.readline()).decode())
        await ended.wait()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, backlog=LOADS)
    try:
        yield server.sockets[0].getsockname()[1], came
    finally:
        ended.set()
        server.close()


@pytest.fixture
def never_live(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """InferenceServices of first deployments that never get ready."""

    class NeverLive(ServiceDouble):
        def get(self) -> dict[str, Any] | None:
            return None if self.model is None else self.model.as_object()

    monkeypatch.setattr(release_context, "KServeHook", lambda *_: cast(KServeHook, NeverLive(None)))
    monkeypatch.setattr(RaisePermit, "require", lambda *_: None)
    return


async def test_a_bad_candidate_is_shielded_at_once_among_200_waiting_loads(
    release_run: ReleaseRun, live: Live, monkeypatch: pytest.MonkeyPatch, never_live: None
) -> None:
    """Loads and first deployments that wait hold no thread, and the canary has threads of its own."""
    first = release_run.model_copy(update={"stable": None}).model_dump(mode="json")
    async with silent_server() as (port, came):
        connection = {"conn_type": "generic", "host": "127.0.0.1", "port": port}
        monkeypatch.setenv("AIRFLOW_CONN_TRITON_STAGING", json.dumps(connection))
        triggers = [TritonLoadModelTrigger("triton_staging", [("digits", {})], 300.0) for _ in range(LOADS)]
        deployments = [
            FirstDeployTrigger(release=first, kubernetes_conn_id="kubernetes_default")
            for _ in range(FIRST_DEPLOYMENTS)
        ]
        waits = [asyncio.create_task(anext(aiter(one.run()))) for one in (*triggers, *deployments)]
        try:
            await until(lambda: len(came) == LOADS, 60)
            assert all(line.startswith("POST /v2/repository/models/digits/load ") for line in came)
            model, lease = live(), LeaseDouble()
            watched, _, _ = watch(release_run, model, FAILING, lease=lease)
            async with asyncio.timeout(60):
                assert await watched.run() == "roll_back"
            assert model.share(CANDIDATE_URI) == 0
            assert lease.renewals > 0
            at = {event.kind: event.at for event in watched.events}
            assert (at["weight_observed"] - at["window_judged"]).total_seconds() < AT_ONCE_S
            # Far fewer than there are waits: what is there belongs to the canary and to polls that are under way.
            assert threading.active_count() < LOADS / 2
            assert not any(wait.done() for wait in waits)
        finally:
            for wait in waits:
                wait.cancel()
            await asyncio.gather(*waits, return_exceptions=True)


async def test_a_shield_has_a_thread_while_every_other_call_of_its_watch_hangs(
    release_run: ReleaseRun, live: Live
) -> None:
    """A person stops a release whose journal, metrics and lease all hang: its users are brought back all the same."""
    hangs, model = threading.Event(), live()
    watched, service, _ = watch(release_run, model, HEALTHY, plan=LONG)
    hanging = 0

    def hang(*_: object) -> None:
        nonlocal hanging
        hanging += 1
        hangs.wait(30)

    running = asyncio.create_task(watched.run())
    try:
        await until(lambda: bool(watched.events))
        cluster, journal = cast(Any, watched._cluster), cast(Any, watched._journal)
        for calls in (watched._reader._calls, cluster._calls, journal._calls):
            asyncio.get_running_loop().create_task(calls.run(lambda: hang(), 20)).add_done_callback(
                lambda done: done.exception()
            )
        await until(lambda: hanging == 3)
        async with asyncio.timeout(20):
            await watched.shield()
        assert model.share(CANDIDATE_URI) == 0
        assert service.patches[-1]["spec"]["predictor"]["canaryTrafficPercent"] == 0
    finally:
        hangs.set()
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
