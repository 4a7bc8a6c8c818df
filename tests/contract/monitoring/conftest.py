"""The real Prometheus and its promtool."""

from __future__ import annotations

import os
import sys
import tempfile

from tests.support.monitoring.prometheus import prometheus_program, promtool, start_prometheus
from tests.support.web.fixtures import house

__all__ = ["house", "prometheus_program", "promtool", "start_prometheus"]

# Airflow reads its home when it is first imported, which the test modules beside this file do.
_home = tempfile.TemporaryDirectory(prefix="slipway-airflow-")
if "airflow" not in sys.modules:
    os.environ["AIRFLOW_HOME"] = _home.name
    os.environ["AIRFLOW__CORE__LOAD_EXAMPLES"] = "False"
