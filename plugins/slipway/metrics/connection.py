"""Which Airflow connection leads to the metrics source, where nobody names another one."""

from __future__ import annotations

DEFAULT_METRICS_CONN_ID = "slipway_metrics"
