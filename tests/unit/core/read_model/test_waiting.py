"""Runs that were started and are in no record yet: what each waits for."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from slipway_core.read_model.waiting import WaitingRun, waiting_sentence, waits_for

NOW = datetime(2026, 11, 26, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("state", "admit", "note", "told"),
    [
        ("queued", "", "", "waiting for the scheduler"),
        ("running", "", "", "waiting for the scheduler"),
        ("running", "scheduled", "", "waiting for the scheduler"),
        ("running", "queued", "", "waiting for a worker"),
        ("running", "running", "", "being admitted"),
        ("running", "deferred", "digits 4: waits for release digits-3 (version 3)", "queued behind v3"),
        ("running", "deferred", "digits 4: waits. frozen by anna", "digits 4: waits. frozen by anna"),
        ("running", "deferred", "", "waiting until another release of the model ends"),
        ("running", "up_for_retry", "", "it will be retried soon"),
    ],
    ids=["queued", "begun", "scheduled", "worker", "running", "behind", "held", "no-note", "retry"],
)
def test_a_run_says_what_it_waits_for(state: str, admit: str, note: str, told: str) -> None:
    """By the states that Airflow has of it, and by its own note."""
    assert waits_for(state, admit, note, is_paused=False) == told


def test_a_paused_workflow_is_told_as_such() -> None:
    """Airflow's switch keeps every task from being scheduled; what has begun already goes on."""
    assert "paused in Airflow" in waits_for("queued", "", "", is_paused=True)
    assert waits_for("running", "running", "", is_paused=True) == "being admitted"


def test_a_sentence_says_for_how_long() -> None:
    """In seconds, then in minutes; a rollback is told as one."""
    run = WaitingRun(
        model="digits",
        version=4,
        run_id="digits-4",
        status="queued behind v3",
        since=NOW - timedelta(seconds=9),
    )
    assert waiting_sentence(run, NOW) == "v4: queued behind v3, for 9 s"
    back = run.model_copy(update={"is_rollback": True, "version": None, "since": NOW - timedelta(minutes=3)})
    assert waiting_sentence(back, NOW) == "roll back: queued behind v3, for 3 min"
