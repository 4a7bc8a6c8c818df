"""Rejected versions: what rejects one, what that forbids, and who may lift it."""

from __future__ import annotations

import json
from datetime import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slipway_core.errors import InputMissingError, UserError, VersionRejectedError
from slipway_core.operations.rejection import rejected_by, rejection_due, unrejected_by
from slipway_core.permission.admission import require_not_rejected, restore_refusal
from slipway_core.permission.raise_permission import Raise, raise_refusal
from slipway_core.record.events import Event, EventWriter
from slipway_core.record.fold import fold
from slipway_core.record.kinds import (
    RollbackStarted,
    VersionRejected,
    VersionUnrejected,
    parse_event_data,
)
from slipway_core.record.shown import Shown
from tests.support.record.attempts import (
    DIGEST,
    GOOD,
    RUN,
    WEIGHTS,
    Write,
    ended,
    finished,
    going_back,
    gone_back,
    intended,
    promotion,
    record,
    recorded,
    started,
)

PERSON_RUN = "manual__1"


def rejected(reason: str = "wrong answers", by: str | None = "bob") -> Write:
    return lambda write, seq, at: write.event(seq, at, VersionRejected(reason=reason, by=by))


def unrejected(rejection_seq: int, by: str = "carol") -> Write:
    return lambda write, seq, at: write.event(
        seq, at, VersionUnrejected(reason="it was the data", by=by, rejection_seq=rejection_seq)
    )


def back_by(who: str) -> Write:
    def write(writer: EventWriter, seq: int, at: datetime) -> Event:
        return writer.event(seq, at, RollbackStarted(reason="why", by=who, stable_storage_uri=None))

    return write


# --- the fold ---


def test_a_rejection_by_another_run_counts_at_any_time() -> None:
    """Before the first release, in the middle of one and after its end, whoever wrote it."""
    before = recorded([(PERSON_RUN, rejected()), *((RUN, write) for write in GOOD)])
    middle = recorded([*((RUN, write) for write in GOOD), (PERSON_RUN, rejected())])
    after = recorded([(RUN, started()), (RUN, ended("failed")), (PERSON_RUN, rejected())])
    for events in (before, middle, after):
        state = fold(events)
        assert state.rejection is not None
        assert state.rejection.by == "bob"
        assert state.strays == 0
    assert fold(before).release_id == RUN
    assert fold(before).attempts == 1
    assert fold(middle).outcome == "open"


def test_a_new_attempt_does_not_forget_it() -> None:
    """A rejection is the version's, not the attempt's."""
    state = fold(record(started(), ended("failed"), rejected(), started()))
    assert state.attempts == 2
    assert state.rejection is not None


def test_only_what_was_seen_is_lifted() -> None:
    """A rejection that came after the one which a person looked at stays."""
    assert fold(record(started(), rejected(), unrejected(2))).rejection is None
    later = fold(record(started(), rejected(), rejected("worse"), unrejected(2)))
    assert later.rejection is not None
    assert later.rejection.reason == "worse"


@given(st.lists(st.booleans(), max_size=12))
def test_the_last_word_counts(words: list[bool]) -> None:
    """Rejected and lifted in any order, the state is that of the last event that changed it."""
    writes: list[Write] = [started()]
    rejection_seq = 0
    for word in words:
        if word:
            rejection_seq = len(writes) + 1
        writes.append(rejected() if word else unrejected(rejection_seq))
    expected = bool(words) and words[-1]
    assert (fold(record(*writes)).rejection is not None) is expected


# --- what it forbids ---


def test_admission_says_who_when_why_and_what_to_do() -> None:
    """The message of the refusal needs no second look."""
    require_not_rejected(None)
    require_not_rejected(fold(record(started())))
    with pytest.raises(VersionRejectedError) as caught:
        require_not_rejected(fold(record(started(), rejected())))
    for word in ("bob", "2026-11-20 at 12:00:01 UTC", "wrong answers", "unreject"):
        assert word in str(caught.value)


@pytest.mark.parametrize("weight", WEIGHTS)
def test_no_weight_is_raised_after_it(weight: int) -> None:
    """Rejected in the middle of its release, a version with every proof gets no further users; lifted, it does."""
    refusal = raise_refusal(Raise(RUN, weight, DIGEST), fold(record(*GOOD, rejected())))
    assert "rejected by bob" in str(refusal)
    lifted = fold(record(*GOOD, rejected(), unrejected(len(GOOD) + 1)))
    assert raise_refusal(Raise(RUN, weight, DIGEST), lifted) is None


def test_users_are_led_away_from_a_rejected_version() -> None:
    """A rollback proves itself in the record of the version that is left; that one's rejection is no obstacle."""
    state = fold(record(*GOOD, rejected()))
    assert raise_refusal(Raise(RUN, 100, DIGEST, version=2), state) is None
    assert raise_refusal(Raise(RUN, 100, DIGEST, version=3), state) is not None


