"""Importing this gives the tests' process an empty AIRFLOW_HOME: Airflow reads its home when it is first imported."""

from __future__ import annotations

import os
import sys
import tempfile

_home = tempfile.TemporaryDirectory(prefix="slipway-airflow-")
if "airflow" not in sys.modules:
    os.environ["AIRFLOW_HOME"] = _home.name
    os.environ["AIRFLOW__CORE__LOAD_EXAMPLES"] = "False"
