"""The real Prometheus and its promtool."""

from __future__ import annotations

from tests.support.monitoring.prometheus import prometheus_program, promtool, start_prometheus
from tests.support.web.fixtures import house

__all__ = ["house", "prometheus_program", "promtool", "start_prometheus"]
