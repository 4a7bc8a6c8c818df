"""Prometheus's answers made into readings, and all that a source can do instead of answering."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slipway.metrics.prometheus_series import RawSeries, RevisionData
from slipway.metrics.sources.prometheus import PrometheusMetricsHook
from slipway_core.errors import MetricsUnavailableError, UserError
from slipway_core.metrics.queries import QuerySet
from slipway_core.metrics.samples import Counters, Reading
from tests.support.plugins.http_double import Answer, HttpRequest, metrics_server
from tests.support.plugins.prometheus_double import NOW, Connect, Prometheus, connected, series

QUERIES = QuerySet(
    "A test's.",
    requests=('requests_total{rev="{revision}"}',),
    errors=('requests_total{rev="{revision}",code="500"}',),
    latency=('seconds_bucket{rev="{revision}"}',),
    latency_unit="s",
)
WATCHED = QuerySet(
    "A test's, whose counters come with the first request.",
    requests=QUERIES.requests,
    errors=QUERIES.errors,
    watched=('up{rev="{revision}"}',),
)


def revision(name: str, requests: str = "100", errors: str = "3", ago: float = 2.0) -> list[dict[str, Any]]:
    """A revision's healthy series: two status codes and a histogram, scraped twice."""
    labels = {"rev": name, "pod": f"{name}-pod"}
    old = ago + 15

    def bucket(le: str, count: str) -> dict[str, Any]:
        return series("seconds_bucket", (old, "0"), (ago, count), le=le, **labels)

    return [
        series("requests_total", (old, "90"), (ago, requests), code="200", **labels),
        series("requests_total", (old, "1"), (ago, errors), code="500", **labels),
        bucket("0.0", "0"),
        bucket("0.07", "60"),
        bucket("0.25", "90"),
        bucket("+Inf", "103"),
    ]


@pytest.fixture
def prometheus() -> Prometheus:
    """A Prometheus with two healthy revisions."""
    return Prometheus([*revision("old"), *revision("new")])


@pytest.fixture
def connect(prometheus: Prometheus, monkeypatch: pytest.MonkeyPatch) -> Iterator[Connect]:
    """Makes the hook on that Prometheus, or on what answers in its place."""
    with connected(prometheus, monkeypatch, QUERIES) as make:
        yield make


def refusal(hook: PrometheusMetricsHook) -> str:
    """The error that a reading of both revisions ends with."""
    with pytest.raises(MetricsUnavailableError) as caught:
        hook.read(["old", "new"])
    assert "s3cret-token" not in str(caught.value)
    return str(caught.value)


def test_newest_samples_become_a_reading(connect: Connect) -> None:
    """Codes are added up, buckets taken apart and brought to ms; the reading is of the newest sample's moment."""
    reading = connect().read(["old", "new"])["new"]
    assert reading.at == NOW - 2
    assert reading.totals() == Counters(103, 3, {70.0: 60, 250.0: 30, math.inf: 13})


def test_all_is_asked_of_one_moment(connect: Connect, prometheus: Prometheus) -> None:
    """Every query is evaluated at the time that the server itself gave, with the range of the release file."""
    connect().read(["old", "new"])
    first, *others = prometheus.asked
    assert first["query"] == "time()"
    assert {asked["time"] for asked in others} == {str(NOW)}
    assert 'requests_total{rev="new",code="500"}[60s]' in {asked["query"] for asked in others}
    assert len(others) == 6


def test_the_api_may_lie_deeper(connect: Connect) -> None:
    """Mimir's API lies under /prometheus, which the connection's extra says."""
    paths = []

    def answer(asked: HttpRequest) -> Answer:
        paths.append(asked.path)
        return Answer(status=404)

    assert "HTTP 404" in refusal(connect(answer, extra={"path": "/prometheus/"}))
    assert paths == ["/prometheus/api/v1/query"]


@pytest.mark.parametrize(
    ("answer", "found"),
    [
        (Answer(status=500, body="panic"), "HTTP 500"),
        (Answer(status=502, body="<html>"), "HTTP 502"),
        (Answer(status=401), "HTTP 401"),
        (Answer(status=302, headers={"Location": "/login"}), "HTTP 302"),
        (Answer(body="<html>Welcome</html>"), "not an answer of Prometheus"),
        (Answer(body="[]"), "not an answer of Prometheus"),
        (Answer(status=400, body='{"status":"error","errorType":"bad_data","error":"no"}'), "bad_data: no"),
        (Answer(status=503, body='{"status":"error","errorType":"timeout","error":"slow"}'), "timeout: slow"),
        (Answer(body='{"status":"success","data":{"resultType":"vector","result":[]}}'), "its time"),
        (Answer(drips=True), "in time"),
        (Answer(waits=True), "in time"),
    ],
    ids=[
        "500",
        "502",
        "401",
        "login page",
        "another page",
        "other JSON",
        "bad query",
        "overload",
        "no clock",
        "dripping",
        "slow",
    ],
)
def test_whatever_else_it_says_is_no_reading(answer: Answer, found: str, connect: Connect) -> None:
    """Errors, pages, slowness and refusals are a typed error that says which, within the time limit."""
    began = time.monotonic()
    assert found in refusal(connect(lambda asked: answer, timeout_s=0.7 if found == "in time" else 10.0))
    assert time.monotonic() - began < 5


