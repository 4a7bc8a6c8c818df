from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slipway_core.record.events import (
    SEQ_LIMIT,
    Event,
    EventWriter,
    RecordError,
    event_key,
    parse_event_key,
)
from slipway_core.record.fold import fold
from slipway_core.record.kinds import (
    Promoted,
    ReleaseFinished,
    ReleaseStarted,
    StageFinished,
    StageStarted,
    UnknownEvent,
)
from slipway_core.record.state import release_report
from tests.support.record.releases import START, V2, V3, WRITER, at, rolled_back_release


def test_a_rolled_back_release_reports_what_users_met() -> None:
    """Bad answers until weight 0 was seen, and the time from the first of them, come from the final counters
    and times.
    """
    state = fold(rolled_back_release())
    assert state.outcome == "rolled_back"
    assert state.bad_requests_before_rollback == 11
    assert state.seconds_from_first_bad_answer_to_weight_0 == 3.5
    assert state.stable_storage_uri == V2
    assert state.weight == 0
    assert release_report(state) == {
        "model": "digits",
        "version": 3,
        "outcome": "rolled_back",
        "refused_by": "canary",
        "reason": "errors",
        "seconds": 32.0,
        "stages": [
            {"name": "convert", "outcome": "passed", "seconds": 10.0},
            {"name": "canary", "outcome": "refused", "seconds": 19.0},
        ],
        "canary": {
            "steps": [
                {
                    "weight": 5,
                    "verdict": "pass",
                    "candidate_requests": 60,
                    "candidate_errors": 0,
                    "seconds": 6.0,
                },
                {
                    "weight": 50,
                    "verdict": "fail",
                    "candidate_requests": 31,
                    "candidate_errors": 9,
                    "seconds": 3.0,
                },
            ],
            "bad_requests_before_rollback": 11,
            "seconds_from_first_bad_answer_to_weight_0": 3.5,
        },
    }


def test_a_promoted_release_is_promoted_and_has_no_rollback_figures() -> None:
    """Promotion decides the outcome; figures of a rollback are null."""
    events = [
        WRITER.event(1, at(0), ReleaseStarted()),
        WRITER.event(2, at(5), Promoted(storage_uri=V3)),
        WRITER.event(3, at(6), ReleaseFinished(outcome="promoted")),
    ]
    report = release_report(fold(events))
    assert report["outcome"] == "promoted"
    assert report["refused_by"] is None
    assert report["canary"]["bad_requests_before_rollback"] is None


def test_a_refused_release_names_the_stage_that_refused() -> None:
    """The stage whose gate refused, and its reason, are what the report says."""
    events = [
        WRITER.event(1, at(0), ReleaseStarted()),
        WRITER.event(2, at(1), StageStarted(stage="stage")),
        WRITER.event(3, at(4), StageFinished(stage="stage", outcome="refused", reason="does not load")),
        WRITER.event(4, at(5), ReleaseFinished(outcome="refused")),
    ]
    state = fold(events)
    assert (state.outcome, state.refused_by, state.reason) == ("refused", "stage", "does not load")


def test_another_release_id_begins_a_new_attempt() -> None:
    """The newest attempt counts; the older one is only counted, and its late events change nothing."""
    other = EventWriter(release_id="digits-3-again", model="digits", version=3)
    events = [
        WRITER.event(1, at(0), ReleaseStarted()),
        WRITER.event(2, at(1), ReleaseFinished(outcome="failed", reason="S3 was away")),
        other.event(3, at(10), ReleaseStarted()),
        WRITER.event(
            4, at(11), StageFinished(stage="publish", outcome="failed", reason="a task of the old run")
        ),
        other.event(5, at(20), Promoted(storage_uri=V3)),
    ]
    state = fold(events)
    assert (state.attempts, state.release_id, state.outcome) == (2, "digits-3-again", "promoted")
    assert (state.reason, state.stages, state.strays) == (None, (), 1)
    assert state.seconds == 10.0


def test_a_task_that_ran_again_does_not_begin_a_new_attempt() -> None:
    """The same release id while the attempt is open is the same attempt, with its first start."""
    events = [
        WRITER.event(1, at(0), ReleaseStarted()),
        WRITER.event(2, at(1), StageStarted(stage="convert")),
        WRITER.event(3, at(5), ReleaseStarted()),
        WRITER.event(4, at(6), StageStarted(stage="convert")),
        WRITER.event(5, at(9), StageFinished(stage="convert", outcome="passed")),
    ]
    state = fold(events)
    assert state.attempts == 1
    assert [(stage.name, stage.seconds) for stage in state.stages] == [("convert", 8.0)]
    assert (state.outcome, state.next_seq) == ("open", 6)


