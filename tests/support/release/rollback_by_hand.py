"""A run of the rollback by hand, as its tasks see it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from slipway.hooks.s3_store import ModelStoreHook
from slipway.operators.conclude import ConcludeReleaseOperator
from slipway.operators.rollback import RollBackVersionOperator
from slipway.registry.registry import ModelRegistry
from slipway.release_record.record import ReleaseRecord
from slipway.release_run import ReleaseRun
from slipway_core.record.kinds import StageFinished

RELEASE_FILE = "model: digits\nsource: {format: onnx}\n"
RUN = "rollback-1"


class RunDouble:
    """What the tasks of a run see of it."""

    dag_id = "model_rollback"

    def __init__(self, version: int | None = None, **form: Any) -> None:
        plain = {"model": "digits", "version": version, "reason": "labels were swapped"}
        self.params: dict[str, Any] = {**plain, "newer": False, "emergency": False, **form}
        self.running: set[str] = {RUN}
        self.pushed: dict[str, Any] = {}
        self.started_by: str | None = "alice"

    def get_dagrun_state(self, dag_id: str, run_id: str) -> str:
        """The state of any run."""
        return "running" if run_id in self.running else "failed"

    def xcom_push(self, key: str, value: Any) -> None:
        """What a task leaves for the others."""
        self.pushed[key] = value

    def xcom_pull(self, task_ids: str, key: str) -> Any:
        """What it left."""
        return self.pushed[key]

    @property
    def context(self) -> Any:
        """The context of a task."""
        started = SimpleNamespace(triggering_user_name=self.started_by)
        return {"params": self.params, "run_id": RUN, "dag": self, "ti": self, "dag_run": started}


def uri(store: ModelStoreHook, version: int) -> str:
    return ModelRegistry(store).storage_uri("digits", version)


def validated(store: ModelStoreHook, release_run: ReleaseRun) -> None:
    """Staging has tried the version to go back to, as the DAG does between its first and its last task."""
    assert release_run.stable is not None
    _, digest = ModelRegistry(store).require_with_digest("digits", release_run.stable.version)
    ReleaseRecord(store, "digits", release_run.version, RUN).append(
        StageFinished(stage="validate", outcome="passed", manifest_sha256=digest)
    )


def roll_back(release_run: ReleaseRun, run: RunDouble) -> None:
    """Run the task that changes the InferenceService."""
    RollBackVersionOperator(task_id="roll_back", release=release_run.model_dump_json()).execute(run.context)


def finish(release_run: ReleaseRun, run: RunDouble) -> None:
    """Run the last two tasks."""
    roll_back(release_run, run)
    ConcludeReleaseOperator(
        task_id="conclude", wanted="rolled_back", release=release_run.model_dump_json()
    ).execute(run.context)
