"""The first run that deletes in a bucket: one person starts it, another one agrees, to the plan that was shown."""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime
from typing import Any

import pytest
from airflow.providers.standard.operators import hitl
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException, TaskAwaitingInput

from slipway.operators.operations.gc import read_approval
from slipway_core.operations.layout import GC_APPROVAL_KEY
from tests.support.release.retention_run import GcRun


@pytest.fixture(autouse=True)
def asked(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """What people are asked, in place of Airflow's API."""
    questions: list[dict[str, Any]] = []
    monkeypatch.setattr(hitl, "upsert_hitl_detail", lambda **question: questions.append(question))
    return questions


def answer(run: GcRun, option: str, by: str | None) -> None:
    event = {
        "chosen_options": [option],
        "params_input": {"comment": "looked at the page"},
        "responded_at": datetime.now(UTC),
        "responded_by_user": None if by is None else {"id": "7", "name": by},
    }
    run.approval().execute_complete(run.context, event)


def test_another_person_agrees_to_the_plan(gc_run: GcRun, asked: list[dict[str, Any]]) -> None:
    """The question shows the page; the agreement, with the digest of page and plan, lies in the bucket."""
    gc_run.plan()
    with pytest.raises(TaskAwaitingInput):
        gc_run.approval().execute(gc_run.context)
    assert gc_run.shown["page"] in asked[0]["body"]
    assert "2 versions" in asked[0]["body"]
    answer(gc_run, "Approve", "bob")
    given = read_approval(gc_run.store)
    assert given is not None
    assert (given.started_by, given.approved_by, given.plan_sha256, given.comment) == (
        "alice",
        "bob",
        gc_run.shown["plan_sha256"],
        "looked at the page",
    )
    assert {outcome for outcome, _ in gc_run.delete().values()} == {"deleted"}
    gc_run.show_result()
    for one, name in zip(given.shown, ("plan.html", "plan.json"), strict=True):
        content = gc_run.store.read(f"operations/gc/gc-1/{name}") or b""
        assert one.address == gc_run.store.uri(f"operations/gc/gc-1/{name}")
        assert one.sha256 == hashlib.sha256(content).hexdigest()
    audit = gc_run.store.read_json("operations/audit/digits/2/gc-1-deletion-begun.json")
    assert (audit["by"], audit["approved_by"]) == ("alice", "bob")


@pytest.mark.parametrize("by", ["alice", None])
def test_who_started_the_run_cannot_agree(by: str | None, gc_run: GcRun) -> None:
    """The question is open again; nor can somebody unknown. And without an agreement nothing is deleted."""
    gc_run.plan()
    with pytest.raises(TaskAwaitingInput):
        answer(gc_run, "Approve", by)
    assert read_approval(gc_run.store) is None
    with pytest.raises(AirflowFailException, match="has no approval"):
        gc_run.delete()


def test_a_rejection_deletes_nothing(gc_run: GcRun) -> None:
    """Anybody's."""
    gc_run.plan()
    with pytest.raises(AirflowFailException, match=r"^alice declined the deletion: looked at the page"):
        answer(gc_run, "Reject", "alice")
    assert read_approval(gc_run.store) is None


def test_the_schedule_does_not_begin_with_deleting(gc_run: GcRun, asked: list[dict[str, Any]]) -> None:
    """The first run that deletes is a person's."""
    gc_run.started_by = None
    gc_run.plan()
    with pytest.raises(AirflowFailException, match="a person must start the first run"):
        gc_run.approval().execute(gc_run.context)
    assert asked == []


def test_nothing_to_delete_asks_nobody(gc_run: GcRun, asked: list[dict[str, Any]]) -> None:
    """What comes after is skipped."""
    for version in (1, 2):
        gc_run.store.write(f"operations/pins/digits/{version}.json", b"{}")
    gc_run.plan()
    with pytest.raises(AirflowSkipException, match="nothing is to be deleted"):
        gc_run.approval().execute(gc_run.context)
    assert asked == []


def test_an_agreement_that_cannot_be_read_is_none(gc_run: GcRun) -> None:
    """It neither lets a run pass nor is it asked for again: a person looks at it first."""
    gc_run.store.write(GC_APPROVAL_KEY, b"{}")
    gc_run.plan()
    with pytest.raises(AirflowFailException, match="is not a valid agreement of a person"):
        gc_run.approval().execute(gc_run.context)
    with pytest.raises(AirflowFailException, match="is not a valid agreement of a person"):
        gc_run.delete()
