"""Importing this gives the tests' process an empty AIRFLOW_HOME: Airflow reads its home when it is first imported."""

from __future__ import annotations

import os
import sys
import tempfile

if "airflow" in sys.modules:
    raise RuntimeError(
        "Airflow was imported before its home was made: it would use that of this machine's user"
    )
_home = tempfile.TemporaryDirectory(prefix="slipway-airflow-")
os.environ["AIRFLOW_HOME"] = _home.name
os.environ["AIRFLOW__CORE__LOAD_EXAMPLES"] = "False"
