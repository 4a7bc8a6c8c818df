"""What a watch must not lose when its triggerer dies: the judge, the last reading, events not yet in the record."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from include.model_release.errors import TransientError
from include.model_release.samples import Reading
from slipway.hooks.store import ModelStoreHook

log = logging.getLogger(__name__)

Readings = Mapping[str, Reading]


@dataclass(frozen=True)
class WatchState:
    """Where a watch of one step stands.

    :param watch: which watch it is; another one's judge is not taken over.
    :param judge: the judge's state as JSON.
    :param elapsed_s: how long the step has been watched.
    :param events: for the record, not written there yet.
    :param readings: the reading that the next window begins with, by revision.
    """

    watch: str
    judge: str
    elapsed_s: float
    events: list[dict[str, Any]] = field(default_factory=list)
    readings: Readings | None = None

    def to_dict(self) -> dict[str, Any]:
        """A JSON-ready form."""
        readings = self.readings
        return {
            "watch": self.watch,
            "judge": self.judge,
            "elapsed_s": self.elapsed_s,
            "events": self.events,
            "readings": None
            if readings is None
            else {revision: reading.to_dict() for revision, reading in readings.items()},
        }

    @classmethod
    def from_dict(cls, value: Mapping[str, Any]) -> WatchState:
        """Rebuilds a state from `to_dict`'s form."""
        readings = value["readings"]
        return cls(
            watch=value["watch"],
            judge=value["judge"],
            elapsed_s=float(value["elapsed_s"]),
            events=list(value["events"]),
            readings=None
            if readings is None
            else {revision: Reading.from_dict(reading) for revision, reading in readings.items()},
        )


class CanaryJournal:
    """The state of a release's watch in the object store: one object, written over after each window.

    The record stays the truth; this only spares a restarted watch from beginning anew. So a store that is away
    holds nothing up: what cannot be saved is saved after the next window.

    :param key: the object's key.
    """

    def __init__(self, store: ModelStoreHook, key: str) -> None:
        self._store = store
        self._key = key

    def load(self) -> WatchState | None:
        """The state that was saved last; None where there is none, or it cannot be read."""
        try:
            value = self._store.read_json(self._key)
            return None if value is None else WatchState.from_dict(value)
        except (TransientError, KeyError, TypeError, ValueError) as error:
            log.warning("the canary's journal cannot be read, the step is watched anew: %s", error)
            return None

    def save(self, state: WatchState) -> None:
        """Saves the state, if the store can be reached."""
        try:
            self._store.write_json(self._key, state.to_dict())
        except TransientError as error:
            log.warning("the canary's journal cannot be written: %s", error)
