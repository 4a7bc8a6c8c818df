"""The steps of a release and its log: where it is, what is ahead, and one sentence for every event."""

from __future__ import annotations

import pytest

from slipway_core.read_model.event_sentences import sentence_of
from slipway_core.read_model.release_view import LOG_LIMIT, WINDOWS_LOGGED, release_view
from slipway_core.record.events import Event
from slipway_core.record.kinds import (
    KINDS,
    Approved,
    CandidateVerified,
    EventData,
    HoldOverridden,
    Promoted,
    RaiseHeld,
    ReleaseFinished,
    ReleaseStarted,
    RollbackPhase,
    RollbackStarted,
    RolledBack,
    StageFinished,
    StageStarted,
    StepFinished,
    UnknownEvent,
    VersionRejected,
    VersionUnrejected,
    WeightIntended,
    WeightObserved,
    WindowJudged,
)
from tests.support.read_model.histories import at, begun, promoted, record_of, rolled_back, step_of, uri

SAID: list[EventData] = [
    ReleaseStarted(triggered_by="ada", reason="a better one"),
    StageStarted(stage="validate"),
    StageFinished(stage="validate", outcome="refused", reason="too many wrong answers"),
    Approved(before="canary", by="grace", manifest_sha256="0" * 64),
    CandidateVerified(manifest_sha256="0" * 64),
    WeightIntended(weight=5, storage_uri=uri("digits", 3), stable_storage_uri=uri("digits", 1)),
    WeightObserved(weight=5, traffic={}),
    WindowJudged(
        verdict={"status": "pass", "reason": "all is well"},
        candidate_requests=1200,
        candidate_errors=0,
        first_bad_at=None,
    ),
    StepFinished(weight=5, verdict="pass", reason="", candidate_requests=1, candidate_errors=0, seconds=61.0),
    RollbackStarted(reason="errors", by="judge", stable_storage_uri=None),
    RollbackPhase(phase="shield", detail="percent 0"),
    RolledBack(stable_storage_uri=uri("digits", 1), candidate_requests=None, candidate_errors=None),
    Promoted(storage_uri=uri("digits", 3)),
    ReleaseFinished(outcome="promoted"),
    VersionRejected(reason="errors", stage="canary"),
    VersionUnrejected(reason="a false alarm", by="grace", rejection_seq=1),
    RaiseHeld(weight=50, hold="every model is frozen", until=at(0)),
    HoldOverridden(by="grace", reason="it is urgent", hold="a freeze", hold_sha256="0" * 64),
    UnknownEvent("of_later", {}),
]


def states(said: list[EventData]) -> list[tuple[str, int | None, str]]:
    """Return the steps of a release that has said this."""
    return [(one.name, one.weight, one.state) for one in release_view(record_of("digits", 3, said)).steps]


@pytest.mark.parametrize("data", SAID, ids=lambda data: data.kind)
def test_every_kind_of_event_has_a_sentence(data: EventData) -> None:
    """One line, which begins with a capital or a name and ends with a full stop."""
    line = sentence_of(Event(1, at(0), "digits-3", "digits", 3, data))
    assert line.endswith(".")
    assert not line.endswith("..")
    assert "None" not in line
    assert len(line) > 20


def test_a_stage_is_called_as_on_the_pages() -> None:
    """Not by its name in the record."""
    line = sentence_of(Event(1, at(0), "digits-3", "digits", 3, StageStarted(stage="smoke_test")))
    assert line == "The stage smoke test began."


def test_no_kind_is_left_out() -> None:
    """A new kind needs a sentence of its own."""
    assert {data.kind for data in SAID} == {*KINDS, "of_later"}


def test_a_release_under_way_shows_where_it_is() -> None:
    """What is over, what is here, what is ahead; a stage before one that has begun was skipped."""
    said = [
        *begun("digits", 3, 1),
        *step_of("digits", 3, 1, 5, "pass"),
        *step_of("digits", 3, 1, 50, "pass")[:2],
    ]
    assert states(said) == [
        ("convert", None, "skipped"),
        ("publish", None, "skipped"),
        ("stage", None, "skipped"),
        ("validate", None, "done"),
        ("benchmark", None, "done"),
        ("canary", 5, "done"),
        ("canary", 50, "here"),
        ("promote", None, "ahead"),
    ]


def test_a_release_that_is_over_has_nothing_ahead() -> None:
    """What never began was skipped, and the step that failed is the one that failed."""
    assert {state for _, _, state in states(promoted("digits", 3, 1))} == {"done", "skipped"}
    ended = states(rolled_back("digits", 3, 1))
    assert ("canary", 5, "failed") in ended
    assert ("canary", 50, "skipped") in ended


def test_a_step_that_is_begun_anew_is_here_again() -> None:
    """A task that was run again proves its step anew, and those after it."""
    steps = [one for weight in (5, 50) for one in step_of("digits", 3, 1, weight, "pass")]
    again = step_of("digits", 3, 1, 5, "pass")[:1]
    found = states([*begun("digits", 3, 1), *steps, *again])
    assert [one for one in found if one[0] == "canary"] == [("canary", 5, "here"), ("canary", 50, "ahead")]


def test_a_long_canary_has_a_log_that_people_can_read() -> None:
    """Of thousands of windows the newest are told; everything else stays, up to a limit."""
    window = SAID[7]
    view = release_view(record_of("digits", 3, [*begun("digits", 3, 1), *[window] * 3000, SAID[5]]))
    kinds = [line.kind for line in view.log]
    assert kinds.count("window_judged") == WINDOWS_LOGGED
    assert kinds[0] == "release_started"
    assert view.log_is_cut
    many = release_view(record_of("digits", 3, [SAID[0], *[SAID[1]] * (LOG_LIMIT + 5)]))
    assert len(many.log) == LOG_LIMIT
    assert not release_view(record_of("digits", 3, begun("digits", 3, 1))).log_is_cut
