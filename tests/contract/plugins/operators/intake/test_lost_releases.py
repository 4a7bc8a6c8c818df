"""EndLostReleasesOperator: the record of a release whose run Airflow no longer has is completed."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowRuntimeError, ErrorType
from airflow.sdk.execution_time.comms import ErrorResponse

from slipway.hooks.s3_store import ModelStoreHook
from slipway.operators.intake.lost_releases import EndLostReleasesOperator
from slipway.read_model.writer import ViewWriter, read_view
from slipway.release_record.lock import LockOwner
from slipway.release_record.record import ReleaseRecord
from slipway_core.record.kinds import (
    EventData,
    ReleaseFinished,
    ReleaseStarted,
    StageFinished,
    StageStarted,
    WeightIntended,
)
from slipway_core.record.state import ReleaseState
from tests.support.release.admission import LOCK, RELEASE_FILE, holder

RUN = "digits-3"
ON_USERS = WeightIntended(
    weight=5, storage_uri="s3://b/models/digits/3", stable_storage_uri="s3://b/models/digits/2"
)


def begun(store: ModelStoreHook, *events: EventData, version: int = 3, run_id: str = RUN) -> None:
    """Let a release have begun, with the model's lock in its hands, and the pages know of it."""
    record = ReleaseRecord(store, "digits", version, run_id)
    for event in (ReleaseStarted(), *events):
        record.append(event)
    store.write(LOCK, LockOwner(run_id, version).to_bytes())
    ViewWriter(store).bring_up_to_date("digits", [version])


def swept(store: ModelStoreHook, runs: Mapping[str, str], tmp_path: Path, **more: Any) -> list[str]:
    """Run the task where Airflow knows these runs by their states; return its sentences."""

    def state_of(dag_id: str, run_id: str) -> str:
        if dag_id == "model_release" and run_id in runs:
            return runs[run_id]
        raise AirflowRuntimeError(
            ErrorResponse(
                error=ErrorType.API_SERVER_ERROR, detail={"status_code": int(runs.get("error", 404))}
            )
        )

    (tmp_path / "digits.yaml").write_text(RELEASE_FILE)
    operator = EndLostReleasesOperator(task_id="end", bucket=store.bucket, releases_dir=str(tmp_path))
    context: Any = {"run_id": "scheduled__1", "ti": SimpleNamespace(get_dagrun_state=state_of), **more}
    return operator.execute(context)


def state(store: ModelStoreHook, version: int = 3) -> ReleaseState:
    """Return what the record says."""
    return ReleaseRecord(store, "digits", version, RUN).state()


@pytest.mark.parametrize(
    ("events", "outcome", "reason"),
    [
        ((), "failed", "Airflow no longer has the run"),
        ((ON_USERS,), "failed", "run: slipway rollback digits"),
        (
            (
                StageStarted(stage="convert"),
                StageFinished(stage="convert", outcome="failed", reason="out of memory"),
            ),
            "failed",
            "out of memory",
        ),
    ],
    ids=["before users met it", "while users met it", "after a stage had failed"],
)
def test_a_release_whose_run_was_deleted_ends(
    store: ModelStoreHook, tmp_path: Path, events: tuple[EventData, ...], outcome: str, reason: str
) -> None:
    """Record, lock and page say so; a second sweep finds nothing to do."""
    begun(store, *events)
    (sentence,) = swept(store, {}, tmp_path)
    assert sentence.startswith(f"digits version 3: {outcome}.")
    assert (state(store).outcome, reason in (state(store).reason or "")) == (outcome, True)
    assert state(store).finished_at is not None
    assert holder(store) is None
    document = read_view(store, "digits").document
    assert document is not None
    assert document.versions[0].finished_at is not None
    assert swept(store, {}, tmp_path) == []


@pytest.mark.parametrize("run_state", ["success", "failed"])
def test_a_run_that_ended_without_completing_its_record(
    store: ModelStoreHook, tmp_path: Path, run_state: str
) -> None:
    """Such as one whose teardown could not reach the store to the last."""
    begun(store)
    assert len(swept(store, {RUN: run_state}, tmp_path)) == 1


@pytest.mark.parametrize("run_state", ["queued", "running"])
def test_a_release_that_is_under_way_is_left_alone(
    store: ModelStoreHook, tmp_path: Path, run_state: str
) -> None:
    """Its run completes the record."""
    begun(store, ON_USERS)
    assert swept(store, {RUN: run_state}, tmp_path) == []
    assert (state(store).finished_at, holder(store)) == (None, RUN)


def test_an_airflow_that_does_not_answer_ends_nothing(store: ModelStoreHook, tmp_path: Path) -> None:
    """Only a run that Airflow says it does not have is lost."""
    begun(store)
    with pytest.raises(AirflowRuntimeError):
        swept(store, {"error": "500"}, tmp_path)
    assert (state(store).finished_at, holder(store)) == (None, RUN)


def test_a_release_that_has_ended_is_not_ended_again(store: ModelStoreHook, tmp_path: Path) -> None:
    """The pages may lag behind: the record decides."""
    begun(store)
    ReleaseRecord(store, "digits", 3, RUN).append(
        ReleaseFinished(outcome="cancelled", refused_by=None, reason="by hand")
    )
    assert swept(store, {}, tmp_path) == []
    assert state(store).reason == "by hand"


def test_another_release_of_the_model_keeps_its_lock(store: ModelStoreHook, tmp_path: Path) -> None:
    """It took the lock over when it began; the lost one of another version ends all the same."""
    begun(store)
    begun(store, version=4, run_id="digits-4")
    assert len(swept(store, {"digits-4": "running"}, tmp_path)) == 1
    assert state(store).outcome == "failed"
    assert holder(store) == "digits-4"


def test_a_run_about_the_same_version_completes_the_record_itself(
    store: ModelStoreHook, tmp_path: Path
) -> None:
    """A release of the version that has taken the lock, and has written nothing yet."""
    begun(store)
    store.write(LOCK, LockOwner("digits-3-again", 3).to_bytes())
    assert swept(store, {"digits-3-again": "running"}, tmp_path) == []
    assert holder(store) == "digits-3-again"


def test_an_unreadable_document_holds_up_no_other_model(store: ModelStoreHook, tmp_path: Path) -> None:
    """One model's trouble is named in the log, and the others are looked at."""
    begun(store)
    store.write("views/models/aaa.json", b"{")
    store.write("views/models/No Model.json", b"{}")
    assert len(swept(store, {}, tmp_path)) == 1


def test_a_run_that_uploads_have_started_does_not_look(store: ModelStoreHook, tmp_path: Path) -> None:
    """New versions start without waiting for it."""
    begun(store)
    assert swept(store, {}, tmp_path, triggering_asset_events={"incoming": []}) == []
    assert state(store).finished_at is None
