"""The record of a release in the object store: append-only, each event a conditional write."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from include.model_release.record import Event, EventWriter, ReleaseState, fold, parse_event_key
from slipway.hooks.store import ModelStoreHook


class ReleaseRecord:
    """The record of one version, written by one release.

    :param release_id: the Airflow run id; every event that is appended carries it.
    """

    def __init__(self, store: ModelStoreHook, model: str, version: int, release_id: str) -> None:
        self._store = store
        self._prefix = f"records/{model}/{version}/"
        self._writer = EventWriter(release_id, model, version)
        self._next_seq: int | None = None

    def events(self) -> list[Event]:
        """Every event of the version, in order; those of earlier releases of it too."""
        remedy = "the record is append-only: restore the event"
        keys = [entry.key for entry in self._store.entries(self._prefix)]
        return [Event.from_bytes(self._store.require(key, remedy=remedy), key) for key in keys]

    def started(self) -> bool:
        """Whether any release of this version was ever started."""
        return bool(self._store.entries(self._prefix))

    def state(self) -> ReleaseState:
        """What the events amount to.

        :raises RecordError: there are none, or one is missing.
        """
        return fold(self.events())

    def append(self, kind: str, *, at: datetime | None = None, **data: Any) -> Event:
        """Adds an event after the last one; if another writer takes the place, after that.

        :param kind: one of `include.model_release.record.KINDS`; `EventWriter` says what data each takes.
        :param at: when it happened, UTC; now unless given.
        """
        build: Callable[..., Event] = getattr(self._writer, kind)
        seq = self._next_seq or self._seq_after_last()
        while True:
            event = build(seq, at or datetime.now(UTC), **data)
            if self._store.write_once(event.key, event.to_bytes()):
                self._next_seq = seq + 1
                return event
            seq = self._seq_after_last()

    def _seq_after_last(self) -> int:
        """One after the last event; the model's lock keeps other releases of it from writing between."""
        taken = [parse_event_key(entry.key)[2] for entry in self._store.entries(self._prefix)]
        return max(taken, default=0) + 1
