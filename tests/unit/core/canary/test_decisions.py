"""What follows from a verdict in a plan, and which plans and policies are none."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from pydantic import ValidationError

from slipway_core.canary.judge import AnalysisPolicy, Verdict
from slipway_core.canary.plan import decide, exposure_spent
from slipway_core.canary.verdict import Status
from slipway_core.errors import SpecError
from slipway_core.spec.rollout.plan import CanaryPlan, Exposure, RolloutStep
from tests.support.canary.windows import judge, window

PLAN = CanaryPlan((RolloutStep(weight=5, bake_s=60), RolloutStep(weight=50, bake_s=60)), max_bake_s=300.0)


def verdict(status: Status, no_data_windows: int = 0) -> Verdict:
    statistics = replace(judge().standing().statistics, no_data_windows=no_data_windows)
    return Verdict(status, "", statistics, no_data=no_data_windows > 0)


@pytest.mark.parametrize(
    ("status", "elapsed_s", "no_data_windows", "move"),
    [
        ("fail", 1.0, 0, "roll_back"),
        ("pass", 59.0, 0, "continue"),
        ("pass", 60.0, 0, "advance"),
        ("inconclusive", 60.0, 0, "continue"),
        ("inconclusive", 299.0, 0, "continue"),
        ("inconclusive", 300.0, 0, "roll_back"),
        ("inconclusive", 10.0, 2, "continue"),
        ("inconclusive", 10.0, 3, "roll_back"),
        ("fail", 10.0, 1, "roll_back"),
    ],
)
def test_a_verdict_decides_the_next_move(
    status: Status, elapsed_s: float, no_data_windows: int, move: str
) -> None:
    """Fail goes back, pass advances after the bake, undecided waits up to the limit, a lack of data does not last."""
    assert decide(verdict(status, no_data_windows), elapsed_s, PLAN.steps[0], PLAN) == move


def test_a_plan_may_hold_for_a_person() -> None:
    """Where the plan says hold, an undecided step waits for a person instead of going back."""
    plan = CanaryPlan(PLAN.steps, max_bake_s=300.0, on_inconclusive="hold")
    assert decide(verdict("inconclusive"), 300.0, plan.steps[0], plan) == "hold"
    assert decide(verdict("inconclusive", 3), 10.0, plan.steps[0], plan) == "hold"
    assert decide(verdict("fail"), 10.0, plan.steps[0], plan) == "roll_back"


@pytest.mark.parametrize("weights", [[], [5, 5], [50, 5], [0, 5], [5, 100]])
def test_a_plan_rises_within_1_to_99(weights: list[int]) -> None:
    """Weights that do not rise within 1 to 99 percent are no plan."""
    with pytest.raises((SpecError, ValidationError)):
        CanaryPlan(tuple(RolloutStep(weight=weight, bake_s=60) for weight in weights))


@pytest.mark.parametrize(
    "values",
    [
        {"alpha": 0.0},
        {"alpha": math.nan},
        {"latency_quantile": 1.0},
        {"burst_correlation": -0.1},
        {"alhpa": 0.01},
    ],
)
def test_a_policy_out_of_range_is_told(values: dict[str, float]) -> None:
    """Wrong or unknown values of the policy are errors that name the key."""
    with pytest.raises(SpecError, match=next(iter(values))):
        AnalysisPolicy.from_mapping(values)


def test_a_bake_as_long_as_the_limit_can_be_passed() -> None:
    """Windows are a little shorter than the clock says; a spotless step is not rolled back for that."""
    plan = replace(PLAN, steps=(RolloutStep(weight=5, bake_s=60),), max_bake_s=60.0)
    judged, clock_s, moves = judge(bake_s=60.0), 0.0, []
    while "advance" not in moves and "roll_back" not in moves:
        clock_s += 10.02
        seen = judged.observe(window((950, 0), (60, 0), 9.99))
        moves.append(decide(seen, clock_s, plan.steps[0], plan))
    assert moves == ["continue"] * 6 + ["advance"]


@pytest.mark.parametrize(
    ("budget", "move"),
    [
        (Exposure(max_errors=2), "roll_back"),
        (Exposure(max_errors=3), "continue"),
        (Exposure(max_requests=119), "roll_back"),
        (Exposure(max_requests=120), "continue"),
    ],
)
def test_a_budget_of_exposure_ends_the_canary(budget: Exposure, move: str) -> None:
    """Users meet no more of the candidate than the plan allows, whatever the judge still hopes to learn."""
    plan, judged = replace(PLAN, exposure=budget), judge(bake_s=60.0)
    judged.observe(window((950, 4), (60, 1)))
    seen = judged.observe(window((950, 4), (60, 2)))
    assert decide(seen, 4.0, plan.steps[0], plan) == move
    assert (exposure_spent(seen, plan) is not None) == (move == "roll_back")
