"""Which trial is the best, and the Pareto front."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slipway_core.tuning.choice import choose_best, drift_percent, pareto_front
from slipway_core.tuning.objective import Objective
from slipway_core.tuning.settings import Setting
from tests.support.tuning.plans import make_plan, trial

PLAN = make_plan()
OBJECTIVE = Objective(PLAN.tuning, PLAN.slo)
ONE, TWO, FOUR = (Setting(instances=count) for count in (1, 2, 4))

FIGURES = st.integers(min_value=0, max_value=6).map(float)


@given(st.lists(st.tuples(FIGURES, FIGURES), max_size=12))
def test_the_front_is_what_no_other_beats(points: list[tuple[float, float]]) -> None:
    """A point is on the front exactly when no other is at most as high in both figures and lower in one."""

    def beats(one: tuple[float, float], other: tuple[float, float]) -> bool:
        return one[0] <= other[0] and one[1] <= other[1] and one != other

    front = pareto_front(points)
    unbeaten = [place for place, mine in enumerate(points) if not any(beats(one, mine) for one in points)]
    assert sorted(front) == unbeaten
    assert [points[place][0] for place in front] == sorted(points[place][0] for place in front)


def test_among_those_about_as_good_the_one_that_takes_least_is_chosen() -> None:
    """Within five percent of the best no single trial tells them apart: then fewer instances."""
    trials = [trial(0, ONE, 20.0), trial(1, TWO, 10.3), trial(2, FOUR, 10.0)]
    best = choose_best(trials, OBJECTIVE, PLAN.present)
    assert best is not None
    assert best.number == 1


def test_the_present_setting_stays_where_it_is_as_good() -> None:
    """No change is proposed for nothing, though another takes less."""
    trials = [trial(0, ONE, 10.0), trial(1, PLAN.present, 10.2), trial(2, FOUR, 30.0)]
    best = choose_best(trials, OBJECTIVE, PLAN.present)
    assert best is not None
    assert best.setting == PLAN.present


def test_what_misses_the_service_level_is_not_chosen() -> None:
    """Nor is a trial that ended early, failed, or only repeats the first."""
    trials = [
        trial(0, ONE, 10.0, state="hopeless"),
        trial(1, TWO, 10.0, state="failed"),
        trial(2, FOUR, 500.0),
        trial(3, ONE, 10.0, kind="defaults_again"),
    ]
    assert choose_best(trials, OBJECTIVE, PLAN.present) is None


def test_drift_is_that_of_tritons_defaults() -> None:
    """The same setting first and last: what changed is the machine."""
    trials = [trial(0, ONE, 10.0, kind="defaults"), trial(1, ONE, 12.0, kind="defaults_again")]
    assert drift_percent(trials, OBJECTIVE) == pytest.approx(20.0)
    assert drift_percent(trials[:1], OBJECTIVE) is None
