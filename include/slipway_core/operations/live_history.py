"""Which version was live when, as the records of all versions of a model tell it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise

from slipway_core.bucket_layout import parse_storage_uri
from slipway_core.errors import ForeignChangeError
from slipway_core.record.events import Event
from slipway_core.record.kinds import Promoted, ReleaseStarted, RolledBack


@dataclass(frozen=True, order=True)
class LiveSeen:
    """By event number `seq` of some record, `version` had all users at a time."""

    at: datetime
    seq: int
    version: int


@dataclass(frozen=True)
class LiveHistory:
    """`live` is the version that has all users by the records, `before` the one that had them before it; None: none.

    `left_at` is when each version was last left by its users; the live one is not in it. `since` is when the live one
    was first seen to have them, this time; None: there is none.
    """

    live: int | None
    before: int | None
    left_at: Mapping[int, datetime]
    since: datetime | None = None


def live_history(model: str, events: Iterable[Event]) -> LiveHistory:
    """Return the history that the events of all of the model's versions tell.

    A promotion leads users to its version, a rollback to the one that it names; and each release notes which version
    it found live. What names another model's version, or none, says nothing.

    :param events: of every version, in any order.
    """
    return history_of(live_seen(model, events))


def live_seen(model: str, events: Iterable[Event]) -> list[LiveSeen]:
    """Return what events tell of who had all users, in the order of the events."""
    return [
        LiveSeen(event.at, event.seq, version)
        for event in events
        if (version := _live_by(model, event)) is not None
    ]


def history_of(seen: Iterable[LiveSeen]) -> LiveHistory:
    """Return the history that the events of all of the model's versions tell, by what `live_seen` found in them.

    :param seen: in any order.
    """
    ordered = sorted(seen)
    left_at: dict[int, datetime] = {}
    since, before = ordered[0].at if ordered else None, None
    for one, successor in pairwise(ordered):
        if one.version != successor.version:
            left_at[one.version], before, since = successor.at, one.version, successor.at
    live = ordered[-1].version if ordered else None
    left_at = {version: at for version, at in left_at.items() if version != live}
    return LiveHistory(live, before, left_at, since)


def _live_by(model: str, event: Event) -> int | None:
    """Return the version that is live by an event; None if it tells of none."""
    data = event.data
    if isinstance(data, Promoted):
        return event.version
    if isinstance(data, RolledBack):
        return version_of(model, data.stable_storage_uri)
    if isinstance(data, ReleaseStarted) and not is_way_back(data):
        return version_of(model, data.stable_storage_uri)
    return None


def is_way_back(started: ReleaseStarted) -> bool:
    """Return whether a person's rollback of the version begins: what it names is where it leads, not what is live.

    A release to a version has steps where something is live; a rollback has none.
    """
    return bool(started.stable_storage_uri) and started.required is not None and not started.required.weights


def version_of(model: str, storage_uri: str | None) -> int | None:
    """Return the version of the model that a storageUri names; None if it names none."""
    try:
        named, version = parse_storage_uri(storage_uri or "")
    except (ForeignChangeError, ValueError):
        return None
    return version if named == model else None
