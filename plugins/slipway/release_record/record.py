"""The record of a release in the object store: append-only, each event a conditional write."""

from __future__ import annotations

import random
import time
from datetime import UTC, datetime, timedelta

from slipway.airflow_stats import AIRFLOW_STATS
from slipway.hooks.s3_store import ModelStoreHook
from slipway.release_record.record_reader import EVENT_LIMIT_BYTES, RecordReader
from slipway_core.errors import StoreUnavailableError, UserError
from slipway_core.monitoring.moments import measurements_of
from slipway_core.record.events import Event, EventWriter, RecordError
from slipway_core.record.fold import fold
from slipway_core.record.kinds import EventData, WindowJudged
from slipway_core.record.segment import block_of, numbers_of
from slipway_core.record.state import ReleaseState

# Each attempt that fails is another writer's success; more than so many in a row is no crowd of tasks.
_ATTEMPTS = 100
_LONGEST_PAUSE_S = 0.05
_CLOCKS_DIFFER = timedelta(hours=1)


class ReleaseRecord:
    """The record of one version, written by one release. It keeps what it has read.

    :param release_id: the Airflow run id; every event that is appended carries it.
    """

    def __init__(self, store: ModelStoreHook, model: str, version: int, release_id: str) -> None:
        self._store = store
        self._reader = RecordReader(store, model, version)
        self._writer = EventWriter(release_id, model, version)
        self._next_seq: int | None = None

    @property
    def release_id(self) -> str:
        """The Airflow run id under which events are appended."""
        return self._writer.release_id

    def events(self) -> list[Event]:
        """Return every event of the version, in order; those of its earlier releases too.

        :raises RecordError: one cannot be read or is not what its key says, or they are too large.
        """
        return self._reader.events()

    def started(self) -> bool:
        """Return whether any release of this version was ever started."""
        return self._reader.started()

    def state(self) -> ReleaseState:
        """Return the state that the events fold to.

        :raises RecordError: there are none, or one is missing or cannot be right.
        """
        return fold(self.events())

    def require_own(self, started: datetime | None) -> None:
        """Refuse a run id under which an earlier run has written: what it left would be taken for this one's.

        :param started: when Airflow made this run; None: not known. A run that is cleared keeps that time.
        :raises UserError: there is one.
        """
        before = [one for one in self.events() if one.release_id == self.release_id] if started else []
        if started and before and before[0].at < started - _CLOCKS_DIFFER:
            raise UserError(
                f"the run id {self.release_id!r} was used before",
                expected="a separate run ID for each release of a version",
                found=f"events of it in the record from {before[0].at:%Y-%m-%d} on, which Airflow no longer has",
                remedy="start it with another run ID (in the form: Advanced Options)",
            )

    def append(self, data: EventData, *, at: datetime | None = None) -> Event:
        """Add an event after the last one; if another writer takes the place, after that.

        :param data: what it says.
        :param at: when it happened, UTC; now unless given.
        :returns: the event as it was written.
        :raises RecordError: the event is too large to be read again.
        :raises StoreUnavailableError: the place was taken again and again.
        """
        # The model's lock keeps other releases of it from writing between.
        seq = self._next_seq or self._reader.last_seq() + 1
        for _ in range(_ATTEMPTS):
            event = self._writer.event(seq, at or datetime.now(UTC), data)
            if self._store.write_once(event.key, _content(event)):
                self._next_seq = seq + 1
                self._close_block(event)
                AIRFLOW_STATS.tell(measurements_of(event))
                return event
            seq = max(self._reader.last_seq(), seq) + 1
            # Many writers at once do not meet at each next place; one who writes alone is not held up.
            time.sleep(random.uniform(0.0, _LONGEST_PAUSE_S))
        raise StoreUnavailableError(
            f"the record has no free place for {event.key}",
            expected="a place that no other writer takes",
            found=f"{_ATTEMPTS} places that were taken in the meantime",
            remedy="find out who else writes under records/",
        )

    def _close_block(self, event: Event) -> None:
        """Write the segment of the block that a window has filled.

        Long records consist of windows. No other event waits for a segment: least of all those of a rollback.
        """
        block = block_of(event.seq)
        if isinstance(event.data, WindowJudged) and event.seq == numbers_of(block)[-1]:
            self._reader.write_segment(block)


def _content(event: Event) -> bytes:
    content = event.to_bytes()
    if len(content) > EVENT_LIMIT_BYTES:
        raise RecordError(
            f"the event {event.key} is too large to be written",
            expected=f"at most {EVENT_LIMIT_BYTES} bytes",
            found=f"{len(content)} bytes",
        )
    return content
