"""How a tuning ends: a change, none, or that it cannot be told."""

from __future__ import annotations

import pytest

from slipway_core.tuning.conclusion import conclude, interval_of
from slipway_core.tuning.objective import Objective
from slipway_core.tuning.settings import Setting
from slipway_core.tuning.trials import TrialComparison
from tests.support.tuning.plans import make_plan, point, trial

PLAN = make_plan()
BEST = Setting(max_queue_delay_us=0, instances=1)


def comparison(against: str, mine: list[float], theirs: list[float]) -> TrialComparison:
    """A comparison with these p95 of each round."""

    def points(figures: list[float]) -> tuple[object, ...]:
        return tuple(point(one, number) for number, one in enumerate(figures, start=1))

    return TrialComparison(
        against=against,  # type: ignore[arg-type]
        candidate=BEST,
        baseline=PLAN.defaults,
        candidate_points=points(mine),  # type: ignore[arg-type]
        baseline_points=points(theirs),  # type: ignore[arg-type]
    )


def rates(against: str, mine: list[float], theirs: list[float]) -> TrialComparison:
    """A comparison with these answers a second of each round, each within the bound."""
    told = comparison(against, [5.0] * len(mine), [5.0] * len(theirs))
    return told.model_copy(
        update={
            "candidate_points": tuple(
                point(5.0, number, throughput_rps=one) for number, one in enumerate(mine, start=1)
            ),
            "baseline_points": tuple(
                point(5.0, number, throughput_rps=one) for number, one in enumerate(theirs, start=1)
            ),
        }
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
    assert found.summary


def test_no_setting_that_keeps_the_service_level_is_said() -> None:
    """Then nothing is proposed."""
    assert conclude(PLAN, None, []).status == "nothing_kept"


def test_the_present_setting_as_best_changes_nothing() -> None:
    """It is said how near the best the defaults are."""
    found = conclude(PLAN, trial(1, PLAN.present, 5.0), [])
    assert found.status == "no_gain"
    assert "within 5 %" in found.summary
    same = PLAN.model_copy(update={"present": PLAN.defaults})
    told = conclude(same, trial(0, PLAN.defaults, 5.0), []).summary
    assert "Triton's defaults" in told
    assert "within 5 %" in told


TEN = [10.0, 10.1, 10.0]
FASTER, SLOWER = [5.0, 5.1, 5.0], [14.0, 14.3, 14.1]


@pytest.mark.parametrize("objective", ["latency", "throughput"])
def test_a_setting_that_the_defaults_beat_is_not_proposed(objective: str) -> None:
    """Better than the present one, and in turns worse than Triton's defaults: single measurements misled the search."""
    plan = make_plan(objective=objective)
    told_present, told_defaults = comparison("present", FASTER, TEN), comparison("defaults", SLOWER, TEN)
    if objective == "throughput":
        told_present = rates("present", [200.0, 201.0, 199.0], [100.0, 101.0, 100.0])
        told_defaults = rates("defaults", [200.0, 201.0, 199.0], [300.0, 301.0, 302.0])
    found = conclude(plan, trial(3, BEST, 5.0), [told_defaults, told_present])
    assert found.status == "inconclusive"
    assert "Triton's defaults are better" in found.summary
    assert found.against_present is not None


def test_a_present_setting_that_the_defaults_beat_is_not_called_the_best() -> None:
    """One lucky trial of it does not stand against what was measured in turns."""
    best = trial(1, PLAN.present, 5.0)
    found = conclude(PLAN, best, [comparison("defaults", SLOWER, TEN)])
    assert found.status == "inconclusive"
    assert "Triton's defaults are better" in found.summary
    about = conclude(PLAN, best, [comparison("defaults", [10.1, 10.2, 10.1], TEN)])
    assert about.status == "no_gain", "less than `gain_min_percent` is no reason for a change"


def test_no_difference_is_no_gain_however_small_a_gain_would_do() -> None:
    """With `gain_min_percent: 0` the same figures twice prove nothing."""
    plan = make_plan(gain_min_percent=0)
    same = [comparison(against, TEN, TEN) for against in ("defaults", "present")]
    assert conclude(plan, trial(3, BEST, 5.0), same).status != "improved"
    faster = [comparison(against, FASTER, TEN) for against in ("defaults", "present")]
    assert conclude(plan, trial(3, BEST, 5.0), faster).status == "improved"


def test_it_is_told_that_single_measurements_chose_the_present_setting() -> None:
    """Who reads that nothing is to be gained knows how sure that is."""
    found = conclude(PLAN, trial(1, PLAN.present, 5.0), [])
    assert "single measurements" in found.summary
