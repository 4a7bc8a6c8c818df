"""An Airflow home of these tests' own: Airflow reads it when it is first imported."""

from __future__ import annotations

import os
import sys
import tempfile

_home = tempfile.TemporaryDirectory(prefix="slipway-airflow-")
if "airflow" not in sys.modules:
    os.environ["AIRFLOW_HOME"] = _home.name
    os.environ["AIRFLOW__CORE__LOAD_EXAMPLES"] = "False"
# As the sandbox has it: a busy machine is no error in a DAG.
os.environ["AIRFLOW__CORE__DAGBAG_IMPORT_TIMEOUT"] = "180"
