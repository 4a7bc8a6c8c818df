"""What a rollback tells the record: kept until users are safe, so that nothing about the record is in their way."""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import UTC, datetime

from slipway.release_record.record import ReleaseRecord
from slipway_core.errors import SlipwayError
from slipway_core.record.events import PendingEvent
from slipway_core.record.kinds import EventData, RollbackStarted
from slipway_core.record.state import ReleaseState

log = logging.getLogger(__name__)

Why = Callable[[ReleaseState | None], tuple[str, str]]


class RollbackNotes:
    """The events of one rollback, each under the time at which it happened.

    :param open_record: makes the record of the version that is left; it may raise anything.
    :param stable_uri: where the rollback leads, None where nothing was live before.
    :param why: reason and author of the rollback, by what the record says; None: the record cannot be read.
    """

    def __init__(self, open_record: Callable[[], ReleaseRecord], stable_uri: str | None, why: Why) -> None:
        self._open_record = open_record
        self._stable_uri = stable_uri
        self._why = why
        self._began_at = datetime.now(UTC)
        self._pending: list[PendingEvent] = []
        self._record: ReleaseRecord | None = None
        self._malformed: SlipwayError | None = None
        self._unwritten: Exception | None = None

    def add(self, data: EventData) -> None:
        """Keep an event that happens now."""
        self._pending.append(PendingEvent.now(data))

    def write(self) -> None:
        """Write what is not written yet. What keeps it from that is logged, and raised by `finish`."""
        try:
            record = self._record = self._record or self._begin()
            while self._pending:
                record.append(self._pending[0].data, at=self._pending[0].at)
                self._pending.pop(0)
        except Exception as error:  # whatever it is: the rollback goes on, and `finish` reports it
            self._unwritten = error
            log.warning("the rollback is not in the record yet: %s", error)
        else:
            self._unwritten = None

    def finish(self) -> None:
        """Write the rest.

        :raises Exception: what kept it from writing; users are safe, and the task is to be run again.
        :raises RecordError: all is written, but what stood in the record before cannot be right.
        """
        self.write()
        if self._unwritten is not None:
            raise self._unwritten
        if self._malformed is not None:
            raise self._malformed

    def _begin(self) -> ReleaseRecord:
        """Open the record; say first that and why a rollback has begun, unless that is known."""
        record = self._open_record()
        state: ReleaseState | None = None
        try:
            state = record.state()
        except SlipwayError as error:
            self._malformed = error
        if state is None or not state.rolling_back:
            reason, by = self._why(state)
            started = RollbackStarted(reason=reason, by=by, stable_storage_uri=self._stable_uri)
            self._pending.insert(0, PendingEvent(self._began_at, started))
        return record
