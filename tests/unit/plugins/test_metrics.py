"""Envoy's exposition text, as its admin endpoint writes it, read as counters by revision."""

from __future__ import annotations

import math

import pytest
from slipway.hooks.metrics import counters_by_revision

from include.model_release.errors import MetricsUnavailableError

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
