"""FindNewVersionsOperator and AdmitReleaseOperator after a rollback, and about versions that somebody has rejected."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest
from airflow.sdk.exceptions import AirflowFailException

from slipway.hooks.s3_store import ModelStoreHook
from slipway.operators.admission import facts
from slipway.operators.admission.admit import AdmitReleaseOperator
from slipway.release_record.record import ReleaseRecord
from slipway_core.errors import StartNeedsPersonError
from slipway_core.record.kinds import (
    EventData,
    Promoted,
    ReleaseStarted,
    RollbackStarted,
    RolledBack,
    VersionRejected,
    VersionUnrejected,
)
from tests.support.release.admission import FORM, RELEASE_FILE, cause, context, holder
from tests.support.release.intake_steps import (
    EVENT,
    SWEEP,
    Run,
    ends,
    found,
    land,
    notification,
    upload_again,
    was_started,
)

BACK: list[EventData] = [
    RollbackStarted(reason="errors", by="judge", stable_storage_uri=None),
    RolledBack(stable_storage_uri=None, candidate_requests=9, candidate_errors=1),
]
REJECTED = VersionRejected(reason="wrong answers", by="bob")


def says(store: ModelStoreHook, version: int, *events: EventData) -> None:
    """Let a person write into a version's record."""
    record = ReleaseRecord(store, "digits", version, "manual__1")
    for event in events:
        record.append(event)


# --- rejected ---


@pytest.mark.parametrize("is_told", [True, False], ids=["by its event", "by the sweep"])
def test_a_rejected_version_is_not_offered_again(store: ModelStoreHook, is_told: bool) -> None:
    """Refused and rejected, then uploaded anew: neither event nor sweep starts it until the rejection is lifted."""
    land(store, 2)
    was_started(store, 2, ended=ends("refused", VersionRejected(reason="bad", stage="validate")))
    key = upload_again(store, 2, dataset_version="mended")
    told = [notification(key, store.bucket)] if is_told else []
    assert found(store, Run(told)) == []
    says(store, 2, VersionUnrejected(reason="mended", by="bob", rejection_seq=2))
    assert found(store, Run(told)) == [("digits-2", EVENT if is_told else SWEEP)]


@pytest.mark.parametrize("is_told", [True, False], ids=["by its event", "by the sweep"])
def test_a_version_that_was_rejected_before_its_release(store: ModelStoreHook, is_told: bool) -> None:
    """It is left alone, and holds up neither an older version nor a newer one."""
    was_started(store, 1)
    keys = [land(store, version) for version in (2, 3, 4)]
    says(store, 3, REJECTED)
    told = [notification(key, store.bucket) for key in keys] if is_told else []
    reason = EVENT if is_told else SWEEP
    assert found(store, Run(told)) == [("digits-2", reason), ("digits-4", reason)]
    says(store, 3, VersionUnrejected(reason="mended", by="bob", rejection_seq=1))
    assert len(found(store, Run(told))) == 3


def test_the_newest_version_that_was_rejected_before_its_release(store: ModelStoreHook) -> None:
    """Nothing was ever started: what is not rejected starts."""
    land(store, 2)
    land(store, 3)
    says(store, 3, REJECTED)
    assert found(store) == [("digits-2", SWEEP)]


# --- after a rollback ---


@pytest.mark.parametrize(
    ("after_rollback", "starts"), [(None, False), ("wait", False), ("continue", True)], ids=str
)
def test_a_rolled_back_model_waits_for_a_person(
    store: ModelStoreHook, tmp_path: Path, after_rollback: str | None, starts: bool
) -> None:
    """Unless its release file says otherwise; the run says what waits and why, and another model goes on."""
    said = f"rollout: {{after_rollback: {after_rollback}}}\n" if after_rollback else ""
    (tmp_path / "digits.yaml").write_text(RELEASE_FILE + said)
    (tmp_path / "magika.yaml").touch()
    was_started(store, 2, ended=ends("rolled_back", *BACK))
    land(store, 3)
    land(store, 1, model="magika")
    run = Run()
    started = [each["conf"]["model"] for each in run.execute(store, releases_dir=str(tmp_path))]
    assert started == (["digits", "magika"] if starts else ["magika"])
    if not starts:
        (reason,) = run.set_aside
        assert "version 2 was rolled back" in reason
        assert "version 3" in reason


