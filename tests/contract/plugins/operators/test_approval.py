"""A person's word: whose it is, what it is about, and that it stands in the record."""

from __future__ import annotations

from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.providers.standard.operators import hitl
from airflow.sdk.exceptions import AirflowFailException, TaskAwaitingInput

from slipway.hooks.s3_store import ModelStoreHook
from slipway.operators.approval import ApproveReleaseOperator
from slipway.registry.registry import ModelRegistry
from slipway.release_run import ReleaseRun, StableVersion
from slipway_core.record.kinds import CandidateVerified, StageFinished
from slipway_core.record.state import ReleaseState
from slipway_core.spec.release_file import parse_release_spec
from tests.support.notifications.outbox import facts, notices_in, notify_of_everything
from tests.support.release.proofs import admitted, record_of

FILE = "model: digits\nsource: {format: onnx}\nrollout: {approval: {before_canary: true, by_other: true}}\n"
DIGEST = "d" * 64


@pytest.fixture
def release_run(store: ModelStoreHook) -> ReleaseRun:
    """A release that alice has started, and that another person must agree to."""
    release_run = ReleaseRun(
        release_id="digits-3",
        model="digits",
        version=3,
        bucket=store.bucket,
        spec=parse_release_spec(FILE, "digits.yaml"),
        stable=StableVersion(version=2, storage_uri=ModelRegistry(store).storage_uri("digits", 2)),
    )
    admitted(store, release_run, triggered_by="alice")
    record_of(store, release_run).append(CandidateVerified(manifest_sha256=DIGEST))
    return release_run


@pytest.fixture(autouse=True)
def asked(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """What people are asked, in place of Airflow's API."""
    questions: list[dict[str, Any]] = []
    monkeypatch.setattr(hitl, "upsert_hitl_detail", lambda **question: questions.append(question))
    return questions


CONTEXT: Any = {"task_instance": SimpleNamespace(id="1")}


def operator(release_run: ReleaseRun, before: Any = "canary") -> ApproveReleaseOperator:
    return ApproveReleaseOperator(task_id="approve", before=before, release=release_run.model_dump_json())


def answered(release_run: ReleaseRun, option: str, by: str | None, comment: str = "") -> None:
    """A person answers in the UI."""
    event = {
        "chosen_options": [option],
        "params_input": {"comment": comment},
        "responded_at": datetime.now(UTC),
        "responded_by_user": None if by is None else {"id": "7", "name": by},
    }
    operator(release_run).execute_complete(CONTEXT, event)


def state(store: ModelStoreHook, release_run: ReleaseRun) -> ReleaseState:
    return record_of(store, release_run).state()


def test_an_agreement_is_in_the_record(release_run: ReleaseRun, store: ModelStoreHook) -> None:
    """Who, why, and to which bytes."""
    answered(release_run, "Approve", "bob", "looked at the report")
    given = state(store, release_run).approvals
    assert [(one.before, one.by, one.manifest_sha256) for one in given] == [("canary", "bob", DIGEST)]
    approved = next(event for event in record_of(store, release_run).events() if event.kind == "approved")
    assert approved.data.reason == "looked at the report"


@pytest.mark.parametrize("by", ["alice", None])
def test_who_started_the_run_cannot_agree(
    by: str | None, release_run: ReleaseRun, store: ModelStoreHook, asked: list[dict[str, Any]]
) -> None:
    """The answer counts for nothing and the question is open again; so it is for an answer of nobody known."""
    with pytest.raises(TaskAwaitingInput):
        answered(release_run, "Approve", by)
    assert len(asked) == 1
    assert state(store, release_run).approvals == ()
    answered(release_run, "Approve", "bob")
    assert [one.by for one in state(store, release_run).approvals] == ["bob"]


def test_what_an_event_has_started_needs_two_people(
    release_run: ReleaseRun, store: ModelStoreHook, asked: list[dict[str, Any]]
) -> None:
    """The first agreement stands in the record and the question stays open; the same person again is no second one."""
    by_event = release_run.model_copy(update={"release_id": "digits-3-event"})
    admitted(store, by_event, triggered_by=None)
    record_of(store, by_event).append(CandidateVerified(manifest_sha256=DIGEST))
    for by in ("bob", "Bob "):
        with pytest.raises(TaskAwaitingInput):
            answered(by_event, "Approve", by)
    assert len(asked) == 2
    answered(by_event, "Approve", "carol")
    assert {one.by for one in state(store, by_event).approvals} == {"bob", "Bob ", "carol"}


def test_a_rejection_says_whose_it_is(release_run: ReleaseRun, store: ModelStoreHook) -> None:
    """Also of the person who started the run: to stop needs no second one."""
    with pytest.raises(
        AirflowFailException, match=r"^alice declined version 3 of 'digits' before the canary: wrong labels\."
    ):
        answered(release_run, "Reject", "alice", "wrong labels")
    found = state(store, release_run)
    assert (found.refused_by, found.approvals) == ("approve", ())
    ended = record_of(store, release_run).events()[-1].data
    assert isinstance(ended, StageFinished)
    assert (ended.stage, ended.by) == ("approve", "alice")


def test_nobody_is_asked_what_the_record_does_not_ask_for(
    release_run: ReleaseRun, asked: list[dict[str, Any]]
) -> None:
    """Before the promotion this release asks nobody; before the canary it does."""
    assert operator(release_run, "promotion").execute(CONTEXT) is None
    assert asked == []
    with pytest.raises(TaskAwaitingInput):
        operator(release_run).execute(CONTEXT)
    assert list(asked[0]["params"]) == ["comment"]


def test_people_are_told_that_one_is_asked(
    release_run: ReleaseRun, store: ModelStoreHook, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is asked, and that it must be another person; who is asked nothing is told nothing."""
    notify_of_everything(monkeypatch)
    operator(release_run, "promotion").execute(CONTEXT)
    with pytest.raises(TaskAwaitingInput):
        operator(release_run).execute(CONTEXT)
    (notice,) = notices_in(store)
    assert (notice.event, notice.version) == ("waiting_for_approval", 3)
    assert facts(notice) == {
        "asked before": "the canary",
        "started by": "alice",
        "who may answer": "another person than that",
    }
