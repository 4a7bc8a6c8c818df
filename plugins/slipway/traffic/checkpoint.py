"""What a watch must not lose when its triggerer dies: the judge, the last reading, events not yet in the record.

The journal decides: its events go into the record, its judge says whether a step has passed. So it lies where no pod
may write, names the watch that it belongs to, and is refused whole where it says what no such watch says. Then the
step begins anew, with a judge that has seen nothing.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from slipway.blocking_calls import BlockingCalls
from slipway.hooks.s3_store import ModelStoreHook
from slipway_core.documents.document_form import format_errors
from slipway_core.errors import SlipwayError, TimedOutError, UserError
from slipway_core.metrics.samples import Reading
from slipway_core.record.events import PendingEvent
from slipway_core.record.kinds import (
    RollbackStarted,
    StepFinished,
    WeightObserved,
    WindowJudged,
)

log = logging.getLogger(__name__)

_FOUND_LIMIT = 200
Readings = Mapping[str, Reading]

# What a watch tells the record. Everything else is others' to say: an approval, a promotion, a rejection.
EVENTS_OF_A_WATCH = (WeightObserved, WindowJudged, StepFinished, RollbackStarted)
# More than a watch saves while the store is away for an hour.
JOURNAL_LIMIT_BYTES = 32 << 20
# By how much the clocks of two triggerers may differ.
CLOCKS_DIFFER = timedelta(minutes=5)


class JournalRefusedError(UserError):
    """What lies in the place of a watch's journal is not that watch's."""


@dataclass(frozen=True)
class WatchOwner:
    """Whose watch it is: one step of one release run, by one try of one of its tasks."""

    release_id: str
    model: str
    version: int
    stage: str
    attempt: int
    step: int

    def is_same_release(self, other: WatchOwner) -> bool:
        """Return whether both are of one release run, whose watches follow each other."""
        mine, its = (
            (self.release_id, self.model, self.version),
            (other.release_id, other.model, other.version),
        )
        return mine == its


@dataclass(frozen=True)
class WatchState:
    """Where a watch of one step stands.

    :param watch: which watch it is; another one's judge is not taken over.
    :param judge: the judge's state as JSON.
    :param elapsed_s: how long the step has been watched.
    :param events: for the record, not written there yet.
    :param readings: the reading that the next window begins with, by revision.
    :param owner: whose watch it is; None: nobody says so.
    """

    watch: str
    judge: str
    elapsed_s: float
    events: list[PendingEvent] = field(default_factory=list)
    readings: Readings | None = None
    owner: WatchOwner | None = None

    def to_dict(self) -> dict[str, Any]:
        """A JSON-ready form."""
        readings = self.readings
        return {
            **({} if self.owner is None else {"owner": asdict(self.owner)}),
            "watch": self.watch,
            "judge": self.judge,
            "elapsed_s": self.elapsed_s,
            "events": [event.to_document() for event in self.events],
            "readings": None
            if readings is None
            else {revision: reading.to_dict() for revision, reading in readings.items()},
        }

    @classmethod
    @format_errors("the canary's journal")
    def from_dict(cls, value: Mapping[str, Any]) -> WatchState:
        """Rebuilds a state from `to_dict`'s form.

        :raises SlipwayError: the value is of another form, or says what no watch says.
        """
        owner, events = value.get("owner"), [PendingEvent.from_document(one) for one in value["events"]]
        _require_events_of_a_watch(events)
        readings, elapsed_s = value["readings"], float(value["elapsed_s"])
        if not (
            isinstance(value["watch"], str) and isinstance(value["judge"], str) and 0 <= elapsed_s < math.inf
        ):
            raise ValueError("the name of the watch, the judge's text or the time is invalid")
        return cls(
            watch=value["watch"],
            judge=value["judge"],
            elapsed_s=elapsed_s,
            events=events,
            owner=None if owner is None else WatchOwner(**owner),
            readings=None
            if readings is None
            else {revision: Reading.from_dict(reading) for revision, reading in readings.items()},
        )


def _require_events_of_a_watch(events: Sequence[PendingEvent]) -> None:
    """Refuse events that a watch does not save.

    The end of a step is saved only with the rollback that follows it: only the worker hears that it has passed.

    :raises JournalRefusedError: one is of another kind, says that a step has passed, or is dated in the future.
    """
    strange = [event.kind for event in events if not isinstance(event.data, EVENTS_OF_A_WATCH)]
    if strange:
        raise _refused("events of a watch", strange[0])
    kinds = {type(event.data) for event in events}
    if StepFinished in kinds and RollbackStarted not in kinds:
        raise _refused("a step that is not over", "the end of a step")
    latest = datetime.now(UTC) + CLOCKS_DIFFER
    if any(event.at > latest for event in events):
        raise _refused("past events", f"one of {max(event.at for event in events).isoformat()}")


def _refused(expected: str, found: str) -> JournalRefusedError:
    return JournalRefusedError(
        "the canary's journal belongs to another watch",
        expected=expected,
        found=found[:_FOUND_LIMIT],
        remedy="find out what else writes below records/; only Slipway should. The step's watch starts again",
    )


class CanaryJournal:
    """The state of a release's watch in the object store: one object, written over after each window. It blocks.

    The record stays the truth; this only spares a restarted watch from beginning anew. So a store that is away
    holds nothing up: what cannot be saved is saved after the next window.

    :param key: the object's key.
    :param owner: whose watch this is: it is saved with the state, and the state of another release is refused. None:
        whoever's.
    """

    def __init__(self, store: ModelStoreHook, key: str, owner: WatchOwner | None = None) -> None:
        self._store = store
        self._key = key
        self._owner = owner

    def load(self) -> WatchState | None:
        """The state that was saved last; None where there is none, it cannot be read, or it is refused."""
        try:
            return self._read()
        except SlipwayError as error:
            log.warning("the canary's journal cannot be read, the step's watch starts again: %s", error)
            return None

    def _read(self) -> WatchState | None:
        value = self._store.read_json(self._key, most_bytes=JOURNAL_LIMIT_BYTES)
        if value is None:
            return None
        state, own = WatchState.from_dict(value), self._owner
        if own is None or state.owner == own:
            return state
        if state.owner is None or not own.is_same_release(state.owner):
            raise _refused(f"that of {own}", f"that of {state.owner or 'nobody'}")
        # Another step's, stage's or try's: of that the last reading is of use, and nothing else.
        return WatchState("", state.judge, 0.0, readings=state.readings, owner=state.owner)

    def save(self, state: WatchState) -> bool:
        """Saves the state; False: the store cannot be reached."""
        try:
            self._store.write_json(self._key, replace(state, owner=self._owner).to_dict())
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
            log.warning(
                "the canary's journal cannot be read, the step's watch starts again: %s", error.in_short()
            )
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
