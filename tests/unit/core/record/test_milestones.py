"""What a run has made true of a version: which event proves it, and when it is no longer true."""

from __future__ import annotations

import pytest

from slipway_core.record.events import RecordError
from slipway_core.record.kinds import VersionRejected, VersionUnrejected
from slipway_core.record.milestones import milestones_of
from tests.support.record.attempts import (
    OTHER_RUN,
    RUN,
    Write,
    ended,
    finished,
    going_back,
    gone_back,
    promotion,
    record,
    recorded,
    started,
)

LIVE = (started(), promotion(), ended("promoted"))
BACK = (started(), going_back(), gone_back())


def rejected() -> Write:
    return lambda write, seq, at: write.event(seq, at, VersionRejected(reason="errors", stage="canary"))


def unrejected(rejection_seq: int) -> Write:
    said = VersionUnrejected(reason="fixed", by="bob", rejection_seq=rejection_seq)
    return lambda write, seq, at: write.event(seq, at, said)


def shown(*writes: tuple[str, Write], run: str = RUN) -> list[tuple[str, int, int | None]]:
    """Return the milestones of a run as kind, number of the event and version before."""
    return [(one.kind, one.seq, one.previous_version) for one in milestones_of(recorded(writes), run)]


def by(run: str, *writes: Write) -> list[tuple[str, Write]]:
    return [(run, write) for write in writes]


def test_a_promotion_is_proved_by_the_observed_traffic() -> None:
    """The event of the promotion counts, also before the release is concluded; a second copy is no second promotion."""
    assert shown(*by(RUN, *LIVE)) == [("live", 2, 2)]
    assert shown(*by(RUN, *LIVE[:2])) == [("live", 2, 2)]
    assert shown(*by(RUN, started(), promotion(), promotion())) == [("live", 2, 2)]


@pytest.mark.parametrize("outcome", ["refused", "failed", "cancelled", "promoted"])
def test_without_a_promotion_nothing_is_live(outcome: str) -> None:
    """Whatever the conclusion says: the traffic was never seen at the version."""
    assert shown(*by(RUN, started(), finished("validate"), ended(outcome))) == []


def test_a_rollback_and_a_rejection_are_two() -> None:
    """Each has its own event and number."""
    assert shown(*by(RUN, *BACK, rejected(), ended("rolled_back"))) == [
        ("rolled_back", 3, 2),
        ("rejected", 4, None),
    ]


def test_another_run_has_no_part_in_it() -> None:
    """What one run made true is not announced by a second one, and a run without events announces nothing."""
    assert shown(*by(RUN, *LIVE), run=OTHER_RUN) == []


def test_what_was_undone_since_is_not_announced() -> None:
    """A version whose users were taken back by a later run is not announced as live by the earlier one."""
    writes = [*by(RUN, *LIVE), *by(OTHER_RUN, *BACK)]
    assert shown(*writes) == []
    assert shown(*writes, run=OTHER_RUN) == [("rolled_back", 6, 2)]


def test_a_run_that_was_cleared_has_a_promotion_of_its_own() -> None:
    """The same run promotes again after it was cleared: that is another event, and before that there is none."""
    assert shown(*by(RUN, *LIVE, started())) == []
    assert shown(*by(RUN, *LIVE, started(), promotion())) == [("live", 5, 2)]


def test_a_rejection_that_was_lifted_is_not_announced() -> None:
    """Only while it stands; a run of its own may reject a version of which no release was ever started."""
    assert shown((RUN, rejected())) == [("rejected", 1, None)]
    assert shown((RUN, rejected()), (OTHER_RUN, unrejected(1))) == []


def test_a_record_with_a_gap_announces_nothing() -> None:
    """What is missing may be the rollback."""
    events = record(*LIVE)
    with pytest.raises(RecordError):
        milestones_of([events[0], events[2]], RUN)


def test_the_document_names_the_event() -> None:
    """What a DAG is given says which version, by which run, since when, and which event of the record says so."""
    (one,) = milestones_of(record(*LIVE), RUN)
    assert one.to_dict() == {
        "model": "digits",
        "version": 3,
        "release_id": RUN,
        "record_event": 2,
        "at": "2026-11-20T12:00:01+00:00",
        "previous_version": 2,
    }
