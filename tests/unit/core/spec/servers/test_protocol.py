"""`rollout.protocol: grpc`, and what goes with it."""

from __future__ import annotations

import pytest

from slipway_core.errors import SpecError
from slipway_core.metrics.queries import QUERY_SETS
from slipway_core.metrics.sources.prometheus import BLIND_TO_GRPC
from slipway_core.spec.release_file import parse_release_spec

GRPC = "model: yolo\nsource: {format: onnx}\nrollout: {protocol: grpc, METRICS}\n"


def test_the_sources_that_see_no_grpc_status_are_those_that_say_so() -> None:
    """What the release file refuses is what the query sets declare."""
    assert {name for name, one in QUERY_SETS.items() if one.sees.grpc_errors is False} == BLIND_TO_GRPC


@pytest.mark.parametrize("queries", sorted(BLIND_TO_GRPC))
def test_a_source_that_takes_grpc_errors_for_answers_is_refused(queries: str) -> None:
    """The judge would pass a version that fails for everybody."""
    with pytest.raises(SpecError, match="counts HTTP statuses"):
        parse_release_spec(
            GRPC.replace("METRICS", f"metrics: {{source: prometheus, queries: {queries}}}"), "f"
        )


@pytest.mark.parametrize(
    "metrics",
    [
        "metrics: {source: scrape}",
        "metrics: {source: prometheus, queries: istio}",
        "metrics: {source: prometheus, queries: envoy}",
        "metrics: {source: prometheus, queries: knative, overrides: {errors: 'e_total{revision=\"{revision}\"}'}}",
    ],
)
def test_a_source_that_sees_them_is_taken(metrics: str) -> None:
    """Envoy's and Istio's counters, and selectors of the file's own."""
    assert parse_release_spec(GRPC.replace("METRICS", metrics), "f").rollout.protocol == "grpc"


def test_streams_over_http_do_not_go_with_a_port_for_grpc() -> None:
    """The predictor has one port."""
    with pytest.raises(SpecError, match="no port"):
        parse_release_spec(GRPC.replace("METRICS", "streaming: {protocol: generate_stream}"), "f")


@pytest.mark.parametrize("protocol", ["gRPC", "https", "v2", "1"])
def test_another_protocol_is_refused(protocol: str) -> None:
    """Only the two that Triton speaks to users."""
    with pytest.raises(SpecError, match=r"one of http, grpc|text"):
        parse_release_spec(GRPC.replace("protocol: grpc, METRICS", f"protocol: {protocol}"), "f")
