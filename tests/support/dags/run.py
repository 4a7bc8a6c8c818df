"""A DAG that runs in a process of its own, on a database of its own."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from slipway_sandbox.host.settings import PROJECT_ROOT
from slipway_sandbox.services.airflow import database_template


def run_dag(
    home: Path, file: Path, dag_id: str, confs: Sequence[Mapping[str, Any]], environment: Mapping[str, str]
) -> list[dict[str, str]]:
    """Run a DAG once with each `conf`; return the states of each run's tasks. Its log is what pytest shows.

    :param home: an empty folder for AIRFLOW_HOME.
    :param environment: connections and variables, as Airflow reads them.
    """
    arguments = ["tests.support.dags.run_program", str(file), dag_id, json.dumps(confs)]
    states: list[dict[str, str]] = run_program(home, file.parent, arguments, "STATES", environment)
    return states


def run_program(
    home: Path, dags_folder: Path, arguments: Sequence[str], word: str, environment: Mapping[str, str]
) -> Any:
    """Run a module with a database of its own; return the JSON behind `word` in its output. pytest shows the rest.

    :param home: an empty folder for AIRFLOW_HOME.
    :param arguments: the module's name, and what it is given.
    :param environment: connections and variables, as Airflow reads them.
    """
    shutil.copyfile(database_template(PROJECT_ROOT / ".sandbox"), home / "airflow.db")
    kept = {name: value for name, value in os.environ.items() if not name.startswith("AIRFLOW")}
    settings = {
        "PYTHONPATH": f"{PROJECT_ROOT / 'include'}:{PROJECT_ROOT / 'plugins'}",
        "AIRFLOW_HOME": str(home),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__CORE__DAGS_FOLDER": str(dags_folder),
        "AIRFLOW__CORE__DAGBAG_IMPORT_TIMEOUT": "180",
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{home / 'airflow.db'}",
    }
    done = subprocess.run(
        [sys.executable, "-m", *arguments],
        cwd=PROJECT_ROOT,
        env={**kept, **settings, **environment},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    print(done.stdout[-8000:], done.stderr[-8000:])
    (line,) = [one for one in done.stdout.splitlines() if one.startswith(f"{word} ")]
    return json.loads(line.removeprefix(f"{word} "))
