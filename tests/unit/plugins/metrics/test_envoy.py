"""Envoy's exposition text, as its admin endpoint writes it, read as counters by revision."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from slipway.metrics.sources.scrape import EnvoyMetricsHook, counters_by_revision
from slipway_core.errors import MetricsUnavailableError, UserError
from slipway_core.metrics.samples import reading_delta
from tests.support.plugins.http_double import Answer, MetricsServer, metrics_server

TEXT = """\
# TYPE envoy_cluster_grpc_0 counter
envoy_cluster_grpc_0{envoy_cluster_name="a|grpc"} 20
# TYPE envoy_cluster_grpc_1 counter
envoy_cluster_grpc_1{envoy_cluster_name="a|grpc"} 2
# TYPE envoy_cluster_grpc_13 counter
envoy_cluster_grpc_13{envoy_cluster_name="a|grpc"} 3
# TYPE envoy_cluster_upstream_rq counter
envoy_cluster_upstream_rq{envoy_response_code="200",envoy_cluster_name="a|http"} 40
envoy_cluster_upstream_rq{envoy_response_code="400",envoy_cluster_name="a|http"} 1
envoy_cluster_upstream_rq{envoy_response_code="503",envoy_cluster_name="a|http"} 4
envoy_cluster_upstream_rq{envoy_response_code="200",envoy_cluster_name="a|grpc"} 25
# TYPE envoy_cluster_upstream_rq_total counter
envoy_cluster_upstream_rq_total{envoy_cluster_name="a|http"} 45
envoy_cluster_upstream_rq_total{envoy_cluster_name="a|grpc"} 25
envoy_cluster_upstream_rq_total{envoy_cluster_name="idle|http"} 0
# TYPE envoy_cluster_upstream_rq_time histogram
envoy_cluster_upstream_rq_time_bucket{envoy_cluster_name="a|http",le="1"} 10
envoy_cluster_upstream_rq_time_bucket{envoy_cluster_name="a|http",le="2"} 40
envoy_cluster_upstream_rq_time_bucket{envoy_cluster_name="a|http",le="+Inf"} 45
envoy_cluster_upstream_rq_time_bucket{envoy_cluster_name="a|grpc",le="1"} 5
envoy_cluster_upstream_rq_time_bucket{envoy_cluster_name="a|grpc",le="2"} 25
envoy_cluster_upstream_rq_time_bucket{envoy_cluster_name="a|grpc",le="+Inf"} 25
"""


def test_both_protocols_are_counted_together() -> None:
    """HTTP counts by status, gRPC by grpc-status and not by its HTTP 200; a cancelled call is nobody's fault."""
    counters = counters_by_revision(TEXT, ["a"], "the router")["a"]
    assert counters.requests == 45 + 25
    assert counters.errors == (1 + 4) + 3


def test_buckets_hold_what_fell_into_them_alone() -> None:
    """Envoy's buckets are cumulative; the judge's are not."""
    counters = counters_by_revision(TEXT, ["a"], "the router")["a"]
    assert counters.latency_buckets == {1.0: 15, 2.0: 50, math.inf: 5}


def test_a_revision_without_requests_has_zero_counts() -> None:
    """The router knows it and has counted nothing: that is zero, and it is said by the router."""
    counters = counters_by_revision(TEXT, ["idle"], "the router")["idle"]
    assert (counters.requests, counters.errors) == (0, 0)


def test_a_revision_that_the_router_does_not_know_is_no_reading() -> None:
    """Silence about a revision is never taken for health; the error names the revision, and what is known."""
    with pytest.raises(MetricsUnavailableError, match=r"'gone'.*a\|http"):
        counters_by_revision(TEXT, ["a", "gone"], "the router")


@pytest.mark.parametrize(
    "broken",
    [
        TEXT.replace("} 40\n", "} NaN\n", 1),
        TEXT.replace("} 40\n", "} +Inf\n", 1),
        TEXT.replace("} 40\n", "} -40\n", 1),
        TEXT.replace("} 40\n", "} forty\n", 1),
        TEXT.replace('envoy_response_code="400"', 'envoy_response_code="four"'),
        TEXT.replace('le="2"} 40', 'le="2"} 4'),
        "<html><body>Please log in</body></html>",
        "",
    ],
)
def test_what_is_no_count_is_no_reading(broken: str) -> None:
    """NaN, infinite, negative and garbled values, shrinking buckets and other pages raise a typed error."""
    with pytest.raises(MetricsUnavailableError):
        counters_by_revision(broken, ["a"], "the router")


@pytest.fixture
def servers() -> Iterator[tuple[MetricsServer, MetricsServer]]:
    """Two routers' endpoints."""
    with metrics_server() as first, metrics_server() as second:
        for server in (first, second):
            server.answer = lambda asked: Answer(body=TEXT)
        yield first, second


@pytest.fixture
def connect(monkeypatch: pytest.MonkeyPatch) -> Callable[..., EnvoyMetricsHook]:
    """Makes the hook of a connection that is described by its fields."""

    def make(timeout_s: float = 5.0, **fields: Any) -> EnvoyMetricsHook:
        monkeypatch.setenv("AIRFLOW_CONN_SLIPWAY_METRICS", json.dumps({"conn_type": "http", **fields}))
        return EnvoyMetricsHook(timeout_s=timeout_s)

    return make


