"""The real Prometheus and its promtool."""

from __future__ import annotations

from tests.support.monitoring.prometheus import prometheus_program, promtool, start_prometheus

__all__ = ["prometheus_program", "promtool", "start_prometheus"]