def test_an_unreadable_release_file_lets_nothing_go_on(store: ModelStoreHook, tmp_path: Path) -> None:
    """What it would say is not known."""
    was_started(store, 2, ended=ends("rolled_back", *BACK))
    land(store, 3)
    (tmp_path / "digits.yaml").write_text("model: [")
    assert Run().execute(store, releases_dir=str(tmp_path)) == []


@pytest.mark.parametrize(
    "since",
    [
        [ReleaseStarted(), Promoted(storage_uri="s3://b/models/digits/2")],
        [REJECTED, VersionUnrejected(reason="it was the data", by="bob", rejection_seq=9)],
    ],
    ids=["promoted since", "its rejection lifted since"],
)
def test_a_model_that_stands_well_again_goes_on(store: ModelStoreHook, since: list[EventData]) -> None:
    """A person has released the version again, or said that it was no fault of it."""
    was_started(store, 2, ended=ends("rolled_back", *BACK))
    says(store, 2, *since)
    land(store, 3)
    assert found(store) == [("digits-3", SWEEP)]


def test_a_refused_preview_was_no_rollback(store: ModelStoreHook) -> None:
    """A candidate that was shown to testers alone, and taken away, met no user: the next version starts by itself."""
    was_started(store, 2, ended=ends("refused", *BACK))
    land(store, 3)
    assert found(store) == [("digits-3", SWEEP)]


@pytest.mark.parametrize("content", [b"{", b"", b"x" * (5 << 20)], ids=["no JSON", "empty", "huge"])
def test_an_end_that_cannot_be_read_lets_nothing_go_on(store: ModelStoreHook, content: bytes) -> None:
    """The model is set aside with the reason; "could not be read" is not "was not rolled back"."""
    was_started(store, 2, ended=ends("refused", *BACK))
    store.write("records/digits/2/000004-release_finished.json", content)
    land(store, 3)
    run = Run()
    assert run.execute(store) == []
    assert len(run.set_aside) == 1


# --- a release that waited for its turn meanwhile ---


@pytest.fixture
def landed(store: ModelStoreHook, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModelStoreHook:
    """Version 2 was rolled back; version 3 has landed."""
    monkeypatch.setattr(facts, "observe_service", lambda hook: None)
    (tmp_path / "digits.yaml").write_text(RELEASE_FILE)
    was_started(store, 2, ended=ends("rolled_back", *BACK))
    for name in ("model.onnx", "golden.npz"):
        store.write(f"incoming/digits/3/{name}", b"content")
    store.write_json("incoming/digits/3/ready.json", {"model": "digits", "version": 3})
    return store


def admit(store: ModelStoreHook, releases: Path, who: str | None) -> None:
    """Ask for a release of version 3."""
    asked = context("digits-3", (), {**FORM, "version": 3})
    asked["dag_run"] = SimpleNamespace(triggering_user_name=who)
    AdmitReleaseOperator(task_id="admit", releases_dir=str(releases), bucket=store.bucket).execute(asked)


def test_nobodys_release_is_not_admitted_after_a_rollback(landed: ModelStoreHook, tmp_path: Path) -> None:
    """An event started it before the rollback, and it waited for the lock: it needs a person all the same."""
    with pytest.raises(AirflowFailException, match="version 2 was rolled back") as caught:
        admit(landed, tmp_path, None)
    assert cause(caught) is StartNeedsPersonError
    assert holder(landed) is None
    admit(landed, tmp_path, "bob")
    assert holder(landed) == "digits-3"


def test_a_file_that_goes_on_admits_it(landed: ModelStoreHook, tmp_path: Path) -> None:
    """With `continue` nobody is asked."""
    (tmp_path / "digits.yaml").write_text(RELEASE_FILE + "rollout: {after_rollback: continue}\n")
    admit(landed, tmp_path, None)
    assert holder(landed) == "digits-3"
