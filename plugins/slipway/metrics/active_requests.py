"""Requests that are open at the router, beside those that have begun: they show whether anybody is on a revision.

Of the sources, only Envoy reports it: its gauge `upstream_rq_active`, with `upstream_rq_total`, which it
counts when a request begins. What Prometheus holds of other routers counts answers, so that an open stream is in none
of it; there nobody can say that nothing is open.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Protocol, runtime_checkable

from slipway_core.errors import MetricsUnavailableError
from slipway_core.rollout.pods.drain import OpenRequests

PROTOCOLS = ("http", "grpc")
FILTER = r"^cluster\..*\|(http|grpc)\.upstream_rq_(active|pending_active|total)$"
_ACTIVE = ("envoy_cluster_upstream_rq_active", "envoy_cluster_upstream_rq_pending_active")
_BEGUN = "envoy_cluster_upstream_rq_total"


@runtime_checkable
class CountsOpenRequests(Protocol):
    """A metrics source that can tell how many requests are open at a revision."""

    def open_requests(self, revision: str) -> OpenRequests:
        """One count, as old as its moment says. It blocks, within its own limit: call it in a thread.

        :raises MetricsUnavailableError: the source is down, slow or refuses, or does not know the revision.
        """


def open_requests_of(revision: str, pages: Mapping[str, tuple[float, str]]) -> OpenRequests:
    """Return the sum over Envoy's exposition texts, by endpoint, each with the moment at which it answered.

    Every endpoint must know the revision in both protocols: half of the routers say nothing of the other half.

    :raises MetricsUnavailableError: one does not, or its text is invalid.
    """
    active = begun = 0
    for endpoint, (_, page) in pages.items():
        try:
            found = _counts(page, {f"{revision}|{protocol}" for protocol in PROTOCOLS})
        except (ValueError, OverflowError, KeyError) as error:
            raise _unusable(endpoint, str(error)[:300]) from None
        for protocol in PROTOCOLS:
            if (f"{revision}|{protocol}", _BEGUN) not in found:
                raise _unusable(endpoint, f"nothing about the cluster {revision}|{protocol}")
        active += sum(number for (_, name), number in found.items() if name in _ACTIVE)
        begun += sum(number for (_, name), number in found.items() if name == _BEGUN)
    return OpenRequests(min(at for at, _ in pages.values()), active, begun)


def _counts(page: str, clusters: Iterable[str]) -> Counter[tuple[str, str]]:
    # A DAG file that rolls back is read without the parser.
    from prometheus_client.parser import text_string_to_metric_families

    wanted, found = set(clusters), Counter[tuple[str, str]]()
    for family in text_string_to_metric_families(page):
        for sample in family.samples:
            cluster = sample.labels.get("envoy_cluster_name", "")
            if cluster in wanted and (sample.name in _ACTIVE or sample.name == _BEGUN):
                if sample.value < 0:
                    raise ValueError(f"{sample.name} is {sample.value:g}")
                found[cluster, sample.name] += int(sample.value)
    return found


def _unusable(endpoint: str, found: str) -> MetricsUnavailableError:
    return MetricsUnavailableError(
        f"the metrics endpoint {endpoint} does not report how many requests are open",
        expected="upstream_rq_active and upstream_rq_total of the revision's two clusters",
        found=found,
        remedy="check that the connection leads to Envoy's admin endpoint, and that it routes the revision",
    )
