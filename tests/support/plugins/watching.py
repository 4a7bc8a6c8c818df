"""A watch of one step, put together for tests, and what it has reported."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from typing import Any, cast

from slipway.hooks.inference_service import KServeHook
from slipway.hooks.lease import LeaseHook
from slipway.read_model.live_writer import LiveObject, LiveTeller
from slipway.release_run import ReleaseRun
from slipway.traffic.checkpoint import CanaryJournal, JournalKeeper, WatchState
from slipway.traffic.golden_replay import GoldenReplay
from slipway.traffic.lease_holder import LeaseHolder
from slipway.traffic.shield import CanaryShield
from slipway.traffic.step_cluster import CanaryCluster
from slipway.traffic.step_watcher import StepWatch
from slipway.traffic.streams.probes import StreamProbes
from slipway_core.canary.judge import AnalysisPolicy, CanaryJudge
from slipway_core.read_model.live_fold import Watched
from slipway_core.record.events import PendingEvent
from slipway_core.rollout.lease import Lease
from slipway_core.spec.rollout.plan import CanaryPlan, RolloutStep
from slipway_sandbox.lab.simulation.knative_model import KnativeModel
from tests.support.canary.doubles import (
    JournalDouble,
    LeaseDouble,
    MetricsDouble,
    ReplayDouble,
    ServiceDouble,
    StreamsDouble,
)


class LiveObjectDouble:
    """Keeps what pages would be shown; `act` is done in place of a write, in its thread."""

    def __init__(self, act: Callable[[], None] = lambda: None) -> None:
        self.written: list[Watched] = []
        self.windows = 0
        self._act = act

    def write(self, watched: Watched, judged: list[Any], _at: datetime) -> None:
        """Keep it."""
        self._act()
        self.written.append(watched)
        self.windows += len(judged)


def _step(weight: int, bake_s: float) -> RolloutStep:
    """A step that is shorter than a release file may ask for, so that no test lasts seconds."""
    return RolloutStep.model_construct(weight=weight, bake_s=bake_s)


PLAN = CanaryPlan(
    steps=(_step(20, 0.1), _step(50, 0.1)), window_s=0.05, max_bake_s=0.5, max_no_data_windows=3
)
HEALTHY = ((80, 0), (20, 0))
HALF = ((50, 0), (50, 0))
FAILING = ((80, 0), (20, 10))
Live = Callable[..., KnativeModel]


def watch(
    release_run: ReleaseRun,
    model: KnativeModel,
    traffic: tuple[tuple[int, int], tuple[int, int]],
    *,
    step: int = 0,
    plan: CanaryPlan = PLAN,
    journal: JournalDouble | None = None,
    name: str = "watch",
    lease: LeaseDouble | None = None,
    replay: ReplayDouble | None = None,
    streams: StreamsDouble | None = None,
    live: LiveObjectDouble | None = None,
    hold: bool = False,
    until_resumed: bool = False,
    permit: Callable[[int], None] = lambda weight: None,
) -> tuple[StepWatch, ServiceDouble, MetricsDouble]:
    judge = CanaryJudge(AnalysisPolicy(minimum_candidate_requests=20))
    judge.begin_step(plan.steps[step].weight, plan.steps[step].bake_s)
    service, metrics = ServiceDouble(model), MetricsDouble(*traffic)
    watched = StepWatch(
        release_run,
        plan,
        step,
        WatchState(name, judge.to_json(), 0.0),
        cluster=CanaryCluster(
            release_run,
            step,
            plan.steps[step].weight,
            service=cast(KServeHook, service),
            lease_holder=LeaseHolder(
                cast(LeaseHook, lease or held(release_run, step)), release_run, "canary"
            ),
            permit=permit,
        ),
        shield=CanaryShield(release_run, cast(KServeHook, service)),
        metrics=metrics,
        journal=JournalKeeper(cast(CanaryJournal, journal or JournalDouble())),
        replay=cast(GoldenReplay, replay or ReplayDouble()),
        streams=cast(StreamProbes, streams or StreamsDouble()),
        live=LiveTeller(cast(LiveObject, live or LiveObjectDouble()), limit_s=0.2),
        hold=hold,
        until_resumed=until_resumed,
    )
    return watched, service, metrics


def held(release_run: ReleaseRun, step: int) -> LeaseDouble:
    """The lease as a step finds it: taken, but for the first one, which takes it."""
    lease = LeaseDouble()
    if step > 0:
        lease.lease = Lease("slipway-digits", "models", "digits", release_run.release_id, 60)
    return lease


def pause(lease: LeaseDouble) -> None:
    """Note on the lease that the canary shall stay where it is; the next renewal finds it."""
    assert lease.lease is not None
    lease.lease = replace(lease.lease, paused="a person wants to look")


def kinds(watched: StepWatch) -> list[str]:
    return [event.kind for event in watched.events]


def newest(watched: StepWatch, kind: str) -> Any:
    return next(event.data for event in reversed(watched.events) if event.kind == kind)


LONG = replace(
    PLAN, steps=(RolloutStep(weight=20, bake_s=60), RolloutStep(weight=50, bake_s=60)), max_bake_s=60.0
)


def judged(watched: StepWatch) -> list[PendingEvent]:
    return [event for event in watched.events if event.kind == "window_judged"]


def has_no_data(event: PendingEvent) -> bool:
    return bool(event.data.verdict["no_data"])
