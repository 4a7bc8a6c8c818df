from __future__ import annotations

import json
import math
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slipway_core.errors import MetricsUnavailableError
from slipway_core.metrics.samples import (
    Counters,
    Reading,
    Sample,
    SeriesReading,
    Window,
    counters_delta,
    reading_delta,
    window_between,
)


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
        {"requests": 3, "errors": 1, "unanswered": 2},
        {"requests": 3, "errors": 1, "unanswered": -1},
        {"requests": 3, "errors": 1, "begun": -1},
        {"requests": 3, "errors": 1, "begun": math.nan},
        {"requests": 3, "errors": 1, "active": 0.5},
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
    errors = draw(st.integers(0, requests))
    unanswered, told = draw(st.integers(0, errors)), st.one_of(st.none(), counts)
    return Sample(requests, errors, draw(buckets), unanswered, draw(told), draw(told))


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


def reading(at: float, **series: tuple[int, int]) -> Reading:
    """A reading of series of (requests, errors), each request in the bucket up to 10 ms."""
    return Reading.of(at, {name: Counters(n, bad, {10.0: n}) for name, (n, bad) in series.items()})


def test_each_series_counts_by_itself() -> None:
    """One pod grows, one is restarted, one is born and one is gone: what is seen of each is added up."""
    before = reading(100, grows=(10, 1), restarts=(500, 50), goes=(70, 7))
    after = reading(110, grows=(15, 2), restarts=(3, 1), born=(4, 0))
    assert reading_delta(before, after) == Sample(5 + 3 + 4, 1 + 1, {10.0: 5 + 3 + 4})


def test_a_series_that_was_hidden_does_not_count_its_life_again() -> None:
    """A pod that vanishes from the source and comes back adds what it counted meanwhile, and nothing else."""
    first, hidden, back = reading(100, pod=(1000, 9)), reading(110), reading(120, pod=(1030, 10))
    hidden = hidden.remembering(first)
    assert reading_delta(first, hidden) == Sample(0, 0)
    assert reading_delta(hidden, back) == Sample(30, 1, {10.0: 30})


def test_a_source_that_lags_behind_its_twin_is_not_a_reset() -> None:
    """Two Prometheus servers behind one address answer in turn: an older value adds nothing and is forgotten."""
    first = Reading(100, {"pod": SeriesReading(100, Counters(50, 0))})
    lagging = Reading(
        105, {"pod": SeriesReading(93, Counters(40, 0)), "other": SeriesReading(105, Counters(1, 0))}
    )
    assert reading_delta(first, lagging) == Sample(1, 0)
    assert lagging.remembering(first).series["pod"].counters.requests == 50
    assert Reading(95).remembering(first).at == 100


def test_requests_and_errors_may_be_series_of_their_own() -> None:
    """Errors counted under another name are not counted as requests as well."""
    before = Reading.of(1, {"total": Counters(100, 0), "failed": Counters(0, 5)})
    after = Reading.of(2, {"total": Counters(140, 0), "failed": Counters(0, 8)})
    assert reading_delta(before, after) == Sample(40, 3)
    assert after.totals() == Counters(140, 8)


def test_a_window_takes_new_data_of_both() -> None:
    """The same data again, of one revision or both, is no window; the length is that of the data, not of the wait."""
    first = {"old": reading(100, a=(10, 0)), "new": reading(103, b=(1, 0))}
    half = {"old": reading(100, a=(10, 0)), "new": reading(118, b=(2, 0))}
    whole = {"old": reading(115, a=(30, 1)), "new": reading(118, b=(2, 0))}

    def between(before: dict[str, Reading], after: dict[str, Reading]) -> Window | None:
        return window_between(before, after, stable="old", candidate="new")

    assert between(first, first) is None
    assert between(first, half) is None
    assert between(first, whole) == Window(15, Sample(20, 1, {10.0: 20}), Sample(1, 0, {10.0: 1}))
    assert between(whole, first) is None


def test_a_reading_that_lacks_a_revision_makes_no_window() -> None:
    """A revision that is not in a reading is named; it is never taken for one without requests."""
    both = {"old": reading(1), "new": reading(1)}
    with pytest.raises(MetricsUnavailableError, match="'new'"):
        window_between(both, {"old": reading(2)}, stable="old", candidate="new")