def test_the_same_release_id_after_the_end_is_a_new_attempt() -> None:
    """A run that was cleared and started again keeps its id, but begins anew."""
    events = [
        WRITER.event(1, at(0), ReleaseStarted()),
        WRITER.event(2, at(1), ReleaseFinished(outcome="cancelled")),
        WRITER.event(3, at(9), ReleaseStarted()),
    ]
    state = fold(events)
    assert (state.attempts, state.outcome, state.started_at) == (2, "open", at(9))


def test_a_missing_event_is_noticed() -> None:
    """A gap in the numbers means that the record was not read whole: an error that names the number."""
    events = rolled_back_release()
    with pytest.raises(RecordError, match="no event 7"):
        fold(events[:6] + events[7:])


def test_an_empty_record_is_an_error() -> None:
    """No events at all is not a release in some state."""
    with pytest.raises(RecordError, match="empty"):
        fold([])


def test_two_events_with_one_name_and_other_content_are_an_error() -> None:
    """The store writes each key once; two contents mean that something else wrote."""
    one = WRITER.event(1, at(0), ReleaseStarted())
    with pytest.raises(RecordError, match="number 1"):
        fold([one, WRITER.event(1, at(3), ReleaseStarted())])


def test_events_of_two_versions_are_not_folded_together() -> None:
    """Mixing records of versions is the caller's mistake and is told."""
    other = EventWriter("digits-2", "digits", 2).event(2, at(1), ReleaseFinished(outcome="promoted"))
    with pytest.raises(RecordError, match="several versions"):
        fold([WRITER.event(1, at(0), ReleaseStarted()), other])


def test_unknown_kinds_count_but_mean_nothing() -> None:
    """An event of a newer Slipway keeps its number and changes nothing."""
    events = rolled_back_release()
    news = WRITER.event(20, at(40), UnknownEvent("mirrored", {}))
    assert release_report(fold([*events, news])) == release_report(fold(events))


@given(st.data())
def test_order_and_copies_of_events_do_not_matter(data: st.DataObject) -> None:
    """However the store lists them and however often, the same events fold to the same state."""
    events = rolled_back_release()
    copies = data.draw(st.lists(st.sampled_from(events), max_size=10))
    shuffled: Sequence[Event] = data.draw(st.permutations([*events, *copies]))
    assert fold(shuffled) == fold(events)


@given(st.integers(1, 19))
def test_every_beginning_of_a_record_folds(length: int) -> None:
    """A release may die after any event; what was written until then is a valid state, open until traffic was
    settled.
    """
    state = fold(rolled_back_release()[:length])
    assert state.last_seq == length
    assert (state.outcome == "rolled_back") == (length >= 17)
    assert state.rolling_back == (13 <= length < 17)


@given(st.sampled_from(rolled_back_release()))
def test_events_survive_their_bytes(event: Event) -> None:
    """What is written is what is read."""
    assert Event.from_bytes(event.to_bytes()) == event


def test_times_become_utc() -> None:
    """A time in another zone is stored as UTC; one without a zone is refused."""
    text = '{"seq":1,"at":"2026-11-20T13:00:00+01:00","kind":"x","release_id":"r","model":"m","version":1}'
    assert Event.from_bytes(text.encode()).at == START
    with pytest.raises(RecordError, match=r"records/m/1/000001-x\.json"):
        Event.from_bytes(text.replace("+01:00", "").encode(), source="records/m/1/000001-x.json")


@given(
    st.from_regex(r"[a-z0-9]([-a-z0-9]{0,20}[a-z0-9])?", fullmatch=True),
    st.integers(1, 2**63 - 1),
    st.integers(1, SEQ_LIMIT),
    st.sampled_from(["release_started", "window_judged"]),
)
def test_keys_survive_parsing_and_sort_by_number(model: str, version: int, seq: int, kind: str) -> None:
    """A key says which event it is of, and the names of the first million events sort as they happened."""
    assert parse_event_key(event_key(model, version, seq, kind)) == (model, version, seq, kind)
    assert event_key(model, version, 9, kind) < event_key(model, version, 10, kind)


@pytest.mark.parametrize(
    "key", ["records/m/1/1-x.json", "models/m/1/000001-x.json", "records/m/0/000001-x.json", ""]
)
def test_other_keys_are_told(key: str) -> None:
    """What is no event's key is an error that says what one looks like."""
    with pytest.raises(RecordError, match="SEQ-EVENT"):
        parse_event_key(key)
