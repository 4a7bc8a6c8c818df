"""Which version was live when, as the records of all versions of a model tell it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise

from include.model_release.bucket_layout import parse_storage_uri
from include.model_release.errors import ForeignChangeError
from include.model_release.record.events import Event
from include.model_release.record.kinds import Promoted, ReleaseStarted, RolledBack


@dataclass(frozen=True)
class LiveHistory:
    """`live` is the version that has all users by the records, `before` the one that had them before it; None: none.

    `left_at` is when each version was last left by its users; the live one is not in it.
    """

    live: int | None
    before: int | None
    left_at: Mapping[int, datetime]


def live_history(model: str, events: Iterable[Event]) -> LiveHistory:
    """Return the history that the events of all of the model's versions tell.

    A promotion leads users to its version, a rollback to the one that it names; and each release notes which version
    it found live. What names another model's version, or none, tells nothing.

    :param events: of every version, in any order.
    """
    seen = sorted(
        ((event.at, event.seq, version) for event in events if (version := _live_by(model, event))),
        key=lambda one: one[:2],
    )
    left_at: dict[int, datetime] = {}
    before = None
    for (_, _, version), (at, _, successor) in pairwise(seen):
        if version != successor:
            left_at[version], before = at, version
    live = seen[-1][2] if seen else None
    return LiveHistory(live, before, {version: at for version, at in left_at.items() if version != live})


def _live_by(model: str, event: Event) -> int | None:
    """Return the version that is live by an event; None where it tells of none."""
    data = event.data
    if isinstance(data, Promoted):
        return event.version
    if isinstance(data, RolledBack | ReleaseStarted):
        return version_of(model, data.stable_storage_uri)
    return None


def version_of(model: str, storage_uri: str | None) -> int | None:
    """Return the version of the model that a storageUri names; None where it names none."""
    try:
        named, version = parse_storage_uri(storage_uri or "")
    except (ForeignChangeError, ValueError):
        return None
    return version if named == model else None
