"""Where the judge's numbers come from: one protocol, and the source that a release asks for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol, runtime_checkable

from slipway.metrics.connection import DEFAULT_METRICS_CONN_ID
from slipway_core.metrics.queries import release_query_set, release_values
from slipway_core.metrics.samples import Reading
from slipway_core.spec.release_file import ReleaseSpec


class MetricsSource(Protocol):
    """What can be read of revisions under live traffic.

    `interval_s` is how often reading makes sense, and `lag_s` how old the newest data may be, in seconds.
    """

    interval_s: float
    lag_s: float

    def read(self, revisions: Iterable[str]) -> Mapping[str, Reading]:
        """One reading of each revision. It blocks, within its own limit: call it in a thread.

        :raises MetricsUnavailableError: the source is down, slow, refuses, or gives what is partial, stale or
            no count. It never gives a reading without counts for want of an answer.
        """


@runtime_checkable
class StreamCounting(Protocol):
    """A source that can tell streams from other requests."""

    def streams_seen(self, namespace: str, inference_service: str) -> int:
        """Return how many streams users have begun at an InferenceService. It blocks, as `read` does.

        :raises MetricsUnavailableError: the source cannot tell now.
        """


def metrics_source(spec: ReleaseSpec, metrics_conn_id: str = DEFAULT_METRICS_CONN_ID) -> MetricsSource:
    """The source that the release file names, behind the connection.

    It looks the connection up, so make it where `BaseHook.get_connection` may be called.

    :raises UserError: the connection cannot be used.
    """
    metrics = spec.rollout.metrics
    # Late, both: an HTTP client and a parser that reading the DAG files does not need.
    if metrics.source == "scrape":
        from slipway.metrics.sources.scrape import EnvoyMetricsHook

        return EnvoyMetricsHook(metrics_conn_id, metrics.timeout_s, metrics.unanswered_after_s)
    from slipway.metrics.sources.prometheus import PrometheusMetricsHook

    return PrometheusMetricsHook(
        metrics_conn_id,
        release_query_set(spec),
        release_values(spec),
        lookback_s=metrics.lookback_s,
        staleness_s=metrics.staleness_s,
        timeout_s=metrics.timeout_s,
        unanswered_after_s=metrics.unanswered_after_s,
    )
