from __future__ import annotations

import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slipway_core.canary.latency import (
    above,
    above_within,
    add_histograms,
    bound_below,
    bounds_at,
    ceiling_bound,
    levels_up_to,
    quantile_ms,
)

HISTOGRAM = {10.0: 50, 20.0: 40, 40.0: 9, math.inf: 1}

histograms = st.dictionaries(
    st.sampled_from([1.0, 2.0, 5.0, 10.0, 50.0, math.inf]), st.integers(0, 1000), min_size=1
)


_COUNTS = st.lists(st.integers(0, 50), min_size=4, max_size=4).filter(any)
_BOUNDS = (1.0, 10.0, 100.0, math.inf)


@given(_COUNTS, st.floats(0.01, 0.99))
def test_a_quantile_lies_in_the_bucket_that_holds_it(counts: list[int], quantile: float) -> None:
    """What is told never leaves the bucket that the histogram itself names, or says that it lies beyond."""
    buckets = dict(zip(_BOUNDS, counts, strict=True))
    found = quantile_ms(buckets, quantile)
    assert found is not None
    reached = [*itertools.accumulate(counts)]
    place = next(i for i, below in enumerate(reached) if below >= quantile * sum(counts) and counts[i] > 0)
    if math.isinf(_BOUNDS[place]):
        assert found == (100.0, True)
    else:
        assert (0.0, *_BOUNDS)[place] <= found[0] <= _BOUNDS[place] * (1 + 1e-12)
        assert found[1] is False


def test_a_quantile_between_bounds_is_read_on_a_logarithmic_axis() -> None:
    """Half-way between 10 and 1000 ms lies 100 ms; below the first bound the axis is linear."""
    assert quantile_ms({10.0: 0, 1000.0: 8, math.inf: 0}, 0.5) == (pytest.approx(100.0), False)
    assert quantile_ms({10.0: 8, math.inf: 0}, 0.25) == (2.5, False)


@pytest.mark.parametrize("buckets", [{}, {1.0: 0, math.inf: 0}, {math.inf: 5}])
def test_a_histogram_that_tells_nothing_has_no_quantile(buckets: dict[float, int]) -> None:
    """No buckets, no requests, no finite bound: the quantile is not known."""
    assert quantile_ms(buckets, 0.5) is None


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
