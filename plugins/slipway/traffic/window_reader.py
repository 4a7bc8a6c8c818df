"""Windows of what users meet, from a metrics source that may be slow, silent, or hang."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime

from slipway.blocking_calls import BlockingCalls
from slipway.metrics.source import MetricsSource
from slipway.traffic.checkpoint import Readings
from slipway_core.errors import MetricsUnavailableError, TimedOutError
from slipway_core.metrics.samples import Reading, Window, window_between

READING_INTERVAL_S = 1.0
# A window that lasts longer than so many planned ones, and what the source may lag, is not used.
LONGEST_WINDOWS = 2
# How long a source may show the same data again and again.
SAME_DATA_LIMIT_S = 300.0
# A source that is further behind its own last data than it may lag, and this, has a clock that went back.
CLOCK_STEP_S = 1.0
_INTERVALS_OF_LAG = 2


class WindowReader:
    """Read both revisions' counters again and again and close a window every `window_s` seconds.

    A window is what was *watched*. Where it would last more than twice as long as planned (the triggerer died, or stood
    still; the source was away; the release went on to its next step), the requests of that time are no window: they may
    have met anything, at another weight, and as one window they would be one look, and much bake time that nobody has
    watched. They are counted anyway, see `on_unwatched`, and the next window begins with the reading that ended the
    gap. A gap in the middle of the watch is reported as a window without data; one before it begins, or after windows
    without data, is reported already.

    The monotonic clock says how long a window waits; in which order readings are, and how long a window was, by
    the source. One whose clock went back shows what was long ago: no data. Where data are of the moment, the reader's
    process dates them, and what another process has saved may be ahead: then they begin anew, after a gap.

    :param limit_s: how long one reading is waited for; the source's own limit is shorter.
    :param on_reading: is called after each reading that showed the users' answers, as long as windows are judged: not
        when the last one is longer ago than one may take to close.
    :param on_unwatched: is called with the requests of a gap.

    `readings` is what the next window begins with; `no_data_reason` is why the last one had no data; `first_bad_at` is
    when the candidate's first error was seen.
    """

    def __init__(
        self,
        metrics: MetricsSource,
        window_s: float,
        limit_s: float,
        *,
        on_reading: Callable[[], None],
        on_unwatched: Callable[[Window], None],
    ) -> None:
        self._metrics = metrics
        self._window_s = window_s
        self._interval_s = max(READING_INTERVAL_S, metrics.interval_s)
        lag_s = max(_INTERVALS_OF_LAG * self._interval_s, metrics.lag_s)
        self._longest_s = LONGEST_WINDOWS * window_s + lag_s
        # Two equal sources behind one address may lag behind each other.
        self._back_s = max(metrics.lag_s, CLOCK_STEP_S)
        self._judged_s = 0.0
        self._calls = BlockingCalls("the metrics source", limit_s)
        self._on_reading, self._on_unwatched = on_reading, on_unwatched
        self._stable = self._candidate = ""
        self._last: Readings | None = None
        # Whether the last reading is one that was saved: perhaps by another process, and by another clock.
        self._is_saved = False
        # Whether anything was seen since the last window ended without data.
        self._sees = False
        self.readings: Readings | None = None
        self.no_data_reason = "no new data"
        self.first_bad_at: datetime | None = None

    def begin(self, stable: str, candidate: str) -> None:
        """Name the revisions; a saved reading that lacks one of them is of no use."""
        self._stable, self._candidate = stable, candidate
        if self.readings is not None and {stable, candidate} - {*self.readings}:
            self.readings = None
        self._last, self._is_saved = self.readings, True
        self._judged_s = time.monotonic()

    async def window(self) -> Window | None:
        """Return the next window. Read within it too, to date the first bad answer, until there is new data at its end.

        :returns: None where there is none to be judged, for the reason in `no_data_reason`.
        """
        ends = time.monotonic() + self._window_s
        while True:
            left_s = ends - time.monotonic()
            await asyncio.sleep(min(self._interval_s, left_s) if left_s > 0 else self._interval_s)
            reading = await self._read()
            if reading is not None:
                begins_here, stood_still = self._take(reading)
                if time.monotonic() - self._judged_s <= self._longest_s + self._window_s:
                    self._on_reading()
                if stood_still:
                    return None
                if begins_here:
                    ends = time.monotonic() + self._window_s
            if time.monotonic() < ends:
                continue
            if reading is None:
                self._sees = False
                return None
            window = self._between(self.readings, reading)
            if window is not None:
                self.readings, self._judged_s = reading, time.monotonic()
                if window.candidate.errors:
                    # A request that is never answered shows in no reading by itself.
                    self.first_bad_at = self.first_bad_at or datetime.now(UTC)
                return window
            if time.monotonic() > ends + SAME_DATA_LIMIT_S:
                self.no_data_reason = f"the source has shown nothing new for {SAME_DATA_LIMIT_S:.0f} s"
                self._sees = False
                return None
            # The same data again: a source that is asked more often than it scrapes. Its own limit of staleness ends
            # this.

    def _take(self, reading: Readings) -> tuple[bool, bool]:
        """Take note of a reading.

        :returns: whether a window begins with it, and whether that is because nobody has watched since the last one.
        """
        if _errors(reading, self._candidate) > _errors(self._last, self._candidate):
            self.first_bad_at = self.first_bad_at or datetime.now(UTC)
        self._last = reading
        saw, self._sees = self._sees, True
        gap = self._between(self.readings, reading)
        if self.readings is None:
            self.readings = reading
            return True, False
        # After a window without data the whole next one must still fit; while windows follow each other this one alone.
        if gap is None or gap.seconds + (0.0 if saw else self._window_s) <= self._longest_s:
            return False, False
        self.readings = reading
        self._on_unwatched(gap)
        self.no_data_reason = (
            f"nothing watched for {gap.seconds:.0f} s; only a window of {self._window_s:g} s can be judged"
        )
        return True, saw

    def _between(self, before: Readings | None, after: Readings) -> Window | None:
        if before is None:
            return None
        return window_between(before, after, stable=self._stable, candidate=self._candidate)

    async def _read(self) -> Readings | None:
        """Return a reading of both revisions, with what the last one remembers; None: the source could not be read."""
        try:
            found = await self._calls.run(lambda: self._metrics.read([self._stable, self._candidate]))
        except (MetricsUnavailableError, TimedOutError) as error:
            self.no_data_reason = error.in_short()
            return None
        is_saved, self._is_saved = self._is_saved, False
        back_s = _back_s(self._last, found)
        if back_s > self._back_s:
            # A source that dates its data itself shows old ones; one whose data are of the moment was dated by another
            # process.
            if self._metrics.lag_s or not is_saved:
                self.no_data_reason = f"the source's clock went backward: its data are {back_s:.0f} s old"
                return None
            self._begin_anew(found)
        known = self._last or {}
        return {
            revision: reading.remembering(known[revision]) if revision in known else reading
            for revision, reading in found.items()
        }

    def _begin_anew(self, found: Readings) -> None:
        """Begin with this reading: the saved one is of a clock that was ahead. What came in between was not watched."""
        gap = self._between({name: _undated(one) for name, one in (self.readings or {}).items()}, found)
        if gap is not None:
            self._on_unwatched(replace(gap, seconds=0.0))
        self.readings = self._last = None


def _back_s(last: Readings | None, found: Readings) -> float:
    """Return by how much a reading is older than the last one; 0 where it is not."""
    if last is None:
        return 0.0
    return max((last[name].at - reading.at for name, reading in found.items() if name in last), default=0.0)


def _undated(reading: Reading) -> Reading:
    """Return the counts of a reading as older than any other's."""
    return Reading.of(0.0, {name: series.counters for name, series in reading.series.items()})


def _errors(readings: Readings | None, revision: str) -> int:
    reading: Reading | None = None if readings is None else readings[revision]
    return 0 if reading is None else reading.totals().errors
