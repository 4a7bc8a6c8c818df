"""Histograms with other bounds are added and compared on those that they share."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from slipway_core.metrics.histograms import added, coarsened, common_bounds, grown
from slipway_core.metrics.samples import Counters, Reading, Sample, counters_delta, reading_delta

INF = math.inf


def test_bounds_that_only_one_has_are_left_out() -> None:
    """What lay in the bucket is in the next one that both have."""
    assert added({10.0: 1, 20.0: 2, INF: 0}, {20.0: 5, 50.0: 7, INF: 1}) == {20.0: 8, INF: 8}


def test_a_bound_that_was_dropped_is_no_restart() -> None:
    """A relabelling that drops buckets leaves what was counted before; nothing is counted again."""
    before, after = Counters(300, 0, {10.0: 100, 20.0: 200, INF: 0}), Counters(310, 0, {20.0: 310, INF: 0})
    assert counters_delta(before, after) == Sample(10, 0, {20.0: 10, INF: 0})


def test_a_histogram_may_be_reset_alone() -> None:
    """Its buckets begin at 0 again; requests and errors go on from where they were."""
    before, after = Counters(100, 5, {10.0: 100, INF: 0}), Counters(130, 6, {10.0: 8, INF: 0})
    assert counters_delta(before, after) == Sample(30, 1, {10.0: 8, INF: 0})


def test_processes_with_other_bounds_are_added_on_common_ones() -> None:
    """During an upgrade the pods of one revision may have other bounds."""
    series = {"a": Counters(4, 0, {10.0: 4, INF: 0}), "b": Counters(6, 0, {10.0: 1, 50.0: 5, INF: 0})}
    assert reading_delta(Reading(1), Reading.of(2, series)).latency_buckets == {10.0: 5, INF: 5}


counts = st.dictionaries(st.sampled_from([1.0, 5.0, 10.0, 50.0]), st.integers(0, 9)).map(
    lambda found: {**dict(sorted(found.items())), INF: 3}
)


@given(counts, counts)
def test_nothing_is_lost_on_common_bounds(one: dict[float, int], other: dict[float, int]) -> None:
    """The sum of all buckets is that of both, and each bound has below it what it had."""
    both = added(one, other)
    assert sum(both.values()) == sum(one.values()) + sum(other.values())
    for bound in common_bounds(one, other):
        below = [sum(n for b, n in part.items() if b <= bound) for part in (one, other, both)]
        assert below[2] == below[0] + below[1]
    assert grown(coarsened(one, {*both}), both) == coarsened(other, {*both})