def test_one_router_is_one_series(
    servers: tuple[MetricsServer, MetricsServer], connect: Callable[..., EnvoyMetricsHook]
) -> None:
    """Host and port lead to one admin endpoint, which is asked for the counters of the clusters alone."""
    readings = connect(host="127.0.0.1", port=servers[0].port).read(["a", "idle"])
    assert readings["a"].totals().requests == 70
    assert readings["a"].at == readings["idle"].at
    (asked,) = servers[0].asked
    assert asked.path == "/stats/prometheus"
    assert re.search(asked.form["filter"], "cluster.a|http.upstream_rq_total")
    assert not re.search(asked.form["filter"], "cluster.a|http.upstream_cx_total")


@pytest.mark.parametrize("way", ["hosts", "endpoints", "urls"])
def test_several_routers_are_added_up(
    way: str, servers: tuple[MetricsServer, MetricsServer], connect: Callable[..., EnvoyMetricsHook]
) -> None:
    """Routers are named as hosts, as HOST:PORT or as URLs; each is a series, and one that restarts is alone reset."""
    addresses = [f"127.0.0.1:{server.port}" for server in servers]
    fields: dict[str, dict[str, Any]] = {
        "hosts": {"host": ", ".join(server.url for server in servers)},
        "endpoints": {"extra": {"endpoints": addresses}},
        "urls": {"extra": {"endpoints": [f"http://{address}/stats/prometheus" for address in addresses]}},
    }
    hook = connect(**fields[way])
    before = hook.read(["a"])["a"]
    assert sorted(before.series) == sorted(f"{server.url}/stats/prometheus" for server in servers)
    assert before.totals().requests == 140
    restarted = TEXT.partition("# TYPE envoy_cluster_upstream_rq counter")[2].splitlines()[1]
    fresh = f"# TYPE envoy_cluster_upstream_rq counter\n{restarted.replace(' 40', ' 5')}\n"
    servers[0].answer = lambda asked: Answer(body=fresh)
    assert reading_delta(before, hook.read(["a"])["a"]).requests == 5


@pytest.mark.parametrize(
    "bad",
    [
        Answer(status=500, body=TEXT),
        Answer(status=404),
        Answer(status=302, headers={"Location": "/login"}),
        Answer(status=401),
        Answer(body=TEXT.replace("a|", "b|")),
        Answer(body=b"\xff\xfe"),
        Answer(waits=True),
        Answer(body=TEXT, drips=True),
    ],
    ids=["500", "404", "redirect", "401", "other revisions", "not text", "slow", "dripping"],
)
def test_half_of_the_routers_is_no_reading(
    bad: Answer, servers: tuple[MetricsServer, MetricsServer], connect: Callable[..., EnvoyMetricsHook]
) -> None:
    """When one of several endpoints fails, for whatever reason, there is no reading, within the limit."""
    servers[1].answer = lambda asked: bad
    hook = connect(timeout_s=0.5, extra={"endpoints": [server.url for server in servers]})
    with pytest.raises(MetricsUnavailableError):
        hook.read(["a"])


def test_an_endpoint_that_is_down_is_named(connect: Callable[..., EnvoyMetricsHook]) -> None:
    """Nobody listens: the error says where, and which connection to look at."""
    with metrics_server() as server:
        port = server.port
    with pytest.raises(MetricsUnavailableError, match=rf"127\.0\.0\.1:{port}.*'slipway_metrics'"):
        connect(host="127.0.0.1", port=port).read(["a"])


def test_a_connection_without_an_endpoint_is_refused(connect: Callable[..., EnvoyMetricsHook]) -> None:
    """A connection that leads nowhere is a person's to mend, and is told when the hook is made."""
    with pytest.raises(UserError, match="names no endpoint"):
        connect()


@pytest.mark.parametrize(
    ("written", "strange"),
    [
        (',le="1"', ""),
        ('le="1"', 'le="x"'),
        ('envoy_response_code="200"', 'envoy_response_code="²"'),
        ('envoy_response_code="200"', 'envoy_response_code="' + "9" * 5000 + '"'),
        (" 40\n", " " + "9" * 400 + "\n"),
    ],
)
def test_a_line_that_envoy_would_not_write_is_no_usable_answer(written: str, strange: str) -> None:
    """A bucket without a bound, a code that is none, a count without an end: the reading fails with one error."""
    assert written in TEXT
    with pytest.raises(MetricsUnavailableError):
        counters_by_revision(TEXT.replace(written, strange), ["a"], "the router")


def test_a_page_of_thousands_of_other_clusters_is_not_repeated_in_the_error() -> None:
    """What was found instead of the revision is told in part."""
    page = "".join(f'x{{envoy_cluster_name="other-{number}|http"}} 1\n' for number in range(5000))
    with pytest.raises(MetricsUnavailableError) as raised:
        counters_by_revision(page, ["a"], "the router")
    assert len(str(raised.value)) < 1000
