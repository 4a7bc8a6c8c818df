"""The judge's numbers from Envoy's own exposition endpoints, read directly."""

from __future__ import annotations

import asyncio
import math
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from urllib.parse import urlencode, urlsplit

import aiohttp
from airflow.sdk import BaseHook
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample as ExpositionSample

from include.model_release.errors import MetricsUnavailableError
from include.model_release.metrics.samples import Counters, Reading, SeriesReading
from slipway.hooks.http_access import HttpAccess, within
from slipway.metrics.connection import DEFAULT_METRICS_CONN_ID

_PATH = "/stats/prometheus"
# All that is read of a revision's two clusters; `upstream_rq_total` is there from the beginning.
_FILTER = r"^cluster\..*\|(http|grpc)\.(upstream_rq_([0-9]+|time|total)|grpc\.[0-9]+)$"
# The parser gives every counter its OpenMetrics name, with this ending.
_COUNTER = "_total"
_TEXT_LIMIT = 300
# Readings are ordered by the monotonic clock: one that is set back would make each look older than the one before.
_EPOCH_S = time.time() - time.monotonic()
# What gRPC calls success, and a request that its own client gave up.
_NO_FAULT_STATUS = frozenset({"0", "1"})


class EnvoyMetricsHook(BaseHook):
    """Counts of requests, errors and latencies by revision, scraped from the admin endpoints of Envoy routers.

    Envoy counts each revision as two clusters, ``REVISION|http`` and ``REVISION|grpc``. An HTTP answer of 400
    and above is an error, and so is a gRPC status other than OK and CANCELLED; an answer that is the client's
    own fault counts for both revisions alike, and the judge compares the two. The histograms that Envoy shows
    are as old as its last flush, some seconds at most; its counters are of the moment.

    Each endpoint is one series of a reading. All must answer and know each revision: half of the routers say
    nothing of the other half.

    :param metrics_conn_id: an Airflow connection of type ``http``. Host (several with commas between) and port
        of the admin endpoints; or extra ``endpoints``, a list of HOST:PORT or URLs. Extra ``path``, where it is
        not ``/stats/prometheus``. `slipway.hooks.http_access` says what else it may hold.
    :param timeout_s: how long a reading may take in all.
    :raises UserError: the connection cannot be used.
    """

    conn_name_attr = "metrics_conn_id"
    default_conn_name = DEFAULT_METRICS_CONN_ID
    interval_s = 1.0
    lag_s = 0.0

    def __init__(self, metrics_conn_id: str = default_conn_name, timeout_s: float = 5.0) -> None:
        super().__init__()
        self.metrics_conn_id = metrics_conn_id
        self.timeout_s = timeout_s
        self._access = HttpAccess(metrics_conn_id)
        endpoints = self._access.extra.get("endpoints")
        bases = [self._access.url_of(str(one)) for one in endpoints] if endpoints else self._access.hosts
        if not bases:
            raise self._access.unusable("it names no endpoint", "host and port, or extra `endpoints`")
        path = str(self._access.extra.get("path") or _PATH)
        self.endpoints = [base if urlsplit(base).path else base + path for base in bases]

    def read(self, revisions: Iterable[str]) -> dict[str, Reading]:
        """One reading of the counters of each revision, all of the same moment.

        :raises MetricsUnavailableError: an endpoint does not answer in time, answers with something else, or
            does not know a revision; that a revision has no requests is never concluded from silence.
        """
        asked = tuple(revisions)
        pages = within(self.timeout_s, self._scrape(), f"the metrics endpoint of {self.metrics_conn_id!r}")
        shown = {
            endpoint: (at, counters_by_revision(page, asked, endpoint))
            for endpoint, (at, page) in pages.items()
        }
        return {
            revision: Reading(
                max(at for at, _ in shown.values()),
                {endpoint: SeriesReading(at, found[revision]) for endpoint, (at, found) in shown.items()},
            )
            for revision in asked
        }

    async def _scrape(self) -> dict[str, tuple[float, str]]:
        """When each endpoint answered (unix seconds), and what."""
        async with self._access.session() as session:
            pages = await asyncio.gather(*(self._page(session, endpoint) for endpoint in self.endpoints))
        return dict(zip(self.endpoints, pages, strict=True))

    async def _page(self, session: aiohttp.ClientSession, endpoint: str) -> tuple[float, str]:
        status, body = await self._access.ask(session, f"{endpoint}?{urlencode({'filter': _FILTER})}")
        if status != 200:
            raise _unusable(endpoint, f"HTTP {status}")
        try:
            return _EPOCH_S + time.monotonic(), body.decode()
        except UnicodeDecodeError as error:
            raise _unusable(endpoint, str(error)) from None


def counters_by_revision(text: str, revisions: Iterable[str], source: str) -> dict[str, Counters]:
    """The counters of each revision in Envoy's exposition text.

    :param source: where the text came from; errors name it.
    :raises MetricsUnavailableError: a revision is not in the text, or the text is none, or has a count that is
        no number.
    """
    try:
        return _counters_by_revision(text, revisions, source)
    except (ValueError, OverflowError, KeyError) as error:
        raise _unusable(source, _short(str(error))) from None


def _counters_by_revision(text: str, revisions: Iterable[str], source: str) -> dict[str, Counters]:
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
                found=_short(", ".join(sorted(filter(None, by_cluster)))) or "no cluster",
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
        if (status := sample.name.removeprefix(prefix).removesuffix(_COUNTER)).isdecimal()
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
        if total < below:
            raise ValueError(f"the bucket up to {bound:g} ms holds less than the one before it")
        counts[bound] = total - below
        below = total
    return counts


def _short(text: str) -> str:
    return text if len(text) <= _TEXT_LIMIT else f"{text[:_TEXT_LIMIT]}…"


def _unusable(source: str, found: str) -> MetricsUnavailableError:
    return MetricsUnavailableError(
        f"the metrics endpoint {source} gave no usable answer",
        expected="Envoy's statistics as Prometheus exposition text",
        found=found,
        remedy="check that the connection leads to Envoy's admin endpoint",
    )
