"""`dag_parse_s`: how long reading the DAG files takes beyond importing Airflow itself."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile

from benchmarks.figure import Figure, MeasureError
from benchmarks.sandbox import PROJECT_ROOT

ROUNDS = 3
LIMIT_S = 120

# In an interpreter of its own: once imported, a module costs nothing.
PROGRAM = """
import json, sys, time
import airflow, airflow.sdk
from airflow.dag_processing.dagbag import DagBag
began = time.perf_counter()
bag = DagBag(sys.argv[1])
seconds = time.perf_counter() - began
print("RESULT", json.dumps({"seconds": seconds, "dags": len(bag.dags), "errors": bag.import_errors}))
"""


def measure() -> Figure:
    """Measure the seconds for all DAG files in a fresh interpreter: the best of some rounds."""
    with tempfile.TemporaryDirectory() as home:
        return Figure("dag_parse_s", min(_parse_s(home) for _ in range(ROUNDS)), "s")


def _parse_s(home: str) -> float:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("AIRFLOW")}
    environment = kept | {
        "AIRFLOW_HOME": home,
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__CORE__PLUGINS_FOLDER": str(PROJECT_ROOT / "plugins"),
        "PYTHONPATH": str(PROJECT_ROOT / "include"),
    }
    try:
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM, str(PROJECT_ROOT / "dags")],
            env=environment,
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise MeasureError(f"The DAG files were not read within {LIMIT_S} s.") from error
    lines = [line for line in done.stdout.splitlines() if line.startswith("RESULT ")]
    if done.returncode != 0 or not lines:
        raise MeasureError(f"The DAG files could not be read; the end of the output:\n{done.stderr[-2000:]}")
    result = json.loads(lines[-1].removeprefix("RESULT "))
    if result["errors"] or not result["dags"]:
        raise MeasureError(
            f"Expected DAGs without import errors; found {result['dags']} DAGs, {result['errors']}."
        )
    return float(result["seconds"])
