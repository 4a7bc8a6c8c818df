"""RejectVersionOperator against a real S3 protocol, and what its word does to admission and conclusion."""

from __future__ import annotations

import hashlib
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException

from slipway.hooks.s3_store import ModelStoreHook
from slipway.operators.admission import facts
from slipway.operators.admission.admit import AdmitReleaseOperator
from slipway.operators.operations.rejection import RejectVersionOperator
from slipway.release_run import ReleaseRun
from slipway_core.errors import VersionRejectedError
from slipway_core.record.kinds import (
    ReleaseStarted,
    RollbackStarted,
    StageFinished,
    StageStarted,
    VersionRejected,
    VersionUnrejected,
)
from slipway_core.record.state import Rejection
from tests.support.release.admission import (
    FORM,
    RELEASE_FILE,
    cause,
    conclude,
    context,
    holder,
    kinds,
    record,
)


@pytest.fixture
def releases(tmp_path: Path) -> Path:
    """A folder with the release file of `digits`."""
    (tmp_path / "digits.yaml").write_text(RELEASE_FILE)
    return tmp_path


@pytest.fixture
def landed(store: ModelStoreHook) -> ModelStoreHook:
    """A bucket in which training has left version 2."""
    for name in ("model.onnx", "golden.npz"):
        store.write(f"incoming/digits/2/{name}", b"content")
    store.write_json("incoming/digits/2/ready.json", {"model": "digits", "version": 2})
    return store


def say(store: ModelStoreHook, releases: Path, action: str, who: str | None = "bob", **params: Any) -> str:
    """Let a person reject version 2, or lift that."""
    asked = context(
        f"manual__{action}", params={**FORM, "action": action, "reason": "wrong answers", **params}
    )
    asked["dag_run"] = SimpleNamespace(triggering_user_name=who)
    operator = RejectVersionOperator(task_id="write", releases_dir=str(releases), bucket=store.bucket)
    return operator.execute(asked)


def admit(store: ModelStoreHook, releases: Path, monkeypatch: pytest.MonkeyPatch, **params: Any) -> Any:
    """Ask for a release of version 2."""
    monkeypatch.setattr(facts, "observe_service", lambda hook: None)
    operator = AdmitReleaseOperator(task_id="admit", releases_dir=str(releases), bucket=store.bucket)
    return ReleaseRun.parse(operator.execute(context("digits-2", (), {**FORM, **params})))


def rejection(store: ModelStoreHook) -> Rejection | None:
    """Return what the record says."""
    return record(store).state().rejection


@pytest.mark.parametrize("force", [False, True])
def test_a_rejected_version_is_not_released(
    landed: ModelStoreHook, releases: Path, monkeypatch: pytest.MonkeyPatch, force: bool
) -> None:
    """Neither with `force`; the message names who and why, and no lock is kept. Lifted, it is released."""
    say(landed, releases, "reject")
    with pytest.raises(AirflowFailException, match=r"rejected by bob on .*wrong answers.*unreject") as caught:
        admit(landed, releases, monkeypatch, force=force)
    assert cause(caught) is VersionRejectedError
    assert holder(landed) is None
    say(landed, releases, "unreject", who="carol")
    assert admit(landed, releases, monkeypatch, force=force).version == 2
    assert kinds(landed) == ["version_rejected", "version_unrejected", "release_started"]


def test_a_task_that_is_run_again_writes_once(landed: ModelStoreHook, releases: Path) -> None:
    """Rejected is rejected, lifted is lifted."""
    for _ in range(2):
        assert "is rejected" in say(landed, releases, "reject")
    for _ in range(2):
        assert "no longer rejected" in say(landed, releases, "unreject")
    assert kinds(landed) == ["version_rejected", "version_unrejected"]


def test_nobody_rejects_without_a_name(landed: ModelStoreHook, releases: Path) -> None:
    """A schedule, or another run, cannot."""
    with pytest.raises(AirflowFailException, match="it is unknown who"):
        say(landed, releases, "reject", who=None)
    assert landed.entries("records/") == []


def test_a_number_under_which_nothing_lies_is_refused(landed: ModelStoreHook, releases: Path) -> None:
    """A typing error does not reject what may come one day."""
    with pytest.raises(AirflowFailException, match="there is no version 22"):
        say(landed, releases, "reject", version=22)


def test_lifting_may_need_another_person(landed: ModelStoreHook, releases: Path) -> None:
    """Where the release file asks for two people."""
    (releases / "digits.yaml").write_text(RELEASE_FILE + "rollout: {approval: {by_other: true}}\n")
    say(landed, releases, "reject")
    with pytest.raises(AirflowFailException, match="a person other than"):
        say(landed, releases, "unreject", who="bob")
    assert rejection(landed) is not None
    say(landed, releases, "unreject", who="carol")
    assert rejection(landed) is None


