"""Where the judge's numbers come from: the router's own counters, read from its exposition endpoint."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping

import requests
from airflow.sdk import BaseHook
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample as ExpositionSample

from include.model_release.errors import MetricsUnavailableError
from include.model_release.samples import Counters

_TIMEOUT_S = (2.0, 5.0)
# The parser gives every counter its OpenMetrics name, with this ending.
_COUNTER = "_total"
# What gRPC calls success, and a request that its own client gave up.
_NO_FAULT_STATUS = frozenset({"0", "1"})


class EnvoyMetricsHook(BaseHook):
    """Counts of requests, errors and latencies by revision, scraped from Envoy's admin endpoint.

    Envoy counts each revision as two clusters, ``REVISION|http`` and ``REVISION|grpc``. An HTTP answer of 400
    and above is an error, and so is a gRPC status other than OK and CANCELLED; an answer that is the client's
    own fault counts for both revisions alike, and the judge compares the two.

    :param metrics_conn_id: an Airflow connection of type ``http``: host and port of the admin endpoint.
    """

    conn_name_attr = "metrics_conn_id"
    default_conn_name = "slipway_metrics"

    def __init__(self, metrics_conn_id: str = default_conn_name) -> None:
        super().__init__()
        self.metrics_conn_id = metrics_conn_id
        connection = self.get_connection(metrics_conn_id)
        self._url = f"{connection.schema or 'http'}://{connection.host}:{connection.port}/stats/prometheus"
        self._session = requests.Session()

    def read(self, revisions: Iterable[str]) -> dict[str, Counters]:
        """One reading of the counters of each revision, all of the same moment.

        :raises MetricsUnavailableError: the endpoint does not answer, or does not know a revision; that a
            revision has no requests is never concluded from silence.
        """
        return counters_by_revision(self._scrape(), revisions, self._url)

    def _scrape(self) -> str:
        params = {"filter": r"^cluster\..*\|(http|grpc)\.(upstream_rq_([0-9]+|time|total)|grpc\.[0-9]+)$"}
        try:
            answer = self._session.get(self._url, params=params, timeout=_TIMEOUT_S)
            answer.raise_for_status()
        except requests.RequestException as error:
            raise MetricsUnavailableError(
                f"the metrics endpoint {self._url} did not answer",
                expected="Prometheus exposition text",
                found=type(error).__name__,
                remedy=f"check the router and the connection {self.metrics_conn_id!r}",
            ) from error
        return answer.text


def counters_by_revision(text: str, revisions: Iterable[str], source: str) -> dict[str, Counters]:
    """The counters of each revision in Envoy's exposition text.

    :param source: where the text came from; errors name it.
    :raises MetricsUnavailableError: a revision is not in the text.
    """
    by_cluster: dict[str, list[ExpositionSample]] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            by_cluster.setdefault(sample.labels.get("envoy_cluster_name", ""), []).append(sample)
    readings = {}
    for revision in revisions:
        if f"{revision}|http" not in by_cluster:
            raise MetricsUnavailableError(
                f"the metrics endpoint {source} has no counters of the revision {revision!r}",
                expected=f"the cluster {revision}|http",
                found=", ".join(sorted(filter(None, by_cluster))) or "no cluster",
                remedy="check that the revision is routed by this router",
            )
        http = _http_counts(by_cluster[f"{revision}|http"])
        grpc = _grpc_counts(by_cluster.get(f"{revision}|grpc", []))
        latency = Counter(_latency_counts(by_cluster[f"{revision}|http"]))
        latency.update(_latency_counts(by_cluster.get(f"{revision}|grpc", [])))
        readings[revision] = Counters(
            requests=http[0] + grpc[0], errors=http[1] + grpc[1], latency_buckets=dict(latency)
        )
    return readings


def _http_counts(samples: Iterable[ExpositionSample]) -> tuple[int, int]:
    """Answers and, among them, those of status 400 and above."""
    answers = {
        sample.labels["envoy_response_code"]: int(sample.value)
        for sample in samples
        if sample.name == f"envoy_cluster_upstream_rq{_COUNTER}" and "envoy_response_code" in sample.labels
    }
    return sum(answers.values()), sum(count for code, count in answers.items() if int(code) >= 400)


def _grpc_counts(samples: Iterable[ExpositionSample]) -> tuple[int, int]:
    """Answers and, among them, those whose status is neither OK nor CANCELLED."""
    prefix = "envoy_cluster_grpc_"
    answers = {
        status: int(sample.value)
        for sample in samples
        if (status := sample.name.removeprefix(prefix).removesuffix(_COUNTER)).isdigit()
    }
    errors = sum(count for status, count in answers.items() if status not in _NO_FAULT_STATUS)
    return sum(answers.values()), errors


def _latency_counts(samples: Iterable[ExpositionSample]) -> Mapping[float, int]:
    """Requests by upper bound in ms, from the histogram's cumulative buckets."""
    cumulative = sorted(
        (math.inf if sample.labels["le"] == "+Inf" else float(sample.labels["le"]), int(sample.value))
        for sample in samples
        if sample.name == "envoy_cluster_upstream_rq_time_bucket"
    )
    counts, below = {}, 0
    for bound, total in cumulative:
        counts[bound] = total - below
        below = total
    return counts