def test_nobody_is_led_back_to_a_rejected_version() -> None:
    """Promoted once is not enough where somebody rejected it since."""
    events = record(*GOOD, promotion(), ended("promoted"), rejected())
    assert "rejected by bob" in str(restore_refusal(fold(events), manifest_sha256=DIGEST))


# --- what a release rejects by itself ---


def test_a_gates_refusal_rejects() -> None:
    """With the stage that refused, and its reason."""
    state = fold(record(started(), finished("validate", "refused"), ended("refused")))
    assert rejection_due(state, who="alice") == VersionRejected(reason="why", stage="validate")


@pytest.mark.parametrize(
    ("who", "is_rejected"),
    [("judge", True), ("a person", True), ("guard", False), ("task failure", False), ("cancellation", False)],
)
def test_whose_rollback_rejects(who: str, is_rejected: bool) -> None:
    """The judge's and a person's; a lost lease, a dead task and a stopped run say nothing against the version."""
    state = fold(record(*GOOD[:6], back_by(who), finished("canary", "refused"), gone_back()))
    due = rejection_due(state, who="alice")
    assert (due is not None) is is_rejected
    if who == "a person":
        assert due == VersionRejected(reason="why", by="alice", stage="rollback")


@pytest.mark.parametrize("outcome", ["failed", "cancelled", "promoted"])
def test_no_other_end_rejects(outcome: str) -> None:
    """A release that failed says nothing against its version."""
    assert rejection_due(fold(record(started(), ended(outcome))), who="alice") is None


def test_it_rejects_once() -> None:
    """A conclusion that is run again, and a version that a person rejected before, need no second word."""
    events = record(*GOOD[:6], rejected(), going_back(), intended(5), gone_back())
    assert rejection_due(fold(events), who="alice") is None


# --- who may ---


def test_only_a_known_person_rejects_or_lifts() -> None:
    """A schedule has no name to put under it."""
    assert rejected_by("bob", "why") == VersionRejected(reason="why", by="bob")
    state = fold(record(started(), rejected()))
    for call in (
        lambda: rejected_by(None, "why"),
        lambda: unrejected_by("", "why", state, by_other=False),
    ):
        with pytest.raises(UserError, match="it is unknown who"):
            call()


def test_lifting_needs_another_person_where_the_file_says_so() -> None:
    """Who rejected it may lift it, unless two people are asked for; then neither may whose release was rejected."""
    state = fold(record(started(), rejected()))
    assert unrejected_by("bob", "why", state, by_other=False).rejection_seq == 2
    with pytest.raises(UserError, match="a person other than"):
        unrejected_by("bob", "why", state, by_other=True)
    assert unrejected_by("carol", "why", state, by_other=True).by == "carol"
    by_stage = fold(record(started(), rejected(by=None)))
    assert unrejected_by("bob", "why", by_stage, by_other=True).by == "bob"
    with pytest.raises(UserError, match=r"alice may not lift .*a release that alice started, rejected by"):
        unrejected_by("alice", "why", by_stage, by_other=True)
    assert unrejected_by("alice", "why", by_stage, by_other=False).by == "alice"


def test_who_started_the_promoted_release_does_not_lift_its_rollback() -> None:
    """Somebody else rolled it back, in a run of their own; after a new release it is that one's matter."""
    back: tuple[tuple[str, Write], ...] = (
        (PERSON_RUN, started(by="dora")),
        (PERSON_RUN, back_by("a person")),
        (PERSON_RUN, gone_back()),
        (PERSON_RUN, rejected(by="dora")),
    )
    state = fold(recorded([*((RUN, write) for write in (*GOOD, promotion(), ended("promoted"))), *back]))
    assert state.rejection is not None
    assert set(state.rejection.released_by) == {"alice", "dora"}
    for who in ("alice", "dora"):
        with pytest.raises(UserError, match="a person other than"):
            unrejected_by(who, "why", state, by_other=True)
    assert unrejected_by("carol", "why", state, by_other=True).by == "carol"


def test_who_lifts_a_rejection_says_what_was_in_front_of_them() -> None:
    """Address and digest are in the event, and read back as they were written."""
    shown = (Shown(address="s3://models/records/digits/3/000002-version_rejected.json", sha256="a" * 64),)
    state = fold(record(started(), rejected()))
    event = unrejected_by("carol", "why", state, by_other=True, shown=shown)
    assert parse_event_data(event.kind, json.loads(json.dumps(event.to_document()))) == event
    assert "shown" not in unrejected_by("carol", "why", state, by_other=True).to_document()


def test_there_must_be_something_to_lift() -> None:
    """A version without a record, and one that is not rejected."""
    for state in (None, fold(record(started()))):
        with pytest.raises(InputMissingError):
            unrejected_by("bob", "why", state, by_other=False)
