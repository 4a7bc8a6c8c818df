"""What lets bake time pass, and how a step ends whose candidate nobody asks."""

from __future__ import annotations

import json

import pytest

from slipway_core.canary.judge import CanaryJudge
from slipway_core.canary.plan import decide
from slipway_core.metrics.samples import Sample, Window
from slipway_core.spec.rollout.plan import CanaryPlan, RolloutStep
from tests.support.canary.windows import judge, window

STEP = RolloutStep(weight=20, bake_s=600)
PLAN = CanaryPlan((STEP,), max_bake_s=900.0)
BUSY, IDLE = window((400, 0), (100, 0), 10.0), window((0, 0), (0, 0), 10.0)
# The router leads nobody to it, and shows so.
ONLY_STABLE = Window(10.0, Sample(400, 0, begun=400, active=0), Sample(0, 0, begun=0, active=0))


@pytest.mark.parametrize("idle", [IDLE, ONLY_STABLE])
def test_time_in_which_nobody_asks_the_candidate_is_no_bake_time(idle: Window) -> None:
    """20 s of traffic, then 580 s in which nobody asks the candidate: no pass and no advance, for all its time."""
    judged = judge(weight=20, bake_s=600.0)
    for number in range(60):
        verdict = judged.observe(BUSY if number < 2 else idle)
    assert verdict.status == "inconclusive"
    if idle is IDLE:
        assert "580 s of the bake are left (the candidate has had no requests for 580 s)" in verdict.reason
    assert verdict.statistics.step.baked_s == 20.0
    assert decide(verdict, 600.0, STEP, PLAN) == "continue"


def test_idle_time_ends_the_step_all_the_same() -> None:
    """A step that nobody asks is given up at max_bake_s of watched time, though it has baked for seconds."""
    judged = judge(weight=20, bake_s=600.0)
    verdict = judged.observe(BUSY)
    assert decide(verdict, 10.0, STEP, PLAN, watched_s=899.0) == "continue"
    assert decide(verdict, 10.0, STEP, PLAN, watched_s=900.0) == "roll_back"


def test_the_bake_goes_on_when_users_are_back() -> None:
    """Idle windows are no reset: what has baked before counts, and the step passes after the whole bake."""
    judged = judge(weight=20, bake_s=60.0)
    windows = [*[BUSY] * 3, *[IDLE] * 10, *[BUSY] * 3]
    statuses = [judged.observe(one).status for one in windows]
    assert statuses == ["inconclusive"] * 15 + ["pass"]


def test_idle_time_is_saved() -> None:
    """A judge that was saved and read again knows how long nobody asked; one saved before knows of none."""
    judged = judge(weight=20, bake_s=60.0)
    for _ in range(6):
        judged.observe(IDLE)
    assert CanaryJudge.from_json(judged.to_json()).standing() == judged.standing()
    old = json.loads(judged.to_json())
    del old["step"]["idle_seconds"]
    assert CanaryJudge.from_json(json.dumps(old)).standing().statistics.step.baked_s == 60.0


def test_what_a_sum_of_seconds_loses_keeps_no_step_from_advancing() -> None:
    """Whenever the judge says that the bake is over, the plan says so too, whatever the lengths of the windows."""
    step = RolloutStep(weight=20, bake_s=60)
    judged = judge(weight=20, bake_s=60.0)
    verdicts = [judged.observe(window((400, 0), (100 * (number % 3), 0), 0.3)) for number in range(301)]
    passed = [verdict for verdict in verdicts if verdict.status == "pass"]
    assert passed
    assert {decide(one, one.statistics.step.baked_s, step, PLAN) for one in passed} == {"advance"}


def test_golden_requests_make_up_for_idle_time() -> None:
    """Time in which golden requests were answered is time in which the candidate was asked."""
    judged = judge(weight=20, bake_s=20.0)
    golden = Window(10.0, Sample(50, 0), Sample(50, 0), "replay")
    assert [judged.observe(one).status for one in (IDLE, IDLE, golden, golden)] == ["inconclusive"] * 3 + [
        "pass"
    ]
