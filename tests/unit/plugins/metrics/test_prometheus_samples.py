"""All samples of an answer are used: restarts lose nothing, and no process counts its whole life again."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slipway_core.errors import MetricsUnavailableError
from slipway_core.metrics.queries import QuerySet
from slipway_core.metrics.samples import Counters, Reading, Sample, SeriesReading, reading_delta
from tests.support.plugins.prometheus_double import NOW, Connect, Prometheus, connected, series

QUERIES = QuerySet(
    "A test's.",
    requests=('calls_total{rev="{revision}"}',),
    errors=('calls_total{rev="{revision}",code="500"}',),
    watched=('up{rev="{revision}"}',),
)
TIMED = QuerySet("With latency.", QUERIES.requests, QUERIES.errors, latency=('ms_bucket{rev="{revision}"}',))


@pytest.fixture
def prometheus() -> Prometheus:
    """A Prometheus without any series yet."""
    return Prometheus()


@pytest.fixture
def connect(prometheus: Prometheus, monkeypatch: pytest.MonkeyPatch) -> Iterator[Connect]:
    """Makes the hook on that Prometheus."""
    with connected(prometheus, monkeypatch, QUERIES) as make:
        yield make


def calls(*values: tuple[float, int], pod: str = "a", code: str = "200", **labels: str) -> dict[str, Any]:
    """The counter of one pod; values are (seconds ago, value)."""
    text = [(ago, str(value)) for ago, value in values]
    return series("calls_total", *text, rev="new", instance=f"{pod}:9091", code=code, **labels)


def counted(hook: Any, prometheus: Prometheus, *shown: list[dict[str, Any]]) -> Sample:
    """What one revision counted from the first to the last of some readings."""
    readings: list[Reading] = []
    for one in shown:
        prometheus.series = one
        found = hook.read(["new"])["new"]
        readings.append(found.remembering(readings[-1]) if readings else found)
    parts = [reading_delta(*pair) for pair in itertools.pairwise(readings)]
    return Sample(sum(one.requests for one in parts), sum(one.errors for one in parts))


def test_restarts_between_two_readings_lose_nothing(connect: Connect, prometheus: Prometheus) -> None:
    """The answer holds the samples between: each drop is a restart, and what was counted before it counts."""
    before = [calls((60, 900), (45, 1000))]
    after = [calls((45, 1000), (30, 1100), (25, 30), (20, 120), (15, 10), (2, 90))]
    assert counted(connect(), prometheus, before, after).requests == 100 + 30 + 90 + 10 + 80


def test_a_series_that_comes_back_does_not_count_its_life(connect: Connect, prometheus: Prometheus) -> None:
    """A pod that nobody saw at the first reading has counted for weeks: only what it added since is counted."""
    before = [calls((45, 1000), (31, 1100))]
    after = [
        calls((31, 1100), (15, 1250), (1, 1400)),
        calls((15, 2_059_250), (1, 2_059_400), pod="b"),
        calls((15, 60_000), (1, 60_003), pod="b", code="500"),
    ]
    assert counted(connect(), prometheus, before, after) == Sample(300 + 150 + 3, 3)


def test_also_when_only_one_sample_of_it_is_seen(connect: Connect, prometheus: Prometheus) -> None:
    """With a single sample nobody can say what it added; that it was all is excluded."""
    before = [calls((45, 1000), (31, 1100))]
    after = [calls((31, 1100), (15, 1250), (1, 1400)), calls((1, 2_059_400), pod="b")]
    assert counted(connect(), prometheus, before, after).requests == 300


def test_what_a_series_counted_before_the_window_is_not_counted(
    connect: Connect, prometheus: Prometheus
) -> None:
    """The range reaches back behind the first reading: the sample of then is where the counting begins."""
    before = [calls((45, 1000), (31, 1100))]
    after = [calls((31, 1100), (1, 1400)), calls((46, 5000), (32, 5100), (15, 5200), (1, 5300), pod="b")]
    assert counted(connect(), prometheus, before, after).requests == 300 + 200


def test_a_pod_that_is_new_counts_from_0(connect: Connect, prometheus: Prometheus) -> None:
    """What a pod counted before its first scrape is counted, errors included."""
    before = [calls((45, 1000), (31, 1100))]
    after = [
        calls((31, 1100), (15, 1250), (1, 1400)),
        calls((15, 140), (1, 290), pod="b"),
        calls((15, 8), (1, 9), pod="b", code="500"),
    ]
    assert counted(connect(), prometheus, before, after) == Sample(300 + 290 + 9, 9)


def test_the_first_error_of_a_pod_is_counted(connect: Connect, prometheus: Prometheus) -> None:
    """A code that a known pod had not given before began at 0, also where all its answers are errors now."""
    before = [calls((45, 1000), (31, 1100))]
    after = [calls((31, 1100), (1, 1100)), calls((1, 4000), code="500")]
    assert counted(connect(), prometheus, before, after) == Sample(4000, 4000)


def test_the_first_requests_of_a_revision_are_counted(connect: Connect, prometheus: Prometheus) -> None:
    """A revision that is watched and had no counter has none to hide."""
    up = series("up", (45, "1"), (31, "1"), rev="new")
    after = [calls((1, 40)), series("up", (31, "1"), (1, "1"), rev="new")]
    assert counted(connect(), prometheus, [up], after).requests == 40


def test_a_revision_whose_series_were_hidden_does_not_count_its_life(
    connect: Connect, prometheus: Prometheus
) -> None:
    """Where only the target was seen at first, a count that no process reaches so soon is an old one."""
    up = series("up", (45, "1"), (31, "1"), rev="new")
    for shown in (calls((1, 2_060_000)), calls((15, 2_059_000), (1, 2_060_000))):
        after = [shown, series("up", (31, "1"), (1, "1"), rev="new")]
        assert counted(connect(), prometheus, [up], after).requests in (0, 1000)


def test_a_counter_that_goes_back_and_forth_is_not_reset(connect: Connect, prometheus: Prometheus) -> None:
    """Two servers behind one address lag each other: older values between newer ones add nothing."""
    before = [calls((60, 2_000_000), (45, 2_000_150))]
    after = [calls((45, 2_000_150), (40, 2_000_110), (30, 2_000_300), (25, 2_000_260), (1, 2_000_600))]
    assert counted(connect(), prometheus, before, after).requests == 450
    older = [calls((44, 2_000_140))]
    assert counted(connect(), prometheus, before, older).requests == 0


def test_a_pod_that_is_gone_adds_what_it_counted_last(connect: Connect, prometheus: Prometheus) -> None:
    """Its last samples are in the range; after that it adds nothing, and is no reset."""
    before = [calls((45, 1000), (31, 1100)), calls((45, 500), (31, 600), pod="b")]
    after = [calls((31, 1100), (15, 1250), (1, 1400)), calls((31, 600), (16, 640), pod="b")]
    assert counted(connect(), prometheus, before, after, after[:1]).requests == 300 + 40


def test_a_gap_longer_than_the_range_counts_what_was_added(connect: Connect, prometheus: Prometheus) -> None:
    """The source was away for longer than samples are asked for: the sums go on from the last known ones."""
    before = [calls((600, 1000))]
    before[0]["values"] = [[NOW - 20, "1000"]]
    after = [calls((16, 9000), (1, 9100))]
    assert counted(connect(), prometheus, before, after).requests == 8100


def test_copies_of_one_series_are_refused(connect: Connect, prometheus: Prometheus) -> None:
    """Two equal Prometheus servers, not deduplicated: each request would count twice, and prove twice as much."""
    prometheus.series = [calls((1, 9), prometheus_replica=one) for one in ("a", "b")]
    with pytest.raises(MetricsUnavailableError, match="two copies of one series"):
        connect().read(["new"])


def test_bounds_are_read_however_they_are_written(connect: Connect, prometheus: Prometheus) -> None:
    """1e+01, 10 and 10.0 are one bound, also where the way of writing changes within the range."""

    def bucket(le: str, *values: tuple[float, str]) -> dict[str, Any]:
        return series("ms_bucket", *values, rev="new", instance="a:9091", le=le)

    prometheus.series = [
        calls((20, 5), (2, 9)),
        bucket("1e+01", (20, "4")),
        bucket("10.0", (2, "7")),
        bucket("2.5e+02", (20, "5"), (2, "9")),
        bucket("+Inf", (20, "5"), (2, "9")),
    ]
    found = connect(queries=TIMED).read(["new"])["new"].totals()
    assert found.latency_buckets == {10.0: 7, 250.0: 2, math.inf: 0}


@given(
    st.lists(st.tuples(st.integers(0, 400), st.booleans()), min_size=1, max_size=20),
    st.sets(st.integers(0, 20)),
)
def test_however_often_one_reads_the_sum_is_that_of_the_samples(
    history: list[tuple[int, bool]], looks: set[int]
) -> None:
    """Whatever is restarted between: with all samples in the answer nothing is lost, and nothing counted twice."""
    samples, total = [(0.0, Counters(0, 0))], 0
    for number, (more, restarts) in enumerate(history, start=1):
        before = samples[-1][1].requests
        shown = more if restarts else before + more
        total += shown if shown < before else shown - before
        samples.append((15.0 * number, Counters(shown, 0)))
    ends = sorted({0, len(history), *(one for one in looks if one < len(history))})
    readings = [
        Reading(samples[end][0], {"pod": SeriesReading(*samples[end], "pod", tuple(samples[:end]))})
        for end in ends
    ]
    assert sum(reading_delta(*pair).requests for pair in itertools.pairwise(readings)) == total