@pytest.mark.parametrize("moment", [math.nan, math.inf, -1.0, True])
def test_a_reading_has_a_moment(moment: float) -> None:
    """A reading is dated by a finite moment."""
    with pytest.raises(MetricsUnavailableError, match="moment"):
        Reading(moment)


small = st.integers(0, 50)
# Every source shows all buckets of a histogram, those without a request too.
growths = st.tuples(small, small, st.fixed_dictionaries(dict.fromkeys([1.0, 10.0, math.inf], small)))


@dataclass
class Process:
    """A process that counts: what it has counted, and what it had when it was last looked at."""

    requests: int = 0
    errors: int = 0
    buckets: Counter[float] = field(default_factory=Counter)
    seen: Counters = field(default_factory=lambda: Counters(0, 0))

    def grow(self, growth: tuple[int, int, dict[float, int]]) -> None:
        self.requests += growth[0] + growth[1]
        self.errors += growth[1]
        self.buckets.update(growth[2])

    def look(self) -> Counters:
        """The counters now; the difference to the last look is what an observer can know of."""
        self.seen = Counters(self.requests, self.errors, dict(self.buckets))
        return self.seen


def add_up(readings: list[Reading]) -> Sample:
    """The sum of the differences along a list of readings, each remembering the one before."""
    known, parts = readings[0], []
    for one in readings[1:]:
        one = one.remembering(known)
        parts.append(reading_delta(known, one))
        known = one
    buckets: Counter[float] = Counter()
    for part in parts:
        buckets.update(part.latency_buckets)
    return Sample(sum(p.requests for p in parts), sum(p.errors for p in parts), dict(+buckets))


names = st.sampled_from(["a", "b", "c"])
ticks = st.lists(
    st.tuples(st.dictionaries(names, growths), st.sets(names), st.sets(names)), min_size=1, max_size=12
)


@given(ticks)
def test_differences_add_up_to_what_the_processes_counted(history: list[Any]) -> None:
    """Whatever grows, hides, returns or restarts: the differences sum to all counts that were ever shown."""
    processes: dict[str, Process] = {}
    readings = [Reading(0)]
    finished: list[Counters] = []
    for at, (grown, hidden, restarted) in enumerate(history, start=1):
        for name in restarted & processes.keys():
            finished.append(processes[name].seen)
            processes[name] = Process()
            hidden = hidden - {name}  # a restart that is never seen at zero is one that no observer can tell
            grown = {other: growth for other, growth in grown.items() if other != name}
        for name, growth in grown.items():
            processes.setdefault(name, Process()).grow(growth)
        shown = {name: process.look() for name, process in processes.items() if name not in hidden}
        readings.append(Reading.of(at, shown))
    ever = [*finished, *(process.seen for process in processes.values())]
    total = add_up(readings)
    assert total.requests == sum(one.requests for one in ever)
    assert total.errors == sum(one.errors for one in ever)
    buckets: Counter[float] = Counter()
    for one in ever:
        buckets.update(one.latency_buckets)
    assert total.latency_buckets == dict(sorted((+buckets).items()))


@given(ticks, st.data())
def test_a_split_does_not_change_the_sum(history: list[Any], data: st.DataObject) -> None:
    """However often one looks, and whatever hides meanwhile: from first to last look the sum is the same."""
    processes: dict[str, Process] = {name: Process() for name in "abc"}
    readings = [Reading.of(0, {name: process.look() for name, process in processes.items()})]
    for at, (grown, hidden, _) in enumerate(history, start=1):
        for name, growth in grown.items():
            processes[name].grow(growth)
        last = at == len(history)
        shown = {name: p.look() for name, p in processes.items() if last or name not in hidden}
        readings.append(Reading.of(at, shown))
    looks = data.draw(st.sets(st.integers(0, len(history)))) | {0, len(history)}
    assert add_up([readings[index] for index in sorted(looks)]) == add_up([readings[0], readings[-1]])


@given(st.floats(0, 1e10), st.dictionaries(st.text(max_size=5), st.tuples(st.floats(0, 1e10), samples())))
def test_readings_survive_json(at: float, series: dict[str, tuple[float, Sample]]) -> None:
    """A reading that was written down gives the same differences as before."""
    one = Reading(
        at,
        {
            name: SeriesReading(seen, Counters(s.requests, s.errors, s.latency_buckets))
            for name, (seen, s) in series.items()
        },
    )
    assert Reading.from_dict(json.loads(json.dumps(one.to_dict()))) == one
