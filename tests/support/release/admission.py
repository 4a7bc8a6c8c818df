"""Ask for a release and conclude it; see who holds the model's lock."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException

from slipway.hooks.s3_store import ModelStoreHook
from slipway.operators.conclude import ConcludeReleaseOperator
from slipway.release_record.record import ReleaseRecord
from slipway.release_run import ReleaseRun

RELEASE_FILE = "model: digits\nsource: {format: onnx, model_file: model.onnx, golden_file: golden.npz}\n"
LOCK = "records/digits/active.json"
FORM: dict[str, Any] = {"model": "digits", "version": 2}
Admit = Callable[..., ReleaseRun]


def context(run_id: str, running: tuple[str, ...] = (), params: dict[str, Any] | None = None) -> Any:
    """Return a task's context while the given runs are under way."""

    def state(dag_id: str, asked: str) -> str:
        assert dag_id == "model_release"
        return "running" if asked in running else "failed"

    return {
        "run_id": run_id,
        "params": params or {},
        "dag": SimpleNamespace(dag_id="model_release"),
        "ti": SimpleNamespace(get_dagrun_state=state),
        "dag_run": SimpleNamespace(triggering_user_name="alice"),
    }


def conclude(release_run: ReleaseRun) -> bool:
    """End the release, as the teardown does; say whether its run is a successful one."""
    operator = ConcludeReleaseOperator(task_id="conclude", release=release_run.model_dump_json())
    try:
        operator.execute(context(release_run.release_id, (release_run.release_id,)))
    except AirflowFailException:
        return False
    return True


def record(store: ModelStoreHook, run_id: str = "digits-2", version: int = 2) -> ReleaseRecord:
    """Return the version's record as this run writes it."""
    return ReleaseRecord(store, "digits", version, run_id)


def kinds(store: ModelStoreHook) -> list[str]:
    """Return the kinds of the events of version 2."""
    return [event.kind for event in record(store).events()]


def holder(store: ModelStoreHook) -> str | None:
    """Return the run that holds the model's lock."""
    held = store.read_json(LOCK)
    return None if held is None else str(held["release_id"])


def cause(caught: pytest.ExceptionInfo[BaseException]) -> type[BaseException | None]:
    """Return the class of the project's own error behind Airflow's."""
    return type(caught.value.__cause__)
