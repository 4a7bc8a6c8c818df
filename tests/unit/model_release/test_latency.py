from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from include.model_release.latency import (
    above,
    above_within,
    add_histograms,
    bound_below,
    bounds_at,
    ceiling_bound,
    levels_up_to,
    quantile_bound,
)

HISTOGRAM = {10.0: 50, 20.0: 40, 40.0: 9, math.inf: 1}

histograms = st.dictionaries(
    st.sampled_from([1.0, 2.0, 5.0, 10.0, 50.0, math.inf]), st.integers(0, 1000), min_size=1
)


def test_a_quantile_is_told_by_its_bucket() -> None:
    """The quantile's bound is the first with enough requests at or below it."""
    assert quantile_bound(HISTOGRAM, 0.5) == 10.0
    assert quantile_bound(HISTOGRAM, 0.9) == 20.0
    assert quantile_bound(HISTOGRAM, 1.0) == math.inf
    assert quantile_bound({}, 0.5) is None


def test_answers_above_a_latency_within_a_bucket_are_counted_in_part() -> None:
    """Half of a bucket, on a logarithmic scale, lies above the geometric middle of its bounds; what is above the
    last finite bound counts whole."""
    assert above_within(HISTOGRAM, math.sqrt(10 * 20)).events == pytest.approx(20 + 9 + 1)
    assert above_within(HISTOGRAM, 20.0).events == above(HISTOGRAM, 20.0).events
    assert above_within(HISTOGRAM, 60.0).events == 1
    assert above_within(HISTOGRAM, 7.5).events == pytest.approx(0.25 * 50 + 50)


@given(histograms, st.floats(0.1, 100), st.floats(1.0, 3.0))
def test_a_margin_only_ever_tolerates_more(
    histogram: dict[float, int], latency_ms: float, factor: float
) -> None:
    """What is tolerated of a candidate is never less than what stable itself has above the bound."""
    tolerated, own = above_within(histogram, latency_ms / factor), above_within(histogram, latency_ms)
    assert tolerated.events >= own.events - 1e-9
    assert tolerated.count == sum(histogram.values())


def test_levels_are_asked_about_where_stables_past_can_tell() -> None:
    """A level needs an answer beyond it, and a finite bound that reaches it."""
    assert bounds_at(HISTOGRAM, (0.5, 0.9, 0.99, 0.999)) == [10.0, 20.0, 40.0, None]
    assert bounds_at({10.0: 1, math.inf: 999}, (0.5,)) == [None]
    assert bounds_at({}, (0.5, 0.9)) == [None, None]


def test_levels_end_with_the_policys_quantile() -> None:
    """The quantile is the highest level, also where it lies between two of the fixed ones."""
    assert levels_up_to(0.92) == (0.5, 0.75, 0.9, 0.92)
    assert levels_up_to(0.5) == (0.5,)


def test_a_ceiling_is_judged_at_the_next_bound_above_it() -> None:
    """Where the ceiling lies between two bounds, nobody is blamed for what may still be below it."""
    assert ceiling_bound(HISTOGRAM, 15.0) == 20.0
    assert ceiling_bound(HISTOGRAM, 20.0) == 20.0
    assert ceiling_bound(HISTOGRAM, 50.0) is None


def test_the_bound_below_is_the_next_lower_one() -> None:
    """The lowest bound has none below and stands for itself."""
    assert bound_below(HISTOGRAM, 40.0) == 20.0
    assert bound_below(HISTOGRAM, 10.0) == 10.0


def test_histograms_are_added_bucket_by_bucket() -> None:
    """A bound that only one of them has keeps its count."""
    assert add_histograms({1.0: 2, 2.0: 1}, {2.0: 3, math.inf: 4}) == {1.0: 2, 2.0: 4, math.inf: 4}
