from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from include.model_release.errors import MetricsUnavailableError
from include.model_release.samples import Counters, Sample, Window, counters_delta


@pytest.mark.parametrize(
    "counts",
    [
        {"requests": math.nan, "errors": 0},
        {"requests": -1, "errors": 0},
        {"requests": 1, "errors": 2},
        {"requests": 1.5, "errors": 0},
        {"requests": math.inf, "errors": 0},
        {"requests": True, "errors": 0},
        {"requests": "7", "errors": 0},
        {"requests": 1, "errors": 0, "latency_buckets": {math.nan: 1}},
        {"requests": 1, "errors": 0, "latency_buckets": {-5.0: 1}},
        {"requests": 1, "errors": 0, "latency_buckets": {5.0: -1}},
    ],
)
def test_impossible_counts_are_a_failure_of_the_source(counts: dict[str, Any]) -> None:
    """NaN, negative, broken or contradictory numbers raise a typed error instead of becoming data."""
    with pytest.raises(MetricsUnavailableError):
        Sample(**counts)


@pytest.mark.parametrize("seconds", [math.nan, math.inf, -1.0])
def test_a_window_has_a_length(seconds: float) -> None:
    """A window's length is a finite number of seconds."""
    with pytest.raises(MetricsUnavailableError):
        Window(seconds, Sample(0, 0), Sample(0, 0))


def test_two_readings_make_a_sample() -> None:
    """A sample is what was added between two readings, bucket by bucket; a new bucket began at zero."""
    before = Counters(10, 1, {10.0: 8, math.inf: 2})
    after = Counters(25, 3, {10.0: 18, 20.0: 1, math.inf: 6})
    assert counters_delta(before, after) == Sample(15, 2, {10.0: 10, 20.0: 1, math.inf: 4})


@pytest.mark.parametrize(("before", "after"), [(None, Counters(1, 0)), (Counters(1, 0), None), (None, None)])
def test_a_missing_reading_is_not_an_empty_sample(before: Counters | None, after: Counters | None) -> None:
    """Silence of the metrics source raises; it never looks like a window without requests."""
    with pytest.raises(MetricsUnavailableError, match="missing"):
        counters_delta(before, after)


def test_a_restarted_process_counts_from_zero() -> None:
    """When any counter went down, all that the new reading shows happened in this window."""
    assert counters_delta(Counters(100, 9, {math.inf: 100}), Counters(7, 1, {math.inf: 7})) == Sample(
        7, 1, {math.inf: 7}
    )
    assert counters_delta(Counters(5, 5), Counters(9, 2)) == Sample(9, 2)


def test_errors_of_requests_that_began_earlier_stand_for_requests() -> None:
    """A source counts a request at its beginning and its error at its end; a window may so hold more errors."""
    assert counters_delta(Counters(10, 0), Counters(11, 3)) == Sample(3, 3)


counts = st.integers(0, 10**12)
buckets = st.dictionaries(st.one_of(st.floats(0.001, 1e6), st.just(math.inf)), counts, max_size=5)


@st.composite
def samples(draw: st.DrawFn) -> Sample:
    requests = draw(counts)
    return Sample(requests, draw(st.integers(0, requests)), draw(buckets))


@given(samples(), samples(), st.floats(0, 1e6))
def test_windows_survive_json(stable: Sample, candidate: Sample, seconds: float) -> None:
    """A window that was written down can be judged again exactly."""
    window = Window(seconds, stable, candidate)
    assert Window.from_dict(json.loads(json.dumps(window.to_dict()))) == window


@given(samples(), samples())
def test_readings_add_up(first: Sample, second: Sample) -> None:
    """Readings that only grow give back exactly what was added, and survive JSON."""
    start = Counters(first.requests, first.errors, first.latency_buckets)
    grown = {
        bound: first.latency_buckets.get(bound, 0) + second.latency_buckets.get(bound, 0)
        for bound in {*first.latency_buckets, *second.latency_buckets}
    }
    end = Counters(first.requests + second.requests, first.errors + second.errors, grown)
    delta = counters_delta(Counters.from_dict(json.loads(json.dumps(start.to_dict()))), end)
    assert (delta.requests, delta.errors) == (second.requests, second.errors)
    assert {b: n for b, n in delta.latency_buckets.items() if n} == {
        b: n for b, n in second.latency_buckets.items() if n
    }
