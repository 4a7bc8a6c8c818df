"""A release of some days, during which `airflow db clean` removes the XComs of its run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException

from slipway.hooks.s3_store import ModelStoreHook
from slipway.operators.conclude import ConcludeReleaseOperator
from slipway.operators.restore import RestoreStableOperator
from slipway.release_run import ReleaseRun
from slipway.traffic.reconciler import reconcile
from slipway_core.rollout.next_action import RollBack
from tests.support.canary.doubles import ServiceDouble
from tests.support.canary.operators import lead_users, record, stable_uri, state


class CleanedRun:
    """The run, as its teardowns see it."""

    dag_id = "model_release"

    def get_dagrun_state(self, dag_id: str, run_id: str) -> str:
        """The state of any run."""
        return "running"

    @property
    def context(self) -> Any:
        """The context of a task."""
        params = {"model": "digits", "version": 3}
        return {"params": params, "run_id": "digits-3", "dag": self, "ti": self}


@pytest.fixture
def release_files(store: ModelStoreHook, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of release files, and the variable that names the bucket."""
    (tmp_path / "digits.yaml").write_text("model: digits\nsource: {format: onnx}\n")
    monkeypatch.setenv("SLIPWAY_RELEASES_DIR", str(tmp_path))
    monkeypatch.setenv("AIRFLOW_VAR_SLIPWAY_BUCKET", store.bucket)
    return tmp_path


def users(service: ServiceDouble) -> dict[str, int]:
    assert service.model is not None
    return dict(service.model.users())


@pytest.mark.parametrize("file", ["right", "wrong", "gone"])
@pytest.mark.parametrize("left", ["null", "None", ""])
def test_a_release_whose_xcoms_were_cleaned_is_taken_back_and_ends(
    left: str,
    file: str,
    release_run: ReleaseRun,
    service: ServiceDouble,
    store: ModelStoreHook,
    release_files: Path,
) -> None:
    """The run's own parameters say which version it is, the InferenceService what was live; the record ends."""
    lead_users(service, release_run, store, 50)
    if file == "gone":
        (release_files / "digits.yaml").unlink()
    elif file == "wrong":
        (release_files / "digits.yaml").write_text("model: digits\nrollout: {stepps: []}\n")
    RestoreStableOperator(task_id="restore", release=left).execute(CleanedRun().context)
    assert users(service) == {stable_uri(release_run): 100}
    with pytest.raises(AirflowFailException, match="rolled_back"):
        ConcludeReleaseOperator(task_id="conclude", release=left).execute(CleanedRun().context)
    assert record(store).events()[-1].kind == "release_finished"
    assert state(store).outcome == "rolled_back"


def test_a_cleaned_release_without_a_canary_never_deletes_what_was_live(
    release_run: ReleaseRun, service: ServiceDouble, store: ModelStoreHook, release_files: Path
) -> None:
    """What was live before is the record's to say: nobody takes a service away for want of an XCom."""
    lead_users(service, release_run, store, 50)
    reconcile(service, RollBack(stable_uri(release_run)), timeout_s=60)  # type: ignore[arg-type]
    RestoreStableOperator(task_id="restore", release="null").execute(CleanedRun().context)
    assert users(service) == {stable_uri(release_run): 100}


def test_a_cleaned_release_whose_bucket_nobody_knows_says_what_to_do(
    service: ServiceDouble, release_files: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error names the workflow that needs the model's name only."""
    monkeypatch.delenv("AIRFLOW_VAR_SLIPWAY_BUCKET")
    with pytest.raises(AirflowFailException, match="model_rollback"):
        RestoreStableOperator(task_id="restore", release="null").execute(CleanedRun().context)
