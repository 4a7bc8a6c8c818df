"""The judge's numbers from Envoy's own exposition endpoints, read directly."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Iterable, Mapping
from typing import ClassVar, Self
from urllib.parse import urlencode, urlsplit

import aiohttp
from airflow.sdk import BaseHook
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample as ExpositionSample

from slipway.hooks.http_access import HttpAccess, within
from slipway.metrics import active_requests, streams_seen
from slipway.metrics.active_requests import open_requests_of
from slipway.metrics.connection import DEFAULT_METRICS_CONN_ID
from slipway.metrics.source import READERS, MetricsReader
from slipway_core.errors import MetricsUnavailableError
from slipway_core.metrics.histograms import added
from slipway_core.metrics.request_flow import RequestFlow
from slipway_core.metrics.samples import Counters, Reading, SeriesReading
from slipway_core.rollout.pods.drain import OpenRequests
from slipway_core.spec.release_file import ReleaseSpec
from slipway_core.spec.rollout.metrics import DEFAULT_UNANSWERED_AFTER_S

_PATH = "/stats/prometheus"
# Attempts that reached a connection, and those that never did: no connection was made, or the client left before.
_ATTEMPTS = (
    "upstream_rq_total",
    "upstream_rq_pending_failure_eject",
    "upstream_rq_cancelled",
    "upstream_rq_pending_overflow",
    "upstream_rq_maintenance_mode",
    "upstream_cx_none_healthy",
)
_RETRIES = "upstream_rq_retry"
_ACTIVE = ("upstream_rq_active", "upstream_rq_pending_active")
# All that is read of a revision's two clusters; `upstream_rq_total` is there from the beginning.
_FILTER = (
    rf"^cluster\..*\|(http|grpc)\.(upstream_rq_([0-9]+|time)|{'|'.join((*_ATTEMPTS, _RETRIES, *_ACTIVE))}"
    r"|grpc\.[0-9]+)$"
)
# The parser gives every counter its OpenMetrics name, with this ending.
_COUNTER = "_total"
_TEXT_LIMIT = 300
# Readings are ordered by the monotonic clock: one that is set back would make each look older than the one before.
_EPOCH_S = time.time() - time.monotonic()
# What gRPC calls success, and a request that its own client gave up.
_NO_FAULT_STATUS = frozenset({"0", "1"})


@READERS.register
class EnvoyMetricsHook(MetricsReader, BaseHook):
    """Counts of requests, errors and latencies by revision, scraped from the admin endpoints of Envoy routers.

    Envoy counts each revision as two clusters, ``REVISION|http`` and ``REVISION|grpc``. An HTTP answer of 400
    and above is an error, and so is a gRPC status other than OK and CANCELLED; an answer that is the client's
    own fault counts for both revisions alike, and the judge compares the two. The histograms that Envoy shows
    are as old as its last flush, some seconds at most; its counters are of the moment.

    A request that its client gave up, that hangs, or whose connection broke has no status: it is seen because it began
    and is neither answered nor active (`request_flow.py`). An HTTP request that is active for longer than
    ``unanswered_after_s`` counts likewise. A gRPC call does not: it may be a stream, and Envoy does not tell which.

    Each endpoint is one series of a reading. All must answer and know each revision: half of the routers say
    nothing of the other half.

    :param metrics_conn_id: an Airflow connection of type ``http``. Host (several with commas between) and port
        of the admin endpoints; or extra ``endpoints``, a list of HOST:PORT or URLs. Extra ``path``, where it is
        not ``/stats/prometheus``. `slipway.hooks.http_access` says what else it may hold.
    :param timeout_s: how long a reading may take in all.
    :param unanswered_after_s: an HTTP request that is active for longer counts as unanswered.
    :raises UserError: the connection cannot be used.
    """

    name: ClassVar[str] = "scrape"
    conn_name_attr = "metrics_conn_id"
    default_conn_name = DEFAULT_METRICS_CONN_ID
    interval_s = 1.0
    lag_s = 0.0

    def __init__(
        self,
        metrics_conn_id: str = default_conn_name,
        timeout_s: float = 5.0,
        unanswered_after_s: float = DEFAULT_UNANSWERED_AFTER_S,
    ) -> None:
        super().__init__()
        self.metrics_conn_id = metrics_conn_id
        self.timeout_s = timeout_s
        self.unanswered_after_s = unanswered_after_s
        self._known: dict[str, Reading] = {}
        self._access = HttpAccess(metrics_conn_id)
        endpoints = self._access.extra.get("endpoints")
        bases = [self._access.url_of(str(one)) for one in endpoints] if endpoints else self._access.hosts
        if not bases:
            raise self._access.unusable("it names no endpoint", "host and port, or extra `endpoints`")
        path = str(self._access.extra.get("path") or _PATH)
        self.endpoints = [base if urlsplit(base).path else base + path for base in bases]

    @classmethod
    def of(cls, spec: ReleaseSpec, metrics_conn_id: str) -> Self:
        """Return the source that a release file asks for, behind the connection."""
        metrics = spec.rollout.metrics
        return cls(metrics_conn_id, metrics.timeout_s, metrics.unanswered_after_s)

    def read(self, revisions: Iterable[str]) -> dict[str, Reading]:
        """One reading of the counters of each revision, all of the same moment.

        :raises MetricsUnavailableError: an endpoint does not answer in time, answers with something else, or
            does not know a revision; that a revision has no requests is never concluded from silence.
        """
        asked = tuple(revisions)
        pages = within(self.timeout_s, self._scrape(), f"the metrics endpoint of {self.metrics_conn_id!r}")
        shown = {
            endpoint: (at, counters_by_revision(page, asked, endpoint, self.unanswered_after_s))
            for endpoint, (at, page) in pages.items()
        }
        found = {
            revision: Reading(
                max(at for at, _ in shown.values()),
                {endpoint: SeriesReading(at, counts[revision]) for endpoint, (at, counts) in shown.items()},
            )
            for revision in asked
        }
        # How long a request has been active follows from several readings.
        for revision, reading in found.items():
            known = self._known.get(revision)
            self._known[revision] = reading if known is None else reading.remembering(known)
        return {revision: self._known[revision] for revision in asked}

    def open_requests(self, revision: str) -> OpenRequests:
        """Return how many requests are open at the revision, and how many have begun.

        :raises MetricsUnavailableError: as `read`.
        """
        what = f"the metrics endpoint of {self.metrics_conn_id!r}"
        return open_requests_of(revision, within(self.timeout_s, self._scrape(active_requests.FILTER), what))

    def streams_seen(self, namespace: str, inference_service: str) -> int:
        """Return how many streams users have begun at an InferenceService; 0 of an Envoy that does not tell them apart.

        :raises MetricsUnavailableError: as `read`.
        """
        what = f"the metrics endpoint of {self.metrics_conn_id!r}"
        pages = within(self.timeout_s, self._scrape(streams_seen.FILTER), what)
        try:
            counted = (page for _, page in pages.values())
            return streams_seen.streams_counted(counted, namespace, inference_service)
        except (ValueError, OverflowError) as error:
            raise _unusable(", ".join(pages), _short(str(error))) from None

    async def _scrape(self, names: str = _FILTER) -> dict[str, tuple[float, str]]:
        """When each endpoint answered (unix seconds), and what."""
        async with self._access.session() as session:
            pages = await asyncio.gather(
                *(self._page(session, endpoint, names) for endpoint in self.endpoints)
            )
        return dict(zip(self.endpoints, pages, strict=True))

    async def _page(self, session: aiohttp.ClientSession, endpoint: str, names: str) -> tuple[float, str]:
        status, body = await self._access.ask(session, f"{endpoint}?{urlencode({'filter': names})}")
        if status != 200:
            raise _unusable(endpoint, f"HTTP {status}")
        try:
            return _EPOCH_S + time.monotonic(), body.decode()
        except UnicodeDecodeError as error:
            raise _unusable(endpoint, str(error)) from None


def counters_by_revision(
    text: str,
    revisions: Iterable[str],
    source: str,
    unanswered_after_s: float = DEFAULT_UNANSWERED_AFTER_S,
) -> dict[str, Counters]:
    """The counters of each revision in Envoy's exposition text.

    :param source: where the text came from; errors name it.
    :param unanswered_after_s: after how long an HTTP request that is still active is overdue.
    :raises MetricsUnavailableError: a revision is not in the text, or the text is invalid, or has a count that is
        no number.
    """
    try:
        return _counters_by_revision(text, revisions, source, unanswered_after_s)
    except (ValueError, OverflowError, KeyError) as error:
        raise _unusable(source, _short(str(error))) from None


def _counters_by_revision(
    text: str, revisions: Iterable[str], source: str, limit_s: float
) -> dict[str, Counters]:
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
        of_http, of_grpc = by_cluster[f"{revision}|http"], by_cluster.get(f"{revision}|grpc", [])
        http, grpc = _http_counts(of_http), _grpc_counts(of_grpc)
        flow = _flow(of_http, http[0], limit_s, is_timed=True)
        if of_grpc:
            flow = _both(flow, _flow(of_grpc, grpc[0], limit_s, is_timed=False))
        readings[revision] = Counters(
            requests=http[0] + grpc[0],
            errors=http[1] + grpc[1],
            latency_buckets=added(_latency_counts(of_http), _latency_counts(of_grpc)),
            flow=flow,
        )
    return readings


def _both(one: RequestFlow | None, other: RequestFlow | None) -> RequestFlow | None:
    return None if one is None or other is None else one.plus(other)


def _flow(
    samples: Iterable[ExpositionSample], answered: int, limit_s: float, *, is_timed: bool
) -> RequestFlow | None:
    """What is known of requests that began; None where Envoy does not show it.

    An attempt that is tried again is answered by the attempt that follows.
    """
    known = {
        sample.name.removeprefix("envoy_cluster_").removesuffix(_COUNTER): int(sample.value)
        for sample in samples
        if "envoy_response_code" not in sample.labels and "le" not in sample.labels
    }
    # `upstream_rq_total` has the ending that the parser gives to counters.
    attempts = [name.removesuffix(_COUNTER) for name in _ATTEMPTS]
    if not {*attempts, _RETRIES, *_ACTIVE} <= {*known}:
        return None
    pending = known["upstream_rq_pending_active"]
    begun = sum(known[name] for name in attempts) + pending - known[_RETRIES]
    active = known["upstream_rq_active"] + pending
    return RequestFlow(
        begun=max(0, begun),
        active=active,
        lost=max(0, begun - answered - active),
        timed_begun=max(0, begun) if is_timed else 0,
        timed_active=active if is_timed else 0,
        limit_s=limit_s,
    )


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
            raise ValueError(f"the bucket up to {bound:g} ms has a smaller count than the bucket before it")
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
