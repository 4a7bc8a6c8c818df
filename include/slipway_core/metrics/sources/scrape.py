"""`source: scrape`: the exposition endpoints of Envoy routers, read directly."""

from __future__ import annotations

from typing import ClassVar, Literal

from slipway_core.metrics.source_kind import MetricsSourceKind, metrics_source_kind
from slipway_core.metrics.visibility import ENVOY_SEES, Visibility


@metrics_source_kind
class ScrapedMetrics(MetricsSourceKind):
    """Envoy's own counters: its routers name a cluster `REVISION|http` and `REVISION|grpc`."""

    sees_users_only: ClassVar[bool] = True
    source: Literal["scrape"] = "scrape"

    def sees(self) -> Visibility:
        """Return what Envoy counts."""
        return ENVOY_SEES
