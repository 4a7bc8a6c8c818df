"""Clocks that are set, and a lease that is renewed only while windows are judged."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable
from typing import Any, cast

import pytest

from slipway.hooks.inference_service import KServeHook
from slipway.hooks.lease import LeaseHook
from slipway.metrics.sources.scrape import EnvoyMetricsHook
from slipway.release_run import ReleaseRun
from slipway.traffic import step_cluster
from slipway.traffic.lease_holder import LeaseHolder
from slipway.traffic.reconciler import reconcile
from slipway.traffic.step_cluster import CanaryCluster
from slipway.traffic.window_reader import WindowReader
from slipway_core.errors import TimedOutError
from slipway_core.metrics.samples import Counters, Reading, SeriesReading, Window
from slipway_core.rollout.lease import Lease
from slipway_core.rollout.next_action import StartCanary
from slipway_sandbox.lab.simulation.knative_model import KnativeModel
from tests.support.canary.doubles import CANDIDATE_URI, LeaseDouble, ServiceDouble
from tests.support.plugins.watching import HEALTHY, LONG, Live, newest, watch
from tests.support.waiting import until

PAGE = """\
# TYPE envoy_cluster_upstream_rq_total counter
envoy_cluster_upstream_rq_total{envoy_cluster_name="a|http"} 5
# TYPE envoy_cluster_upstream_rq counter
envoy_cluster_upstream_rq{envoy_response_code="200",envoy_cluster_name="a|http"} 5
"""


class Source:
    """A metrics source: with each reading 80 requests more of stable and 20 of the candidate, half of these failed."""

    interval_s = 0.0

    def __init__(self, lag_s: float = 0.0, at: float = 1000.0) -> None:
        self.lag_s, self.at, self.readings = lag_s, at, 0

    def read(self, revisions: Iterable[str]) -> dict[str, Reading]:
        self.readings, self.at = self.readings + 1, self.at + 0.01
        counts = (Counters(80 * self.readings, 0), Counters(20 * self.readings, 10 * self.readings))
        return {
            name: Reading.of(self.at, {"router": one}) for name, one in zip(revisions, counts, strict=True)
        }


class Reported:
    """What a reader has reported: readings that are worth a renewal, and windows that nobody watched."""

    def __init__(self) -> None:
        self.readings = 0
        self.unwatched: list[Window] = []

    def seen(self) -> None:
        self.readings += 1


def reader_of(source: Source, reported: Reported) -> WindowReader:
    return WindowReader(source, 0.05, 5.0, on_reading=reported.seen, on_unwatched=reported.unwatched.append)


def test_a_clock_that_is_set_changes_no_moment_of_a_reading(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten minutes back or forth: readings of Envoy follow each other by what passed in between."""
    monkeypatch.setenv("AIRFLOW_CONN_ENVOY", '{"conn_type": "http", "host": "127.0.0.1", "port": 1}')
    hook, wall = EnvoyMetricsHook("envoy"), time.time

    async def ask(*_: Any) -> tuple[int, bytes]:
        return 200, PAGE.encode()

    monkeypatch.setattr(hook._access, "ask", ask)
    moments = []
    for offset_s in (0.0, -600.0, 0.0, 600.0):
        monkeypatch.setattr(time, "time", lambda offset_s=offset_s: wall() + offset_s)
        moments.append(hook.read(["a"])["a"].at)
    assert moments == sorted(moments)
    assert moments[-1] - moments[0] < 60
    assert abs(moments[0] - wall()) < 600


