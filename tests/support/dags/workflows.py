"""The names of the workflows, their files, and forms for them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from airflow.sdk.definitions.dag import DAG
from airflow.serialization.serialized_objects import DagSerialization

ROOT = Path(__file__).resolve().parents[3]
DAGS = ROOT / "dags"
# The file that checks the settings has no DAG.
SETTINGS_FILE = "slipway_settings.py"
FILES = sorted(path.name for path in DAGS.glob("*.py") if path.name != SETTINGS_FILE)
RELEASE, INTAKE, ROLLBACK, PAUSE = "model_release", "model_intake", "model_rollback", "canary_pause"
REJECTION, FREEZE = "version_rejection", "release_freeze"
GC, PIN = "repository_gc", "version_pin"
REVALIDATION, FINDING = "model_revalidation", "finding_close"
DELIVERY = "notification_delivery"
SYNC = "registry_sync"
TUNING = "model_tuning"
BENCHMARK, SCHEDULED = "model_benchmark", "scheduled_measurements"
FLEET, FLEET_WATCH = "fleet_release", "fleet_watch"
# A form filled in as little as possible.
MINIMAL = {"model": "digits", "version": 2}


def ancestors(dag: DAG, task_id: str) -> set[str]:
    """Return every task that comes before this one."""
    return set(dag.get_task(task_id).get_flat_relative_ids(upstream=True))


def fill_in(dag: DAG, form: dict[str, Any]) -> None:
    """Check a form as Airflow does when a run is created. Raises ParamValidationError."""
    stored = DagSerialization.from_dict(json.loads(json.dumps(DagSerialization.to_dict(dag))))
    stored.params.deep_merge(form).validate()
