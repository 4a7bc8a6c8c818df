"""What a watch must not lose when its triggerer dies: the judge, the last reading, events not yet in the record."""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from include.model_release.document_form import form_of
from include.model_release.errors import SlipwayError, TimedOutError
from include.model_release.metrics.samples import Reading
from include.model_release.record.events import PendingEvent
from slipway.blocking_calls import BlockingCalls
from slipway.hooks.s3_store import ModelStoreHook

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
    events: list[PendingEvent] = field(default_factory=list)
    readings: Readings | None = None

    def to_dict(self) -> dict[str, Any]:
        """A JSON-ready form."""
        readings = self.readings
        return {
            "watch": self.watch,
            "judge": self.judge,
            "elapsed_s": self.elapsed_s,
            "events": [event.to_document() for event in self.events],
            "readings": None
            if readings is None
            else {revision: reading.to_dict() for revision, reading in readings.items()},
        }

    @classmethod
    @form_of("the canary's journal")
    def from_dict(cls, value: Mapping[str, Any]) -> WatchState:
        """Rebuilds a state from `to_dict`'s form.

        :raises SlipwayError: the value is of another form.
        """
        readings, elapsed_s = value["readings"], float(value["elapsed_s"])
        if not (
            isinstance(value["watch"], str) and isinstance(value["judge"], str) and 0 <= elapsed_s < math.inf
        ):
            raise ValueError("the name of the watch, the judge's text or the time is none")
        return cls(
            watch=value["watch"],
            judge=value["judge"],
            elapsed_s=elapsed_s,
            events=[PendingEvent.from_document(event) for event in value["events"]],
            readings=None
            if readings is None
            else {revision: Reading.from_dict(reading) for revision, reading in readings.items()},
        )


class CanaryJournal:
    """The state of a release's watch in the object store: one object, written over after each window. It blocks.

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
        except SlipwayError as error:
            log.warning("the canary's journal cannot be read, the step is watched anew: %s", error)
            return None

    def save(self, state: WatchState) -> bool:
        """Saves the state; False: the store cannot be reached."""
        try:
            self._store.write_json(self._key, state.to_dict())
        except SlipwayError as error:
            log.warning("the canary's journal cannot be written: %s", error)
            return False
        return True


class JournalKeeper:
    """Saves beside the watch: one save at a time, of the newest state, and nobody waits for a store that hangs.

    :param limit_s: how long loading may take, and a save before it counts as one that hangs.
    """

    def __init__(self, journal: CanaryJournal, limit_s: float = 5.0) -> None:
        self._journal = journal
        self._calls = BlockingCalls("the object store", limit_s)
        self._newest: WatchState | None = None
        self._saving: asyncio.Task[None] | None = None
        self._hangs = False

    async def load(self) -> WatchState | None:
        """The state that was saved last; None where there is none, or the store does not give it in time."""
        try:
            return await self._calls.run(self._journal.load)
        except TimedOutError as error:
            log.warning("the canary's journal cannot be read, the step is watched anew: %s", error.in_short())
            return None

    def save(self, state: WatchState) -> None:
        """Has the state saved soon, instead of one that waits for it."""
        self._newest = state
        if self._saving is None or self._saving.done():
            self._saving = asyncio.create_task(self._save_newest())

    async def is_saved(self, limit_s: float) -> bool:
        """Whether the newest state is in the store, or gets there within the limit; a store that hangs is not waited
        for again.
        """
        if self._saving is not None and not self._hangs:
            await asyncio.wait({self._saving}, timeout=limit_s)
            self._hangs = not self._saving.done()
        return self._newest is None

    async def _save_newest(self) -> None:
        while (state := self._newest) is not None:
            try:
                saved = await self._calls.run(lambda: self._journal.save(state))
            except TimedOutError as error:
                log.warning("the canary's journal cannot be written: %s", error.in_short())
                saved, self._hangs = False, True
            else:
                self._hangs = False
            if not saved:
                return  # it is kept, and saved with the next window
            if self._newest is state:
                self._newest = None