def test_a_prometheus_that_is_down_is_named(connect: Connect) -> None:
    """Nobody listens there: the address and the connection are named."""
    with metrics_server() as gone:
        address = gone.url
    text = refusal(connect(host=address))
    assert address in text
    assert "'prometheus'" in text


@pytest.mark.parametrize(
    "data", [None, {}, {"resultType": "matrix"}, {"resultType": "matrix", "result": [7]}]
)
def test_data_of_another_shape_are_refused(data: Any, connect: Connect, prometheus: Prometheus) -> None:
    """What does not look as the API describes it is not guessed at."""

    def answer(asked: HttpRequest) -> Answer:
        if asked.form["query"] == "time()":
            return prometheus(asked)
        return Answer(body=json.dumps({"status": "success", "data": data}))

    assert "an unusable answer" in refusal(connect(answer))


def test_warnings_mean_that_parts_are_lacking(connect: Connect, prometheus: Prometheus) -> None:
    """Thanos and Mimir answer with warnings when a store is away: half of the counts is no count."""
    prometheus.more = {"warnings": ["store 10.0.0.7 is unavailable"]}
    assert "partial answer" in refusal(connect())


@pytest.mark.parametrize("value", ["NaN", "+Inf", "-1", "0.5"])
@pytest.mark.parametrize("which", [6, 8])
def test_values_that_are_no_counts_are_refused(
    value: str, which: int, connect: Connect, prometheus: Prometheus
) -> None:
    """A counter or a bucket that is NaN, infinite, negative or broken was not read; the series is named."""
    prometheus.series[which]["values"][-1][1] = value
    assert "rev=new" in refusal(connect())


def test_buckets_that_shrink_are_refused(connect: Connect, prometheus: Prometheus) -> None:
    """Cumulative buckets only grow with their bounds."""
    prometheus.series[-2]["values"][-1][1] = "50"
    assert "latency bucket 250" in refusal(connect())


def test_a_histogram_has_a_last_bucket(connect: Connect, prometheus: Prometheus) -> None:
    """Without the bucket of all requests those beyond the last bound would not be seen."""
    del prometheus.series[-1]
    assert "+Inf" in refusal(connect())


def test_a_native_histogram_is_told_from_a_classic_one(connect: Connect, prometheus: Prometheus) -> None:
    """The error says to ask for buckets."""
    prometheus.series[-1]["histograms"] = [[NOW, {"count": "1"}]]
    assert "native histogram" in refusal(connect())


def test_a_revision_that_is_not_there_is_no_reading(connect: Connect, prometheus: Prometheus) -> None:
    """No series of a revision: the error names the revision, and says how to see the queries."""
    prometheus.series = revision("old")
    text = refusal(connect())
    assert "requests of the revision 'new'" in text
    assert "metrics --revision new" in text


def test_stale_data_are_no_data(connect: Connect, prometheus: Prometheus) -> None:
    """The newest sample is older than allowed by the server's own clock: the target is no longer scraped."""
    prometheus.series = [*revision("old"), *revision("new", ago=45.5)]
    assert "the newest is 45.5 s old" in refusal(connect())


def test_latency_must_come_with_the_requests(connect: Connect, prometheus: Prometheus) -> None:
    """A histogram that is asked for and lacks, or is stale, is a part that lacks."""
    prometheus.series = [*revision("old"), *revision("new")[:2]]
    assert "latency of the revision 'new'" in refusal(connect())
    stale = [series for series in revision("new", ago=50) if "le" in series["metric"]]
    prometheus.series = [*revision("old"), *revision("new")[:2], *stale]
    assert "latency of the revision 'new'" in refusal(connect())


def test_latency_may_lag_behind_the_first_requests(connect: Connect, prometheus: Prometheus) -> None:
    """Envoy flushes its histograms some seconds later: the first requests do not wait for that."""
    young = series("requests_total", (16, "0"), (2, "4"), rev="new", code="200")
    prometheus.series = [*revision("old"), young]
    assert connect().read(["old", "new"])["new"].totals() == Counters(4, 0)


