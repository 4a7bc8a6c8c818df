"""What a run has made true of a version, so that other workflows may start on it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from slipway_core.bucket_layout import parse_storage_uri
from slipway_core.record.events import Event
from slipway_core.record.fold import fold
from slipway_core.record.kinds import Promoted, ReleaseStarted, RolledBack, VersionRejected
from slipway_core.record.state import ReleaseState

MilestoneKind = Literal["live", "rolled_back", "rejected"]
_PROVES: dict[str, tuple[MilestoneKind, type[Promoted | RolledBack]]] = {
    "promoted": ("live", Promoted),
    "rolled_back": ("rolled_back", RolledBack),
}


@dataclass(frozen=True)
class Milestone:
    """The version is live, its users were taken back, or it was rejected: by event number `seq` of its record.

    `previous_version` is the one that users had before, and have again after a rollback; None: there is none, or it
    does not matter.
    """

    kind: MilestoneKind
    model: str
    version: int
    release_id: str
    seq: int
    at: datetime
    previous_version: int | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return it ready for JSON; `record_event` is the event's number, `at` a time in ISO 8601, UTC."""
        return {
            "model": self.model,
            "version": self.version,
            "release_id": self.release_id,
            "record_event": self.seq,
            "at": self.at.isoformat(),
            "previous_version": self.previous_version,
        }


def milestones_of(events: Sequence[Event], release_id: str) -> tuple[Milestone, ...]:
    """Return what a run has made true, by the version's record, and what is still true by all of it.

    What another run has undone since is left out: nobody shall start on a version that was taken back meanwhile.

    :param events: every event of the version.
    :param release_id: the run's id.
    :raises RecordError: the record cannot be right.
    :raises UserError: the version before has an address that Slipway never gave.
    """
    own = [event for event in events if event.release_id == release_id]
    if not own:
        return ()
    last = max(event.seq for event in own)
    now, then = fold(events), fold(event for event in events if event.seq <= last)
    reached = (_moved(own, then, now), _rejected(own, now))
    return tuple(milestone for milestone in reached if milestone is not None)


def _moved(own: Iterable[Event], then: ReleaseState, now: ReleaseState) -> Milestone | None:
    """Return where the run has led all users, if it has, and no later run has led them elsewhere."""
    if then.outcome not in _PROVES or now.standing != then.outcome:
        return None
    kind, proof = _PROVES[then.outcome]
    first: Event | None = None
    for event in sorted(own, key=lambda one: one.seq):
        if isinstance(event.data, ReleaseStarted):
            first = None
        elif isinstance(event.data, proof) and first is None:
            first = event
    if first is None or then.release_id != first.release_id:
        return None
    before = then.stable_storage_uri
    previous = parse_storage_uri(before)[1] if before else None
    return Milestone(kind, first.model, first.version, first.release_id, first.seq, first.at, previous)


def _rejected(own: Iterable[Event], now: ReleaseState) -> Milestone | None:
    """Return the rejection that the run has written, unless it was lifted."""
    for event in own:
        if isinstance(event.data, VersionRejected) and now.rejection and now.rejection.seq == event.seq:
            return Milestone("rejected", event.model, event.version, event.release_id, event.seq, event.at)
    return None
