"""The note of a run."""

from __future__ import annotations

import pytest

from slipway_core.operations.run_notes import (
    NOTE_LIMIT,
    merged,
    note_of,
    outcome_text,
    own_words,
    release_note,
    started_text,
)
from slipway_core.record.events import Outcome
from slipway_core.record.state import ReleaseState


def test_a_note_begins_with_what_it_is_about() -> None:
    """Model and version, then one sentence, then the page."""
    assert release_note("digits", 2, started_text("alice", "a better recall")) == (
        "digits 2: release started by alice: a better recall"
    )
    assert release_note("digits", 2, started_text(None, None), "https://airflow/slipway/x") == (
        "digits 2: release started by an upload [Page](https://airflow/slipway/x)"
    )


def test_a_long_or_broken_reason_is_one_short_line() -> None:
    """Whoever wrote it; the link is whole."""
    note = note_of("digits 2", "line\n\n  another line " + "x" * 5000, "https://airflow/slipway/x")
    assert note.startswith("digits 2: line another line xxx")
    assert note.endswith("… [Page](https://airflow/slipway/x)")
    assert len(note) == 700
    assert "\n" not in note


@pytest.mark.parametrize(
    ("outcome", "refused_by", "reason", "told"),
    [
        ("refused", "validate", "Too many wrong answers.", "refused by validate. Too many wrong answers."),
        ("promoted", None, "ignored", "promoted."),
        ("rolled_back", None, "More errors than stable.", "rolled back. More errors than stable."),
        ("failed", None, None, "failed."),
    ],
)
def test_an_outcome_is_told_with_its_reason(
    outcome: Outcome, refused_by: str | None, reason: str | None, told: str
) -> None:
    """Who refused it, and why it ended so."""
    state = ReleaseState("digits", 2, "digits-2", outcome=outcome, refused_by=refused_by, reason=reason)
    assert outcome_text(state) == told


def test_the_next_note_about_the_same_takes_the_place_of_the_last_one() -> None:
    """One sentence on where the run stands, not a history."""
    note = merged(merged(None, "digits 2: release started"), "digits 2: promoted.")
    assert note == "digits 2: promoted."


def test_what_a_person_wrote_stays() -> None:
    """Before or after ours, in paragraphs of its own."""
    before = "digits 2: release started\n\nCalled Bob about this.\n\ndigits 3: is next"
    assert (
        merged(before, "digits 2: promoted.")
        == "digits 2: promoted.\n\nCalled Bob about this.\n\ndigits 3: is next"
    )
    assert merged("my own note", "digits 2: promoted.") == "digits 2: promoted.\n\nmy own note"


@pytest.mark.parametrize("length", [0, 900, 970, 999, NOTE_LIMIT])
def test_a_note_never_outgrows_its_place(length: int) -> None:
    """A person's words are never cut; ours are shortened, or left out."""
    person, own = "p" * length, "digits 2: refused by validate. " + "x" * 500
    note = merged(person, own)
    assert len(note) <= NOTE_LIMIT
    assert note.endswith(person)


def test_a_terminal_is_told_what_the_run_itself_says() -> None:
    """Neither a link, which a terminal does not follow, nor the reason that the person has just typed."""
    note = (
        "digits 2: paused at 20 % [Page](https://airflow.example.com/slipway/models/digits)\n\nlook at errors"
    )
    assert own_words(note, "look at errors") == "digits 2: paused at 20 %"
    assert own_words("look at errors", "look at errors") == ""
