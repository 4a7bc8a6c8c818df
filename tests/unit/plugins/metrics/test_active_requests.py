"""Requests that are open at an Envoy: a sum over all routers, or no count at all."""

from __future__ import annotations

import pytest

from slipway.metrics.active_requests import open_requests_of
from slipway_core.errors import MetricsUnavailableError
from slipway_core.rollout.pods.drain import OpenRequests

REVISION = "digits-predictor-00002"


def page(active: int = 2, begun: int = 10, *, protocols: tuple[str, ...] = ("http", "grpc")) -> str:
    lines = []
    for name, kind, value in (
        ("upstream_rq_active", "gauge", active),
        ("upstream_rq_pending_active", "gauge", 1),
        ("upstream_rq_total", "counter", begun),
    ):
        lines.append(f"# TYPE envoy_cluster_{name} {kind}")
        for revision, number in ((REVISION, value), ("digits-predictor-00001", 500)):
            lines += [
                f'envoy_cluster_{name}{{envoy_cluster_name="{revision}|{protocol}"}} {number}'
                for protocol in protocols
            ]
    return "\n".join(lines) + "\n"


def test_open_and_begun_are_summed_over_routers_and_protocols() -> None:
    """Of this revision alone, and the count is as old as the oldest answer."""
    pages = {"one": (100.0, page()), "two": (101.0, page(active=0, begun=5))}
    assert open_requests_of(REVISION, pages) == OpenRequests(100.0, active=2 * 3 + 2 * 1, begun=20 + 10)


@pytest.mark.parametrize("text", ["", page(protocols=("http",)), "no exposition {", page(active=-1)])
def test_a_router_that_does_not_tell_leaves_no_count(text: str) -> None:
    """Half of the routers, or one protocol of two, say nothing of the other half."""
    with pytest.raises(MetricsUnavailableError, match="two"):
        open_requests_of(REVISION, {"one": (100.0, page()), "two": (101.0, text)})
