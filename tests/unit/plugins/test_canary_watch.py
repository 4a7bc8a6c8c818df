from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, cast

import pytest
from slipway import canary_watch
from slipway.canary_watch import StepWatch
from slipway.hooks.kserve import KServeHook
from slipway.hooks.metrics import EnvoyMetricsHook
from slipway.ticket import ReleaseTicket

from include.model_release.canary import AnalysisPolicy, CanaryJudge, CanaryPlan, CanaryStep
from include.model_release.errors import AlreadyReleasedError, CanaryRefusedError, TimedOutError
from tests.unit.model_release.knative_model import KnativeModel
from tests.unit.plugins.conftest import CANDIDATE_URI, STABLE_URI, MetricsDouble, ServiceDouble

PLAN = CanaryPlan(
    steps=(CanaryStep(20, 0.1), CanaryStep(50, 0.1)), window_s=0.05, max_bake_s=0.5, max_blind_windows=3
)
HEALTHY = ((80, 0), (20, 0))
FAILING = ((80, 0), (20, 10))
Live = Callable[..., KnativeModel]


def watch(
    ticket: ReleaseTicket,
    model: KnativeModel,
    traffic: tuple[tuple[int, int], tuple[int, int]],
    *,
    step: int = 0,
    plan: CanaryPlan = PLAN,
) -> tuple[StepWatch, ServiceDouble, MetricsDouble]:
    judge = CanaryJudge(AnalysisPolicy(minimum_candidate_requests=20))
    judge.begin_step(plan.steps[step].weight, plan.steps[step].bake_s)
    service, metrics = ServiceDouble(model), MetricsDouble(*traffic)
    watched = StepWatch(
        ticket, plan, step, judge, 0.0, cast(KServeHook, service), cast(EnvoyMetricsHook, metrics)
    )
    return watched, service, metrics


def kinds(watched: StepWatch) -> list[str]:
    return [event["kind"] for event in watched.events]


def told(watched: StepWatch, kind: str) -> dict[str, Any]:
    return next(event["data"] for event in reversed(watched.events) if event["kind"] == kind)


async def test_a_healthy_candidate_gets_its_share_and_the_step_advances(
    ticket: ReleaseTicket, live: Live
) -> None:
    """The weight is seen in the traffic before the first window, and a step without a fault is passed."""
    model = live()
    watched, _, _ = watch(ticket, model, HEALTHY)
    assert await watched.run() == "advance"
    assert model.users() == {STABLE_URI: 80, CANDIDATE_URI: 20}
    assert kinds(watched)[0] == "weight_observed"
    assert kinds(watched)[-1] == "step_finished"
    assert told(watched, "step_finished")["verdict"] == "pass"
    assert told(watched, "window_judged")["first_bad_at"] is None


async def test_a_failing_candidate_has_no_user_left_before_the_event_is_yielded(
    ticket: ReleaseTicket, live: Live
) -> None:
    """A verdict against the candidate is carried out before anybody is told of it, and dated."""
    model = live()
    watched, _, _ = watch(ticket, model, FAILING)
    assert await watched.run() == "roll_back"
    assert model.share(CANDIDATE_URI) == 0
    assert kinds(watched)[-3:] == ["step_finished", "rollback_started", "weight_observed"]
    assert told(watched, "rollback_started")["by"] == "judge"
    assert told(watched, "weight_observed")["weight"] == 0
    assert told(watched, "window_judged")["first_bad_at"] is not None


async def test_a_fault_that_hits_both_alike_does_not_fail_the_candidate(
    ticket: ReleaseTicket, live: Live
) -> None:
    """The candidate is held against the stable version in the same window, not against a fixed rate."""
    watched, _, _ = watch(ticket, live(), ((80, 8), (20, 2)))
    assert await watched.run() == "advance"


async def test_a_metrics_source_that_is_away_ends_the_canary(ticket: ReleaseTicket, live: Live) -> None:
    """Not to see is not to be well: after the windows that the plan allows, the users are taken back."""
    model = live()
    watched, _, metrics = watch(ticket, model, HEALTHY)
    metrics.away = True
    assert await watched.run() == "roll_back"
    assert model.share(CANDIDATE_URI) == 0
    assert kinds(watched).count("window_judged") == PLAN.max_blind_windows
    assert told(watched, "window_judged")["verdict"]["blind"]


