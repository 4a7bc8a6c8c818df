"""Events that others may have written: late, wrong, or far away."""

from __future__ import annotations

import pytest

from slipway_core.record.events import (
    SEQ_LIMIT,
    Event,
    EventWriter,
    RecordError,
    parse_event_key,
)
from slipway_core.record.fold import fold
from slipway_core.record.kinds import (
    Approved,
    CandidateVerified,
    Promoted,
    ReleaseFinished,
    ReleaseStarted,
    RollbackStarted,
    RolledBack,
    StageFinished,
    WeightIntended,
)
from tests.support.record.releases import V2, V3, WRITER, at, rolled_back_release


def test_a_late_promotion_is_a_stray() -> None:
    """Once it was decided to go back, no task that comes late makes the release a promoted one."""
    for length in (13, 17, 19):  # rolling back, rolled back, finished
        events = rolled_back_release()[:length]
        late = WRITER.event(length + 1, at(50), Promoted(storage_uri=V3, manifest_sha256="ab"))
        state = fold([*events, late])
        assert (state.outcome, state.standing) == (fold(events).outcome, fold(events).standing)
        assert state.strays == 1


def test_after_the_end_nothing_is_proved_any_more() -> None:
    """Steps, approvals and intentions of a late task are strays: they belong to no attempt that is open."""
    events = [*rolled_back_release()]
    late = [
        WRITER.event(20, at(50), WeightIntended(weight=99, storage_uri=V3, stable_storage_uri=V2)),
        WRITER.event(21, at(51), Approved(before="promotion", by="alice", manifest_sha256="ab")),
        WRITER.event(22, at(52), CandidateVerified(manifest_sha256="ab")),
    ]
    before, after = fold(events), fold([*events, *late])
    assert (after.intended_weight, after.approvals, after.canary) == (
        before.intended_weight,
        (),
        before.canary,
    )
    assert (after.verified_sha256, after.strays) == ("", 3)


def test_a_step_that_begins_anew_proves_itself_anew() -> None:
    """A task that is run again from the first step takes nothing over from what later steps had shown."""
    events = rolled_back_release()[:8]
    again = WRITER.event(9, at(21), WeightIntended(weight=5, storage_uri=V3, stable_storage_uri=V2))
    assert [step.weight for step in fold(events).canary] == [5]
    assert fold([*events, again]).canary == ()


def test_a_preview_that_was_taken_away_is_not_a_rollback() -> None:
    """No user has met it: the outcome is that of the stage which ended the release."""
    events = [
        WRITER.event(1, at(0), ReleaseStarted(stable_storage_uri=V2)),
        WRITER.event(2, at(1), WeightIntended(weight=0, storage_uri=V3, stable_storage_uri=V2)),
        WRITER.event(3, at(2), StageFinished(stage="mirror", outcome="refused", reason="other answers")),
        WRITER.event(4, at(3), RollbackStarted(reason="other answers", by="judge", stable_storage_uri=V2)),
        WRITER.event(
            5, at(4), RolledBack(stable_storage_uri=V2, candidate_requests=None, candidate_errors=None)
        ),
        WRITER.event(6, at(5), ReleaseFinished(outcome="refused", refused_by="mirror")),
    ]
    state = fold(events)
    assert (state.outcome, state.refused_by, state.standing) == ("refused", "mirror", "")


def test_what_was_promoted_stays_known_over_later_attempts() -> None:
    """A version that is live is not forgotten for a second attempt that fails; one that was rolled back is."""
    other = EventWriter(release_id="digits-3-again", model="digits", version=3)
    events = [
        WRITER.event(1, at(0), ReleaseStarted()),
        WRITER.event(2, at(5), Promoted(storage_uri=V3, manifest_sha256="ab")),
        other.event(3, at(10), ReleaseStarted()),
        other.event(4, at(20), ReleaseFinished(outcome="failed")),
    ]
    state = fold(events)
    assert (state.outcome, state.standing, state.promoted_sha256) == ("failed", "promoted", "ab")
    back = other.event(
        4, at(20), RolledBack(stable_storage_uri=V2, candidate_requests=None, candidate_errors=None)
    )
    assert fold([*events[:3], back]).standing == "rolled_back"


@pytest.mark.parametrize(
    ("kind", "data"),
    [
        ("window_judged", {"first_bad_at": 3}),
        ("window_judged", {"first_bad_at": "9999-12-31T23:59:59-23:59"}),
        ("window_judged", {"candidate_requests": "many"}),
        ("weight_intended", {"weight": None}),
        ("weight_observed", {"weight": 10**4000}),
        ("weight_observed", {"weight": True}),
        ("step_finished", {"weight": 5, "seconds": float("nan")}),
        ("stage_finished", {"stage": ["validate"]}),
        ("release_started", {"required": {"weights": [5]}}),
        ("release_started", {"required": 7}),
        ("rolled_back", {"weight_0_at": {}}),
        ("promoted", {"storage_uri": 1}),
    ],
)
def test_an_event_that_cannot_be_right_is_named(kind: str, data: dict[str, object]) -> None:
    """A value of another type is an error of the record that names event and field, whatever the field."""
    began = WRITER.event(1, at(0), ReleaseStarted())
    attempt = "digits-3-again" if kind == "release_started" else "digits-3"
    document = {**began.to_document(), "seq": 2, "kind": kind, "release_id": attempt, "data": data}
    with pytest.raises(RecordError, match=rf"000002-{kind}\.json cannot be right: `{list(data)[-1]}`"):
        fold([began, Event.from_document(document)])


def test_a_number_far_away_costs_nothing() -> None:
    """One stray event with a huge number is a gap that is told in words, without counting up to it."""
    events = [WRITER.event(1, at(0), ReleaseStarted()), WRITER.event(SEQ_LIMIT, at(1), ReleaseStarted())]
    with pytest.raises(RecordError, match=f"no event 2 to {SEQ_LIMIT - 1}"):
        fold(events)
    with pytest.raises(RecordError, match="is not the key of an event"):
        parse_event_key(f"records/digits/3/{10**10}-release_started.json")


def test_a_time_beyond_the_calendar_is_told() -> None:
    """A time that cannot be said in UTC is an event that cannot be read, and no crash."""
    text = '{"seq":1,"at":"0001-01-01T00:00:00+23:59","kind":"x","release_id":"r","model":"m","version":1}'
    with pytest.raises(RecordError, match="is not an event of a release"):
        Event.from_bytes(text.encode())