def test_a_revision_that_is_watched_and_has_no_counters_has_no_requests(
    connect: Connect, prometheus: Prometheus
) -> None:
    """Where counters come with the first request, the source itself says that there has been none."""
    prometheus.series = [*revision("old"), series("up", (20, "1"), (5, "1"), rev="new")]
    reading = connect(queries=WATCHED).read(["old", "new"])["new"]
    assert reading == Reading(NOW - 5)


def test_pods_that_are_gone_do_not_make_a_watched_revision_stale(
    connect: Connect, prometheus: Prometheus
) -> None:
    """The counters of the pods before are remembered; the reading is of the moment of what is still scraped."""
    prometheus.series = [
        *revision("old"),
        *revision("new", ago=44)[:2],
        series("up", (5, "1"), rev="new"),
    ]
    for one in prometheus.series[-3:-1]:
        for sample in one["values"]:
            sample[0] -= 10
    reading = connect(queries=WATCHED).read(["old", "new"])["new"]
    assert reading.at == NOW - 5
    assert reading.totals().requests == 103


@pytest.mark.parametrize(
    "up",
    [[], [series("up", (5, "0"), rev="new")], [series("up", (50, "1"), rev="new")]],
    ids=["none", "down", "stale"],
)
def test_a_revision_that_nobody_watches_is_unknown(
    up: list[dict[str, Any]], connect: Connect, prometheus: Prometheus
) -> None:
    """Neither counters nor a target that is up: that is no revision without requests."""
    prometheus.series = [*revision("old"), *up]
    assert "requests of the revision 'new'" in refusal(connect(queries=WATCHED))


def test_what_proves_nothing_is_only_asked_when_it_is_needed(
    connect: Connect, prometheus: Prometheus
) -> None:
    """As long as the counters are fresh, there is no query for `watched`."""
    connect(queries=WATCHED).read(["old", "new"])
    assert not [asked for asked in prometheus.asked if asked["query"].startswith("up")]


def test_parts_of_a_series_are_taken_at_one_moment(connect: Connect, prometheus: Prometheus) -> None:
    """When a scrape comes in between two queries, requests and errors are those of the scrape before."""

    def answer(asked: HttpRequest) -> Answer:
        content = json.loads(prometheus(asked).body)
        if 'rev="new",code="500"' in asked.form["query"]:
            content["data"]["result"][0]["values"].append([NOW - 1, "40"])
        return Answer(body=json.dumps(content))

    assert connect(answer).read(["old", "new"])["new"].totals().errors == 3


def test_a_series_may_count_for_one_revision_only(connect: Connect, prometheus: Prometheus) -> None:
    """Selectors that catch both revisions would compare stable with itself."""
    both = QuerySet("Too wide.", requests=('requests_total{rev="old"}',), errors=QUERIES.errors)
    assert "the same series for two revisions" in refusal(connect(queries=both))


def test_a_series_may_count_once(connect: Connect) -> None:
    """Two selectors of one kind that overlap would count requests twice."""
    twice = QuerySet("Twice.", requests=QUERIES.requests * 2, errors=QUERIES.errors)
    assert "one series for two queries" in refusal(connect(queries=twice))


@pytest.mark.parametrize("host", ["one,two", ""])
def test_one_prometheus_is_asked(host: str, connect: Connect) -> None:
    """The connection names one address; of two, nobody could say which one counts."""
    with pytest.raises(UserError, match="one Prometheus"):
        connect(host=host)


@given(st.lists(st.integers(0, 1000), min_size=1, max_size=8), st.sampled_from(["ms", "s"]))
def test_buckets_add_up_to_the_requests(counts: list[int], unit: Any) -> None:
    """Whatever the bounds and their unit: what lies in the buckets is what the last one holds."""
    bounds = [str(index / 8) for index in range(len(counts) - 1)] + ["+Inf"]
    totals = [sum(counts[: index + 1]) for index in range(len(counts))]
    buckets = [
        RawSeries({"__name__": "b", "le": le}, {1.0: float(total)})
        for le, total in zip(bounds, totals, strict=True)
    ]
    requests = [RawSeries({"__name__": "r"}, {1.0: float(totals[-1])})]
    reading = RevisionData("new", "a test", 2.0, 10.0, requests, [], buckets, unit).reading()
    found = reading.totals()
    assert sum(found.latency_buckets.values()) == found.requests == totals[-1]
    assert all(bound > 0 for bound in found.latency_buckets)
