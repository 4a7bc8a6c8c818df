"""One release of a model at a time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException, AirflowRuntimeError, ErrorType, TaskDeferred
from airflow.sdk.execution_time.comms import ErrorResponse

from slipway import airflow_run
from slipway.hooks.s3_store import ModelStoreHook
from slipway.operators.admission import facts
from slipway.operators.admission.admit import AdmitReleaseOperator
from slipway.release_record.lock import LockOwner, ReleaseLock
from slipway_core.errors import (
    ClusterUnavailableError,
    ReleaseInProgressError,
    StoreUnavailableError,
    VersionDeletedError,
)
from tests.support.release.admission import (
    FORM,
    LOCK,
    RELEASE_FILE,
    Admit,
    cause,
    conclude,
    context,
    holder,
    kinds,
)

# --- one release of a model at a time ---


def test_lease_that_does_not_outlast_a_dead_triggerer_is_refused(
    landed: ModelStoreHook, admit: Admit, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before anything is done, with what to change on either side; a shorter threshold admits the same release."""
    monkeypatch.setenv("AIRFLOW__TRIGGERER__TRIGGERER_HEALTH_CHECK_THRESHOLD", "60")
    with pytest.raises(AirflowFailException, match=r"set `rollout.lease_s` to 85 or more"):
        admit()
    assert holder(landed) is None
    monkeypatch.setenv("AIRFLOW__TRIGGERER__TRIGGERER_HEALTH_CHECK_THRESHOLD", "15")
    admit()


def test_second_release_is_refused(landed: ModelStoreHook, admit: Admit, releases: Path) -> None:
    """Where the release file says so a second release is refused and told which is in its way."""
    (releases / "digits.yaml").write_text(RELEASE_FILE + "rollout: {on_concurrent_release: refuse}\n")
    admit("digits-1")
    with pytest.raises(AirflowFailException, match="digits-1") as caught:
        admit("digits-2", running=("digits-1",))
    assert cause(caught) is ReleaseInProgressError
    assert holder(landed) == "digits-1"
    assert kinds(landed) == ["release_started"]


@pytest.mark.parametrize(("status_code", "is_free"), [(404, True), (500, False)])
def test_lock_of_a_run_that_was_deleted_is_taken_over(
    status_code: int, is_free: bool, landed: ModelStoreHook, admit: Admit, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run that Airflow does not know is not under way; where Airflow cannot tell, the lock stands."""

    def answers(dag_id: str, run_id: str) -> str:
        detail = {"status_code": status_code, "message": "no", "detail": None}
        raise AirflowRuntimeError(ErrorResponse(error=ErrorType.API_SERVER_ERROR, detail=detail))

    admit("digits-1")
    ours = context("digits-2", params=FORM)
    ours["ti"].get_dagrun_state = answers
    lock = airflow_run.model_lock(landed, "digits", ours)
    if is_free:
        assert lock.acquire(LockOwner("digits-2", 2)).release_id == "digits-2"
    else:
        with pytest.raises(AirflowRuntimeError):
            lock.acquire(LockOwner("digits-2", 2))
        assert holder(landed) == "digits-1"


def test_second_release_is_queued(landed: ModelStoreHook, admit: Admit) -> None:
    """A second release waits in the triggerer, and goes on when the first has ended; so none is lost."""
    first = admit("digits-1")
    with pytest.raises(TaskDeferred) as deferred:
        admit("digits-2", running=("digits-1",))
    assert deferred.value.method_name == "execute"
    conclude(first)
    assert admit("digits-2", running=("digits-1",)).release_id == "digits-2"


def test_a_release_waits_while_old_versions_are_deleted(
    landed: ModelStoreHook, admit: Admit, releases: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where the release file refuses a second release: retention holds the lock for moments."""
    (releases / "digits.yaml").write_text(RELEASE_FILE + "rollout: {on_concurrent_release: refuse}\n")
    landed.write(LOCK, LockOwner("gc-1", 1, "repository_gc").to_bytes())
    monkeypatch.setattr(ReleaseLock, "acquire", lambda lock, owner: lock.holder())
    with pytest.raises(TaskDeferred):
        admit()


def test_a_deleted_version_is_not_released_again(landed: ModelStoreHook, admit: Admit) -> None:
    """Its number is used up, whatever training uploads and whatever is forced; nothing is begun."""
    landed.write("models/digits/2/deleted.json", b"{}")
    with pytest.raises(AirflowFailException, match="its number cannot be used again") as caught:
        admit(force=True)
    assert cause(caught) is VersionDeletedError
    assert holder(landed) is None


def test_dead_release_holds_nobody_up(landed: ModelStoreHook, admit: Admit) -> None:
    """A release whose run has ended without concluding does not keep the model."""
    admit("digits-1")
    assert admit("digits-2").release_id == "digits-2"
    assert holder(landed) == "digits-2"


def test_admission_that_is_run_again(landed: ModelStoreHook, admit: Admit) -> None:
    """A task that died after admitting, and is run again, admits the same release and begins it once."""
    assert admit() == admit(running=("digits-2",))
    assert kinds(landed) == ["release_started"]


def test_cluster_that_does_not_answer(
    landed: ModelStoreHook, admit: Admit, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without knowing what is live nothing begins: to be tried again, with the lock given back."""

    def away(_: Any) -> None:
        raise ClusterUnavailableError("the cluster is away")

    monkeypatch.setattr(facts, "observe_service", away)
    with pytest.raises(ClusterUnavailableError):
        admit()
    assert landed.entries("records/") == []


def test_store_that_does_not_answer(
    cut_off_store: ModelStoreHook, releases: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the store nothing is concluded about the version: to be tried again."""
    monkeypatch.setattr(facts, "observe_service", lambda hook: None)
    operator = AdmitReleaseOperator(task_id="admit", releases_dir=str(releases), bucket=cut_off_store.bucket)
    with pytest.raises(StoreUnavailableError):
        operator.execute(context("digits-2", params=FORM))
