"""The judge's numbers from a Prometheus, or from what answers as one does (Thanos, Mimir, Amazon's)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, Self

import aiohttp
from airflow.sdk import BaseHook

from slipway.hooks.http_access import HttpAccess, within
from slipway.metrics.connection import DEFAULT_METRICS_CONN_ID
from slipway.metrics.prometheus_flow import FlowData
from slipway.metrics.prometheus_series import (
    RawSeries,
    RevisionData,
    parse_answer,
    parse_series,
    shared_series,
)
from slipway.metrics.source import READERS, MetricsReader
from slipway_core.errors import MetricsUnavailableError
from slipway_core.metrics.queries import QuerySet, release_values
from slipway_core.metrics.samples import Reading
from slipway_core.metrics.sources.prometheus import PrometheusMetrics
from slipway_core.spec.release_file import ReleaseSpec
from slipway_core.spec.rollout.metrics import DEFAULT_UNANSWERED_AFTER_S


@READERS.register
class PrometheusMetricsHook(MetricsReader, BaseHook):
    """Counts of requests, errors and latencies by revision, asked of Prometheus's HTTP API.

    Each query is a raw selector with a range: the answer holds the samples as they were scraped, with their own
    times. All queries of a reading are evaluated at one moment of the server's clock, so that it does not matter
    whether it agrees with ours. A reading is of the moment of its newest sample; asked again before the next
    scrape, it is the same reading.

    :param metrics_conn_id: an Airflow connection of type ``http``: host, port and, for an API that lies deeper,
        extra ``path`` (``/prometheus``); or a whole URL as host. `slipway.hooks.http_access` says what else.
    :param queries: the query set, with its placeholders.
    :param values: what the placeholders stand for, less the revision.
    :param lookback_s: how far back samples are asked for.
    :param staleness_s: data older than this are no data.
    :param timeout_s: how long a reading may take in all.
    :param unanswered_after_s: a request that is active for longer counts as unanswered, where it has an age.
    :raises UserError: the connection cannot be used.
    """

    name: ClassVar[str] = "prometheus"
    conn_name_attr = "metrics_conn_id"
    default_conn_name = DEFAULT_METRICS_CONN_ID
    interval_s = 5.0

    def __init__(
        self,
        metrics_conn_id: str,
        queries: QuerySet,
        values: Mapping[str, str],
        *,
        lookback_s: int,
        staleness_s: float,
        timeout_s: float,
        unanswered_after_s: float = DEFAULT_UNANSWERED_AFTER_S,
    ) -> None:
        super().__init__()
        self.metrics_conn_id = metrics_conn_id
        self.queries = queries
        self.values = dict(values)
        self.lookback_s = lookback_s
        self.staleness_s = self.lag_s = staleness_s
        self.timeout_s = timeout_s
        self.unanswered_after_s = unanswered_after_s
        self._access = HttpAccess(metrics_conn_id)
        if len(self._access.hosts) != 1:
            raise self._access.unusable("it does not name exactly one Prometheus", "one host")
        base = self._access.hosts[0] + str(self._access.extra.get("path") or "").rstrip("/")
        self._url = f"{base}/api/v1/query"
        self.source = f"the Prometheus {base}"

    @classmethod
    def of(cls, spec: ReleaseSpec, metrics_conn_id: str) -> Self:
        """Return the source that a release file asks for, behind the connection."""
        metrics = spec.rollout.metrics
        assert isinstance(metrics, PrometheusMetrics)  # noqa: S101  the source of that name
        return cls(
            metrics_conn_id,
            metrics.query_set(),
            release_values(spec),
            lookback_s=metrics.lookback_s,
            staleness_s=metrics.staleness_s,
            timeout_s=metrics.timeout_s,
            unanswered_after_s=metrics.unanswered_after_s,
        )

    def read(self, revisions: Iterable[str]) -> dict[str, Reading]:
        """One reading of the counters of each revision, all as they stood at the same moment.

        :raises MetricsUnavailableError: no answer in time, an error, a partial answer, series that are lacking
            or stale, values that are no counts, or a series that counts for two revisions.
        """
        readings = within(self.timeout_s, self._read(tuple(dict.fromkeys(revisions))), self.source)
        shared = shared_series(readings)
        if shared is not None:
            raise MetricsUnavailableError(
                f"{self.source} gave the same series for two revisions",
                expected=f"series that belong to only one of {', '.join(readings)}",
                found=shared,
                remedy="narrow the selectors of `rollout.metrics.overrides`, so that {revision} distinguishes them",
            )
        return readings

    async def _read(self, revisions: tuple[str, ...]) -> dict[str, Reading]:
        async with self._access.session() as session:
            now = await self._now(session)
            readings = await asyncio.gather(*(self._revision(session, one, now) for one in revisions))
        return dict(zip(revisions, readings, strict=True))

    async def _revision(self, session: aiohttp.ClientSession, revision: str, now: str) -> Reading:
        queries = self.queries.filled({**self.values, "revision": revision})
        asked = (queries.requests, queries.errors, queries.latency)
        flow = (queries.begun, queries.retried, queries.active)
        requests, errors, latency, begun, retried, active = await asyncio.gather(
            *(self._series(session, kind, now) for kind in (*asked, *flow))
        )
        data = RevisionData(
            revision,
            self.source,
            float(now),
            self.staleness_s,
            requests,
            errors,
            latency if queries.latency else None,
            queries.latency_unit,
            queries,
            FlowData(begun, retried, active, queries, self.unanswered_after_s, self.source)
            if queries.active
            else None,
        )
        if data.is_fresh or not queries.watched:
            return data.reading()
        return data.reading(await self._series(session, queries.watched, now))

    async def _now(self, session: aiohttp.ClientSession) -> str:
        """The server's own time, as it writes it: the moment at which all queries are evaluated."""
        data = await self._ask(session, {"query": "time()"})
        try:
            return str(float(data["result"][1]))
        except (KeyError, IndexError, TypeError, ValueError):
            raise MetricsUnavailableError(
                f"{self.source} does not report its time",
                expected="a number as the answer to time()",
                remedy=f"check that the connection {self.metrics_conn_id!r} leads to a Prometheus",
            ) from None

    async def _series(
        self, session: aiohttp.ClientSession, selectors: Iterable[str], now: str
    ) -> list[RawSeries]:
        answers = await asyncio.gather(
            *(
                self._ask(session, {"query": f"{selector}[{self.lookback_s}s]", "time": now})
                for selector in selectors
            )
        )
        return [series for data in answers for series in parse_series(data, self.source)]

    async def _ask(self, session: aiohttp.ClientSession, form: Mapping[str, str]) -> Any:
        status, body = await self._access.ask(session, self._url, {**form, "timeout": f"{self.timeout_s:g}s"})
        if status not in (200, 400, 422, 503):
            # The API's own refusals come with a reason; these come from elsewhere.
            raise MetricsUnavailableError(
                f"{self.source} failed",
                expected="HTTP 200",
                found=f"HTTP {status}",
                remedy=f"see its log, and check the address in the connection {self.metrics_conn_id!r}",
            )
        return parse_answer(body, self.source)
