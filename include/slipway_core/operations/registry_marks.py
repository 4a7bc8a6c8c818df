"""What the registry shall say of versions: the aliases `live` and `previous`, and tags; and what to change for that."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Literal

from slipway_core.operations.live_history import version_of
from slipway_core.record.state import ReleaseState
from slipway_core.rollout.observation import STABLE_URI, Observed
from slipway_core.spec.registry import LIVE_ALIAS, PREVIOUS_ALIAS

PREFIX = "slipway."
ARRIVAL_TAG = f"{PREFIX}arrival"
"""`arrived`, or `refused: ` and why."""
EVENTS_TAG = f"{PREFIX}record_events"
"""How many events the record had when the other tags were written."""

_TEXT_LIMIT = 500
_ARRIVED = "arrived"

Keep = Literal["keep"]
KEEP: Keep = "keep"


@dataclass(frozen=True)
class Change:
    """An alias, or a tag, to be set to `value`; None: to be taken away."""

    key: str
    value: str | None


@dataclass(frozen=True)
class Served:
    """Which versions the cluster has: with all users, and before that; None: none. `keep`: unknown now."""

    live: int | Keep | None
    previous: int | Keep | None


def served_versions(model: str, observed: Observed | None) -> Served:
    """Return what an InferenceService tells; `previous` is the version that `model_rollback` leads to by itself."""
    if observed is None:
        return Served(None, None)
    if observed.unreadable or observed.deleting:
        return Served(KEEP, KEEP)
    stable = version_of(model, observed.stable_uri)
    if observed.canary_percent is not None:
        return Served(stable if stable is not None else KEEP, KEEP)
    noted = observed.annotation(STABLE_URI)
    before = None if noted == observed.storage_uri else version_of(model, noted)
    return Served(stable, before)


def alias_changes(
    aliases: Mapping[str, int], served: Served, known: Collection[int], standing: str
) -> list[Change]:
    """Return the changes after which `live` and `previous` say what is so.

    :param aliases: as they are.
    :param known: the versions that the registry has: an alias leads to no other.
    :param standing: what the record says of the live version; only a promoted one is called live.
    """
    live = served.live
    if isinstance(live, int) and standing != "promoted":
        live = None
    wanted = {LIVE_ALIAS: live, PREVIOUS_ALIAS: served.previous}
    changes = []
    for alias, version in wanted.items():
        if version == KEEP:
            continue
        target = version if version in known else None
        if aliases.get(alias) != target:
            changes.append(Change(alias, None if target is None else str(target)))
    return changes


def record_tags(state: ReleaseState, record_uri: str, events: int) -> dict[str, str | None]:
    """Return what the tags of a version shall say of its releases; None: the tag shall not be there.

    :param record_uri: where the record lies.
    :param events: the number of the record's last event.
    """
    begun = state.started_at is not None
    rejected = None if state.rejection is None else state.rejection.sentence[:_TEXT_LIMIT]
    return {
        f"{PREFIX}outcome": state.outcome if begun else None,
        f"{PREFIX}release": state.release_id if begun else None,
        f"{PREFIX}record": record_uri,
        f"{PREFIX}manifest_sha256": state.promoted_sha256 or state.verified_sha256 or None,
        f"{PREFIX}rejected": rejected,
        EVENTS_TAG: str(events),
    }


def arrival_tags(problem: str | None) -> dict[str, str | None]:
    """Return what the tags of a version shall say of its arrival.

    :param problem: why it cannot be brought in; None: it has arrived.
    """
    return {ARRIVAL_TAG: _ARRIVED if problem is None else f"refused: {problem}"[:_TEXT_LIMIT]}


def tag_changes(tags: Mapping[str, str], wanted: Mapping[str, str | None]) -> list[Change]:
    """Return the changes after which the tags say what is wanted; the number of events comes last."""
    changes = [Change(key, value) for key, value in wanted.items() if tags.get(key) != value]
    return sorted(changes, key=lambda change: change.key == EVENTS_TAG)
