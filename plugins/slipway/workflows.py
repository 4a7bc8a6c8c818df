"""The DAGs by their ids, and the tasks that others than their own DAG name: nowhere else in the plugins or the domain.

Cheap to import: the command line, the plugin and every operator have it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

CANARY_PAUSE = "canary_pause"
FINDING_CLOSE = "finding_close"
FLEET_RELEASE = "fleet_release"
FLEET_WATCH = "fleet_watch"
INSTALLATION_EXAMINATION = "installation_examination"
MODEL_BENCHMARK = "model_benchmark"
MODEL_INTAKE = "model_intake"
MODEL_RELEASE = "model_release"
MODEL_REVALIDATION = "model_revalidation"
MODEL_ROLLBACK = "model_rollback"
MODEL_TUNING = "model_tuning"
NOTIFICATION_DELIVERY = "notification_delivery"
REGISTRY_SYNC = "registry_sync"
RELEASE_FREEZE = "release_freeze"
REPOSITORY_GC = "repository_gc"
SCHEDULED_MEASUREMENTS = "scheduled_measurements"
VERSION_PIN = "version_pin"
VERSION_REJECTION = "version_rejection"

DAG_IDS = (
    *(CANARY_PAUSE, FINDING_CLOSE, FLEET_RELEASE, FLEET_WATCH, INSTALLATION_EXAMINATION, MODEL_BENCHMARK),
    *(MODEL_INTAKE, MODEL_RELEASE),
    *(MODEL_REVALIDATION, MODEL_ROLLBACK, MODEL_TUNING, NOTIFICATION_DELIVERY, REGISTRY_SYNC, RELEASE_FREEZE),
    *(REPOSITORY_GC, SCHEDULED_MEASUREMENTS, VERSION_PIN, VERSION_REJECTION),
)

ADMIT_TASK = "admit"
"""The first task of a release and of a rollback."""
STOP_REASON = "stop_reason"
"""The XCom of the first task in which a person's reason to stop the run lies: no task can read its run's note."""
APPROVE_CANARY_TASK = "rollout.approve"
APPROVE_PROMOTION_TASK = "rollout.approve_promotion"
APPROVE_ROLLBACK_TASK = "approve"


@dataclass(frozen=True)
class Workflow:
    """A DAG whose runs people start and name.

    :param dag_id: its id.
    :param result_task: the task whose result is a sentence about what the run has done; "": it has none.
    :param writes_notes: whether its tasks write notes of their runs; those of another DAG can change none.
    """

    dag_id: str
    result_task: str = ""
    writes_notes: bool = True


WORKFLOWS: Mapping[str, Workflow] = {
    "release": Workflow(MODEL_RELEASE),
    "rollback": Workflow(MODEL_ROLLBACK),
    "pause": Workflow(CANARY_PAUSE, "pause"),
    "rejection": Workflow(VERSION_REJECTION, "write"),
    "pin": Workflow(VERSION_PIN, "pin"),
    "freeze": Workflow(RELEASE_FREEZE, "write"),
    "finding": Workflow(FINDING_CLOSE, "close"),
    "tuning": Workflow(MODEL_TUNING),
    "benchmark": Workflow(MODEL_BENCHMARK, writes_notes=False),
    "revalidation": Workflow(MODEL_REVALIDATION, writes_notes=False),
    "fleet": Workflow(FLEET_RELEASE),
    "sync": Workflow(REGISTRY_SYNC, writes_notes=False),
}
"""The workflows by the names that the domain has for them (`slipway_core.acts`)."""

_NAMES = {one.dag_id: name for name, one in WORKFLOWS.items()}


def dag_id_of(workflow: str) -> str:
    """Return the DAG of a workflow; "" for "", the workflow of an answer."""
    return WORKFLOWS[workflow].dag_id if workflow else ""


def workflow_of(dag_id: str) -> str:
    """Return what the domain calls a DAG; "" where it has no name for it."""
    return _NAMES.get(dag_id, "")