async def test_a_clock_that_is_set_back_blinds_no_judge(
    release_run: ReleaseRun, live: Live, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ten minutes back in the middle of a step: the next windows show what the candidate does, and it is taken back."""
    monkeypatch.setenv("AIRFLOW_CONN_ENVOY", '{"conn_type": "http", "host": "127.0.0.1", "port": 1}')
    hook, wall, model = EnvoyMetricsHook("envoy"), time.time, live()
    pages = 0

    async def ask(*_: Any) -> tuple[int, bytes]:
        nonlocal pages
        pages += 1
        lines = ["# TYPE envoy_cluster_upstream_rq counter"]
        for name, good, bad in (("digits-predictor-00001", 80, 0), ("digits-predictor-00002", 0, 20)):
            for code, count in (("200", good), ("500", bad)):
                labels = f'envoy_response_code="{code}",envoy_cluster_name="{name}|http"'
                lines.append(f"envoy_cluster_upstream_rq{{{labels}}} {count * pages}")
        return 200, "\n".join(lines).encode() + b"\n"

    monkeypatch.setattr(hook._access, "ask", ask)
    watched, _, _ = watch(release_run, model, HEALTHY, plan=LONG)
    watched._reader._metrics = hook
    running = asyncio.create_task(watched.run())
    await until(lambda: pages > 1)
    monkeypatch.setattr(time, "time", lambda: wall() - 600.0)
    async with asyncio.timeout(30):
        assert await running == "roll_back"
    assert model.share(CANDIDATE_URI) == 0
    assert newest(watched, "rollback_started").by == "judge"


async def test_a_source_whose_clock_went_back_has_no_data() -> None:
    """What it shows is of long ago: no data, at the window's own pace, and nothing to renew a lease for."""
    source, reported = Source(lag_s=10.0), Reported()
    reader = reader_of(source, reported)
    reader.begin("stable", "candidate")
    assert await reader.window() is not None
    source.at -= 600.0
    before = reported.readings
    began = time.monotonic()
    assert await reader.window() is None
    assert "clock went back" in reader.no_data_reason
    assert time.monotonic() - began < 20
    assert reported.readings == before
    source.at += 700.0  # it has caught up: after a gap that nobody watched there are windows again
    assert await reader.window() is not None
    assert len(reported.unwatched) == 1


async def test_a_replica_that_lags_is_no_clock_that_went_back() -> None:
    """Of two equal sources behind one address one may show what the other showed some seconds ago."""
    source, reported = Source(lag_s=10.0), Reported()
    reader = reader_of(source, reported)
    reader.begin("stable", "candidate")
    first = await reader.window()
    assert first is not None
    source.at -= 5.0
    known = reader.readings
    assert known is not None
    assert (await reader._read() or {})["candidate"].at == known["candidate"].at


async def test_a_saved_reading_of_another_clock_begins_anew() -> None:
    """A triggerer whose clock is behind the one before: its windows are judged, and what lay between is counted."""
    source, reported = Source(at=1000.0), Reported()
    source.readings = 100
    reader = reader_of(source, reported)
    reader.readings = {
        "stable": Reading.of(1600.0, {"router": Counters(800, 0)}),
        "candidate": Reading.of(1600.0, {"router": Counters(200, 100)}),
    }
    reader.begin("stable", "candidate")
    window = await reader.window()
    assert window is not None
    assert window.candidate.errors > 0
    [gap] = reported.unwatched
    assert (gap.seconds, gap.candidate.requests) == (0.0, 101 * 20 - 200)


async def test_a_source_that_dates_its_data_is_not_judged_by_old_ones() -> None:
    """Saved data are newer than what it shows now: that is no data, not a beginning."""
    source, reported = Source(lag_s=10.0, at=1000.0), Reported()
    reader = reader_of(source, reported)
    reader.readings = {name: Reading.of(1600.0, {}) for name in ("stable", "candidate")}
    reader.begin("stable", "candidate")
    assert await reader.window() is None
    assert reported.readings == 0


async def test_a_source_that_shows_the_same_again_renews_no_lease_for_long() -> None:
    """Data that stand still make no window, and who judges none keeps no lease: its guard ends the canary."""
    source, reported = Source(), Reported()
    reader = reader_of(source, reported)
    reader.begin("stable", "candidate")
    assert await reader.window() is not None
    newest, asked = reader.readings, 0

    def same(_: Iterable[str]) -> Any:
        nonlocal asked
        asked += 1
        return newest

    source.read = same  # type: ignore[method-assign]
    waiting = asyncio.create_task(reader.window())
    # A window may take 0.17 s to close here, and it is read a hundred times a second at most.
    await until(lambda: asked > 40)
    worth = reported.readings
    await until(lambda: asked > 60)
    assert (reported.readings, waiting.done()) == (worth, False)
    assert worth < 40
    waiting.cancel()


def test_a_series_of_the_future_does_not_stand_still() -> None:
    """One that claims to be newer than its reading is as new as that: what it counts next is counted."""
    forged = Reading(1000.0, {"errors": SeriesReading(9e15, Counters(0, 0))})
    later = Reading.of(1010.0, {"errors": Counters(40, 40)}).remembering(forged)
    assert later.totals().errors == 40


def cluster_of(
    release_run: ReleaseRun, service: ServiceDouble, lease: LeaseDouble, step: int
) -> CanaryCluster:
    weight = release_run.spec.rollout.steps[step].weight
    holder = LeaseHolder(cast(LeaseHook, lease), release_run, "canary")
    return CanaryCluster(
        release_run,
        step,
        weight,
        service=cast(KServeHook, service),
        lease_holder=holder,
        permit=lambda _: None,
    )


def canary_at(model: KnativeModel, weight: int) -> KnativeModel:
    """Lead so many percent of the users to the candidate."""
    reconcile(cast(KServeHook, ServiceDouble(model)), StartCanary(CANDIDATE_URI, weight), timeout_s=5)
    return model


def held(release_run: ReleaseRun) -> LeaseDouble:
    lease = LeaseDouble()
    lease.lease = Lease("slipway-digits", "models", "digits", release_run.release_id, 60)
    return lease


@pytest.mark.parametrize("renew", [False, True])
async def test_only_a_judged_window_asks_for_a_renewal(
    renew: bool, release_run: ReleaseRun, live: Live
) -> None:
    """A look that follows a window without data renews nothing, though it is time to."""
    lease = held(release_run)
    cluster = cluster_of(release_run, ServiceDouble(canary_at(live(), 20)), lease, step=0)
    cluster._weight = 20
    assert cluster._lease_holder.is_due
    assert await cluster.answers(5.0, renew=renew)
    assert lease.renewals == int(renew)


async def test_users_whom_nobody_judges_lose_the_lease_while_a_raise_is_waited_for(
    release_run: ReleaseRun, live: Live, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A raise that is never seen in the traffic: renewed for a while, then left to the guard."""
    monkeypatch.setattr(step_cluster, "UNJUDGED_LIMIT_S", 0.0)
    rollout = release_run.spec.rollout.model_copy(update={"ready_timeout_s": 1.0})
    late = release_run.model_copy(update={"spec": release_run.spec.model_copy(update={"rollout": rollout})})
    lease, service = held(late), ServiceDouble(canary_at(live(), 5))
    lease.lease = Lease("slipway-digits", "models", "digits", late.release_id, 1)
    asked = 0

    def refused(body: dict[str, Any], limit_s: float | None = None) -> bool:
        nonlocal asked
        asked += 1
        return True  # taken, and never carried out

    service.patch = refused  # type: ignore[method-assign]
    with pytest.raises(TimedOutError):
        await cluster_of(late, service, lease, step=1).reach_weight()
    assert lease.renewals == asked
