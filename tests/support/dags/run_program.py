"""Runs one DAG in a process of its own, as `airflow dags test` does, and writes the states of its tasks as JSON.

python -m tests.support.dags.run_program FILE DAG_ID CONF
"""

from __future__ import annotations

import json
import sys
from typing import Any

from airflow.dag_processing.dagbag import DagBag


def states_of(file: str, dag_id: str, conf: dict[str, Any]) -> dict[str, str]:
    """Return the state of each task when the run has ended."""
    bag = DagBag(dag_folder=file)  # a new one: a run changes the DAG's params
    assert not bag.import_errors, bag.import_errors
    run = bag.dags[dag_id].test(run_conf=conf)
    return {instance.task_id: str(instance.state) for instance in run.get_task_instances()}


if __name__ == "__main__":
    found = [states_of(sys.argv[1], sys.argv[2], conf) for conf in json.loads(sys.argv[3])]
    print("STATES " + json.dumps(found))