def test_whose_release_was_refused_does_not_lift_it(
    landed: ModelStoreHook, releases: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A gate has refused it, and the release file asks for two people: alice started it, so another one must."""
    (releases / "digits.yaml").write_text(RELEASE_FILE + "rollout: {approval: {by_other: true}}\n")
    ours = record(landed)
    ours.append(ReleaseStarted(triggered_by="alice"))
    ours.append(StageFinished(stage="validate", outcome="refused", reason="too bad"))
    ours.append(VersionRejected(reason="too bad", stage="validate"))
    with pytest.raises(AirflowFailException, match="a release that alice started"):
        say(landed, releases, "unreject", who="alice")
    assert rejection(landed) is not None
    say(landed, releases, "unreject", who="carol")
    assert rejection(landed) is None


def test_the_record_keeps_what_was_in_front_of_the_person(landed: ModelStoreHook, releases: Path) -> None:
    """The page that was named, the newest event and the pages of the release, each with the digest of its bytes."""
    ours = record(landed)
    ours.append(ReleaseStarted(triggered_by="alice"))
    page = f"models/digits/2/evidence/{ours.release_id}/canary.html"
    for key in (page, f"models/digits/2/evidence/{ours.release_id}/release.json", "notes.html"):
        landed.write(key, key.encode())
    say(landed, releases, "reject", evidence=landed.uri("notes.html"))
    say(landed, releases, "unreject", who="carol")
    start, rejected, lifted = record(landed).events()
    first, second = rejected.data, lifted.data
    assert isinstance(first, VersionRejected)
    assert isinstance(second, VersionUnrejected)
    assert [one.address for one in first.shown] == [
        landed.uri(key) for key in ("notes.html", start.key, page)
    ]
    assert [one.address for one in second.shown] == [landed.uri(key) for key in (rejected.key, page)]
    for one in first.shown + second.shown:
        content = landed.read(one.address.removeprefix(landed.uri("")))
        assert content is not None
        assert hashlib.sha256(content).hexdigest() == one.sha256


@pytest.mark.parametrize(
    ("address", "words"),
    [
        ("nothing.html", "is missing"),
        ("s3://another/page.html", "is not in Slipway's bucket"),
        ("s3://", "is not in Slipway's bucket"),
    ],
)
def test_evidence_that_is_not_there_is_told(
    landed: ModelStoreHook, releases: Path, address: str, words: str
) -> None:
    """And nothing is written: a digest of nothing would prove nothing."""
    with pytest.raises(AirflowFailException, match=words):
        say(landed, releases, "reject", evidence=address)
    assert landed.entries("records/") == []


def test_a_rejection_in_the_middle_of_a_release_is_in_its_record(
    landed: ModelStoreHook, releases: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The release goes on to write its own events after it."""
    run = admit(landed, releases, monkeypatch)
    ours = record(landed)
    ours.append(StageStarted(stage="canary"))
    say(landed, releases, "reject")
    ours.append(StageFinished(stage="canary", outcome="passed"))
    assert sorted(kinds(landed)) == ["release_started", "stage_finished", "stage_started", "version_rejected"]
    state = ours.state()
    assert (state.rejection is not None, state.strays) == (True, 0)
    conclude(run)
    assert kinds(landed)[-1] == "release_finished"
    assert kinds(landed).count("version_rejected") == 1


def test_a_refused_release_rejects_its_version_once(
    landed: ModelStoreHook, releases: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before its last event, so that no kill comes between; a conclusion that is run again adds nothing."""
    run = admit(landed, releases, monkeypatch)
    record(landed).append(StageFinished(stage="validate", outcome="refused", reason="too bad"))
    conclude(run)
    conclude(run)
    assert kinds(landed)[-2:] == ["version_rejected", "release_finished"]
    written = [event.data for event in record(landed).events() if event.kind == "version_rejected"]
    assert written == [VersionRejected(reason="too bad", stage="validate")]


def test_a_failed_release_rejects_nothing(
    landed: ModelStoreHook, releases: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A task that died says nothing against the version."""
    run = admit(landed, releases, monkeypatch)
    record(landed).append(StageFinished(stage="stage", outcome="failed", reason="no memory"))
    conclude(run)
    assert rejection(landed) is None


def test_a_late_conclusion_rejects_nothing(
    landed: ModelStoreHook, releases: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The record is another release's by then."""
    run = admit(landed, releases, monkeypatch)
    later = record(landed, "later")
    later.append(ReleaseStarted())
    later.append(RollbackStarted(reason="errors", by="judge", stable_storage_uri=None))
    later.append(StageFinished(stage="canary", outcome="refused", reason="errors"))
    conclude(run)
    assert rejection(landed) is None