async def test_too_little_traffic_is_never_a_pass(ticket: ReleaseTicket, live: Live) -> None:
    """A step without enough candidate requests ends, at the limit of its bake, with the users on stable."""
    model = live()
    watched, _, _ = watch(ticket, model, ((1, 0), (0, 0)))
    assert await watched.run() == "roll_back"
    assert told(watched, "step_finished")["verdict"] == "inconclusive"
    assert model.share(CANDIDATE_URI) == 0


async def test_a_plan_that_holds_keeps_watching_and_reports(
    ticket: ReleaseTicket, live: Live, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With `on_inconclusive: hold` nothing is taken back and nothing is passed."""
    model = live()
    watched, _, _ = watch(ticket, model, ((1, 0), (0, 0)), plan=replace(PLAN, on_inconclusive="hold"))
    assert await watched.run() == "hold"
    assert model.share(CANDIDATE_URI) == 20


async def test_a_long_step_reports_what_it_saw_so_far(
    ticket: ReleaseTicket, live: Live, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A bake is not silent for longer than the reporting interval."""
    monkeypatch.setattr(canary_watch, "REPORT_INTERVAL_S", 0.1)
    long = replace(PLAN, steps=(CanaryStep(20, 60.0),), max_bake_s=60.0)
    watched, _, _ = watch(ticket, live(), HEALTHY, plan=long)
    assert await watched.run() == "continue"
    assert "window_judged" in kinds(watched)
    assert watched.elapsed_s > 0


async def test_a_conflict_only_means_to_look_again(ticket: ReleaseTicket, live: Live) -> None:
    """Patches that meet a conflict are dropped and decided anew, on the way up and on the way back."""
    model = live()
    watched, service, _ = watch(ticket, model, FAILING)
    service.conflicts = 3
    assert await watched.run() == "roll_back"
    assert model.share(CANDIDATE_URI) == 0


async def test_a_candidate_that_does_not_come_up_is_refused(ticket: ReleaseTicket, live: Live) -> None:
    """Its revision never gets ready, so no user is ever led to it."""
    model = live(unloadable=frozenset({CANDIDATE_URI}))
    watched, _, _ = watch(ticket, model, HEALTHY)
    with pytest.raises(CanaryRefusedError, match="does not come up"):
        await watched.run()
    assert model.users() == {STABLE_URI: 100}


async def test_what_was_rolled_back_is_not_started_again(ticket: ReleaseTicket, live: Live) -> None:
    """A second canary of a version that was taken back needs force."""
    model = live()
    watched, service, _ = watch(ticket, model, FAILING)
    assert await watched.run() == "roll_back"
    for _ in range(8):
        await watched.shield()
        service.get()
    again, _, _ = watch(ticket, model, HEALTHY)
    with pytest.raises(AlreadyReleasedError, match=r"rolled back|under way"):
        await again.run()
    assert model.share(CANDIDATE_URI) == 0


async def test_traffic_that_never_shows_the_weight_times_out(
    ticket: ReleaseTicket, live: Live, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ready alone does not count: without the weight in the observed traffic the step does not begin."""
    model = live()
    monkeypatch.setattr(model, "_route", lambda: None)
    slow = ticket.spec.rollout.model_copy(update={"ready_timeout_s": 0.2})
    late = ticket.model_copy(update={"spec": ticket.spec.model_copy(update={"rollout": slow})})
    watched, _, _ = watch(late, model, HEALTHY)
    with pytest.raises(TimedOutError, match="in time"):
        await watched.run()
    assert watched.events == []


async def test_the_second_step_raises_the_share_of_the_canary_under_way(
    ticket: ReleaseTicket, live: Live
) -> None:
    """A later step shifts the weight of the same revision; it makes no new one."""
    model = live()
    first, _, _ = watch(ticket, model, HEALTHY)
    assert await first.run() == "advance"
    second, _, _ = watch(ticket, model, HEALTHY, step=1)
    assert await second.run() == "advance"
    assert model.users() == {STABLE_URI: 50, CANDIDATE_URI: 50}
    assert len(model.revisions) == 2
