"""What the run's note is told when a release begins, does not begin, and ends; and that nothing depends on it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException

from slipway.hooks.s3_store import ModelStoreHook
from slipway.operators.admission.admit import AdmitReleaseOperator
from slipway.operators.conclude import ConcludeReleaseOperator
from slipway.release_run import ReleaseRun
from slipway_core.record.kinds import StageFinished
from tests.support.release.admission import FORM, Admit, context, holder, record

PAGE = "[Page](https://airflow.example.com/slipway/models/digits/versions/2)"


@pytest.fixture(autouse=True)
def base_url(monkeypatch: pytest.MonkeyPatch) -> None:
    """Airflow's address."""
    monkeypatch.setenv("AIRFLOW__API__BASE_URL", "https://airflow.example.com")


def listening(notes: list[str], **given: Any) -> Any:
    """Return a task's context in which what it tells is kept; other XComs are none of a note."""
    made = context("digits-2", ("digits-2",), {**FORM, **given})
    made["ti"].xcom_push = lambda key, value: notes.append(value) if key == "run_note" else None
    return made


def admitting(releases: Path, store: ModelStoreHook) -> AdmitReleaseOperator:
    return AdmitReleaseOperator(task_id="admit", releases_dir=str(releases), bucket=store.bucket)


def test_a_release_that_begins_says_who_started_it(
    landed: ModelStoreHook, admit: Admit, releases: Path
) -> None:
    """And why; a task that is run again tells nothing new."""
    notes: list[str] = []
    for _ in range(2):
        admitting(releases, landed).execute(listening(notes, reason="a better recall"))
    assert notes == [f"digits 2: release started by alice: a better recall {PAGE}"]


def test_a_release_that_does_not_begin_says_why(landed: ModelStoreHook, admit: Admit, releases: Path) -> None:
    """Nobody concludes it, so the admission itself tells."""
    notes: list[str] = []
    with pytest.raises(AirflowFailException):
        admitting(releases, landed).execute(listening(notes, version=3))
    (note,) = notes
    assert note.startswith("digits 3: not started: s3://")
    assert "/incoming/digits/3/ready.json is missing." in note


def test_a_release_that_ends_says_how(landed: ModelStoreHook, admit: Admit) -> None:
    """The outcome, which gate refused it, and why."""
    release_run = admit()
    record(landed).append(
        StageFinished(stage="validate", outcome="refused", reason="Too many wrong answers.")
    )
    notes: list[str] = []
    operator = ConcludeReleaseOperator(task_id="conclude", release=release_run.model_dump_json())
    with pytest.raises(AirflowFailException):
        operator.execute(listening(notes))
    assert notes == [f"digits 2: refused by validate. Too many wrong answers. {PAGE}"]


def test_a_release_that_a_person_stopped_says_why(landed: ModelStoreHook, admit: Admit) -> None:
    """In the words that the person gave with the abort; the record keeps them."""
    release_run, notes = admit(), list[str]()
    stopped = listening(notes)
    stopped["ti"].xcom_pull = lambda task_ids, key: {("admit", "stop_reason"): "wrong data set"}[
        task_ids, key
    ]
    operator = ConcludeReleaseOperator(task_id="conclude", release=release_run.model_dump_json())
    with pytest.raises(AirflowFailException):
        operator.execute(stopped)
    why = "the run was stopped before the release had ended: wrong data set"
    assert notes == [f"digits 2: cancelled. {why} {PAGE}"]
    assert record(landed).state().reason == why


def test_nothing_depends_on_whether_anybody_hears_it(
    landed: ModelStoreHook, admit: Admit, releases: Path
) -> None:
    """An API server that refuses the note stops neither the admission nor the conclusion."""

    def refuse(_key: str, _value: object) -> None:
        raise RuntimeError("503 Service Unavailable")

    deaf = listening([])
    deaf["ti"].xcom_push = refuse
    release_run = ReleaseRun.parse(admitting(releases, landed).execute(deaf))
    assert holder(landed) == "digits-2"
    operator = ConcludeReleaseOperator(task_id="conclude", release=release_run.model_dump_json())
    with pytest.raises(AirflowFailException, match="cancelled"):
        operator.execute(deaf)
    assert holder(landed) is None
    assert record(landed).state().outcome == "cancelled"
