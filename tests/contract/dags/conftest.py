"""DAG files may take long to import."""

from __future__ import annotations

import os

# As the sandbox has it: a busy machine is no error in a DAG.
os.environ["AIRFLOW__CORE__DAGBAG_IMPORT_TIMEOUT"] = "180"
