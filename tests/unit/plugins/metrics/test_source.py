"""The source that a release file asks for."""

from __future__ import annotations

import json

import pytest

from slipway.metrics.source import MetricsSource, metrics_source
from slipway.metrics.sources.prometheus import PrometheusMetricsHook
from slipway.metrics.sources.scrape import EnvoyMetricsHook
from slipway_core.spec.release_file import parse_release_spec

_MINIMAL = "model: digits\nsource: {}\n"


@pytest.fixture(autouse=True)
def _connection(monkeypatch: pytest.MonkeyPatch) -> None:
    """A connection of type http; nobody listens there, and nobody is asked."""
    monkeypatch.setenv(
        "AIRFLOW_CONN_SLIPWAY_METRICS", json.dumps({"conn_type": "http", "host": "127.0.0.1", "port": 1})
    )


def source(more: str) -> MetricsSource:
    return metrics_source(parse_release_spec(_MINIMAL + more, "digits.yaml"))


def test_a_release_file_that_says_nothing_scrapes() -> None:
    """The router's endpoint is read directly, within the time limit of the release file."""
    found = source("")
    assert isinstance(found, EnvoyMetricsHook)
    assert found.endpoints == ["http://127.0.0.1:1/stats/prometheus"]
    assert found.timeout_s == 10


def test_a_release_file_may_ask_a_prometheus() -> None:
    """Query set, replacements and limits come from the release file, and the placeholders from the release."""
    found = source(
        "rollout: {namespace: serving, inference_service: numbers, metrics: {source: prometheus, queries: istio, "
        "overrides: {latency: []}, lookback_s: 90, staleness_s: 70, timeout_s: 3}}\n"
    )
    assert isinstance(found, PrometheusMetricsHook)
    assert (found.lookback_s, found.staleness_s, found.timeout_s) == (90, 70, 3)
    assert found.queries.latency == ()
    assert found.queries.requests[0].startswith("istio_requests_total")
    assert found.values == {"inference_service": "numbers", "model": "digits", "namespace": "serving"}
