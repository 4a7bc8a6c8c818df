"""How a tuning ends: a change, none, or that it cannot be told."""

from __future__ import annotations

import pytest

from include.model_release.tuning.conclusion import conclude, interval_of
from include.model_release.tuning.objective import Objective
from include.model_release.tuning.settings import Setting
from include.model_release.tuning.trials import Comparison
from tests.support.tuning.plans import make_plan, point, trial

PLAN = make_plan()
BEST = Setting(max_queue_delay_us=0, instances=1)


def comparison(against: str, mine: list[float], theirs: list[float]) -> Comparison:
    """A comparison with these p95 of each round."""

    def points(figures: list[float]) -> tuple[object, ...]:
        return tuple(point(one, number) for number, one in enumerate(figures, start=1))

    return Comparison(
        against=against,  # type: ignore[arg-type]
        candidate=BEST,
        baseline=PLAN.defaults,
        candidate_points=points(mine),  # type: ignore[arg-type]
        baseline_points=points(theirs),  # type: ignore[arg-type]
    )


def test_the_interval_is_that_of_the_rounds_ratios() -> None:
    """The same ratio in each round leaves no width; one round tells nothing."""
    objective = Objective(PLAN.tuning, PLAN.slo)
    found = interval_of(comparison("defaults", [5.0, 10.0, 7.5], [10.0, 20.0, 15.0]), objective)
    assert found is not None
    assert (found.ratio, found.low, found.high) == pytest.approx((0.5, 0.5, 0.5))
    assert interval_of(comparison("defaults", [5.0], [10.0]), objective) is None


@pytest.mark.parametrize(
    ("mine", "status"),
    [
        ([5.0, 5.5, 5.2], "improved"),
        ([9.9, 10.0, 10.1], "no_gain"),
        ([6.0, 14.0, 9.0], "inconclusive"),
        ([200.0, 200.0, 200.0], "inconclusive"),
    ],
)
def test_a_change_needs_a_proved_gain(mine: list[float], status: str) -> None:
    """The whole interval must lie beyond `gain_min_percent`, and the service level be kept once more."""
    best = trial(3, BEST, 5.0)
    ten = [10.0, 10.0, 10.0]
    found = conclude(PLAN, best, [comparison("defaults", mine, ten), comparison("present", mine, ten)])
    assert found.status == status
    assert found.told


def test_no_setting_that_keeps_the_service_level_is_said() -> None:
    """Then nothing is proposed."""
    assert conclude(PLAN, None, []).status == "nothing_kept"


def test_the_present_setting_as_best_changes_nothing() -> None:
    """It is said how near the best the defaults are."""
    found = conclude(PLAN, trial(1, PLAN.present, 5.0), [])
    assert found.status == "no_gain"
    assert "within 5 %" in found.told
    same = PLAN.model_copy(update={"present": PLAN.defaults})
    told = conclude(same, trial(0, PLAN.defaults, 5.0), []).told
    assert "Triton's defaults" in told
    assert "within 5 %" in told
