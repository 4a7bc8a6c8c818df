"""Runs the provider's example DAG where there is no Slipway, as `airflow dags test` does; writes the states as JSON.

    python example_program.py CONF

CONF is JSON: what the run is given.
"""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

from airflow.dag_processing.dagbag import DagBag

import airflow_provider_triton

FOLDER = Path(airflow_provider_triton.__file__).parent
DAG = Path(os.environ["AIRFLOW__CORE__DAGS_FOLDER"]) / "replace_model.py"
PROJECT = ("slipway", "slipway_core", "slipway_kubernetes", "slipway_sandbox", "tests")


def states_of(conf: dict[str, Any]) -> dict[str, str]:
    """Return the state of each task when a run has ended."""
    bag = DagBag(dag_folder=str(DAG))
    assert not bag.import_errors, bag.import_errors
    run = bag.dags["replace_model"].test(run_conf=conf)
    return {instance.task_id: str(instance.state) for instance in run.get_task_instances()}


if __name__ == "__main__":
    shutil.copyfile(FOLDER / "example_dags" / DAG.name, DAG)
    states = states_of(json.loads(sys.argv[1]))
    found = {
        "airflow": version("apache-airflow"),
        "folder": str(FOLDER),
        "project": [name for name in PROJECT if importlib.util.find_spec(name) is not None],
        "imported": sorted(name for name in sys.modules if name.startswith("slipway")),
        "states": states,
    }
    print("ANSWERS " + json.dumps(found))
