"""Metrics that cannot show errors are no reading, whoever wrote the selectors."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from slipway_core.errors import MetricsUnavailableError
from slipway_core.metrics.queries import QUERY_SETS, QuerySet
from tests.support.plugins.prometheus_double import Connect, Prometheus, connected, series

OWN = QuerySet(
    "A person's own.",
    requests=('calls_total{rev="{revision}"}',),
    errors=('calls_total{rev="{revision}",outcome="error"}',),
)
APART = QuerySet(
    "Errors of a counter of their own.",
    requests=('calls_total{rev="{revision}"}',),
    errors=('failures_total{rev="{revision}"}',),
)


@pytest.fixture
def prometheus() -> Prometheus:
    """A Prometheus without any series yet."""
    return Prometheus()


@pytest.fixture
def connect(prometheus: Prometheus, monkeypatch: pytest.MonkeyPatch) -> Iterator[Connect]:
    """Makes the hook on that Prometheus."""
    with connected(prometheus, monkeypatch, OWN) as make:
        yield make


def calls(count: str = "1650", **labels: str) -> dict[str, Any]:
    """A counter of calls, scraped twice."""
    return series("calls_total", (17, "10"), (2, count), rev="new", pod="a", **labels)


def test_a_label_that_relabelling_dropped_is_no_zero(connect: Connect, prometheus: Prometheus) -> None:
    """Half of the calls fail and no series says which: the label and the remedy are named."""
    prometheus.series = [calls()]
    with pytest.raises(MetricsUnavailableError) as caught:
        connect().read(["new"])
    text = str(caught.value)
    assert "cannot show errors of the revision 'new'" in text
    assert "no series of calls_total carries the label outcome" in text
    assert "rollout.metrics.overrides" in text


def test_a_label_that_is_there_shows_errors(connect: Connect, prometheus: Prometheus) -> None:
    """No error yet, but the label would tell: 0 errors."""
    prometheus.series = [calls(outcome="ok")]
    assert connect().read(["new"])["new"].totals().errors == 0


def test_where_nobody_asked_no_label_lacks(connect: Connect, prometheus: Prometheus) -> None:
    """A counter at 0 has no code yet."""
    prometheus.series = [series("calls_total", (17, "0"), (2, "0"), rev="new")]
    assert connect().read(["new"])["new"].totals().requests == 0


def test_a_counter_of_errors_that_is_not_there_is_no_zero(connect: Connect, prometheus: Prometheus) -> None:
    """Errors that have a counter of their own need it from the start; where it is, it may be 0."""
    prometheus.series = [calls()]
    with pytest.raises(MetricsUnavailableError, match="there is no series failures_total"):
        connect(queries=APART).read(["new"])
    prometheus.series = [calls(), series("failures_total", (17, "0"), (2, "0"), rev="new", pod="a")]
    assert connect(queries=APART).read(["new"])["new"].totals().errors == 0


@pytest.mark.parametrize("label", ["response_code", "grpc_response_status"])
def test_each_label_of_istio_is_needed_by_its_protocol(
    label: str, connect: Connect, prometheus: Prometheus
) -> None:
    """Without the code no HTTP error is seen, without the status no gRPC error: each by itself is refused."""
    labels = {
        "destination_service_name": "new",
        "response_flags": "-",
        "request_protocol": "grpc" if label == "grpc_response_status" else "http",
        "response_code": "200",
        "grpc_response_status": "0" if label == "grpc_response_status" else "",
    }

    def shown(**labels: str) -> list[dict[str, Any]]:
        return [series("istio_requests_total", (17, "0"), (2, "900"), **labels)]

    queries = QuerySet(
        "Istio's, without its latency.",
        requests=QUERY_SETS["istio"].requests,
        errors=QUERY_SETS["istio"].errors,
        status_label=QUERY_SETS["istio"].status_label,
    )
    prometheus.series = shown(**labels)
    prometheus.is_of = lambda one, query: "response_" not in query
    connect(queries=queries).read(["new"])
    prometheus.series = shown(**{name: value for name, value in labels.items() if name != label})
    with pytest.raises(MetricsUnavailableError, match=label):
        connect(queries=queries).read(["new"])


@pytest.mark.parametrize("name", ["knative", "knative_otel", "istio", "envoy_gateway", "envoy"])
def test_no_shipped_set_takes_a_dropped_code_for_health(
    name: str, connect: Connect, prometheus: Prometheus
) -> None:
    """Whatever the set, requests whose status nobody sees are no data."""
    queries = QUERY_SETS[name]
    metric = queries.requests[0].partition("{")[0]
    prometheus.series = [series(metric, (17, "0"), (2, "3300"), pod="a")]
    requests = queries.filled(
        {"namespace": "models", "model": "digits", "inference_service": "digits", "revision": "new"}
    ).requests[0]
    prometheus.is_of = lambda one, query: query == f"{requests}[60s]"
    without_latency = QuerySet("The set's counters.", queries.requests, queries.errors)
    with pytest.raises(MetricsUnavailableError, match="carries the label"):
        connect(queries=without_latency).read(["new"])
