"""Do users still reach the candidate after the route has said 0? Seen in the router's own counts, beside the rollback.

Readings are taken in a thread, while the rollback goes on: a metrics source that is slow, silent or hangs holds
nothing up. The last one is waited for, for some seconds, when users have long been safe; where the router knows the
revision no longer by then, it is the newest one before.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from slipway.metrics.source import MetricsSource
from slipway_core.metrics.samples import Reading, reading_delta

log = logging.getLogger(__name__)

# A source that dates its data by another clock: by how much the two may differ.
CLOCK_DIFFERENCE_S = 5.0
# What is looked at, at least; and how long is waited for it once the rollback is over.
SHORTEST_S = 1.0
WAIT_LIMIT_S = 5.0
_POLL_S = 0.5


@dataclass(frozen=True)
class RequestsAfter:
    """Requests that reached the candidate in so many seconds after weight 0; None: the source gave no data."""

    requests: int | None
    seconds: float


NO_DATA = RequestsAfter(None, 0.0)


class AfterRollback:
    """Count the requests to one revision from weight 0 on.

    :param make_metrics: may raise anything; it is called where Airflow may be asked.
    """

    def __init__(self, make_metrics: Callable[[], MetricsSource]) -> None:
        self._make_metrics = make_metrics
        self._metrics: MetricsSource | None = None
        self._revision = ""
        self._first: Reading | None = None
        self._newest: Reading | None = None
        self._is_over = threading.Event()
        self._thread: threading.Thread | None = None

    def begin(self, revision: str, weight_0_at: datetime) -> None:
        """Begin to look, without waiting for anything. It raises nothing."""
        self._revision = revision
        try:
            self._metrics = self._make_metrics()
        except Exception as error:  # a connection that is missing or wrong included
            log.warning("requests after weight 0 cannot be counted: %s", error)
            return
        # A source whose data are of the moment is read after this moment, whatever any clock says.
        since = weight_0_at.timestamp() + CLOCK_DIFFERENCE_S if self._metrics.lag_s else 0.0
        self._thread = threading.Thread(
            target=self._look, args=(self._metrics, since), name="after rollback", daemon=True
        )
        self._thread.start()

    def stop(self) -> None:
        """Look no longer; nobody wants to know."""
        self._is_over.set()

    def end(self) -> RequestsAfter | None:
        """Return what was counted up to now, after at most some seconds; None: nobody has begun to look."""
        if not self._revision:
            return None
        self._is_over.set()
        deadline = time.monotonic() + WAIT_LIMIT_S
        if self._thread is not None:
            self._thread.join(WAIT_LIMIT_S)
        metrics, first = self._metrics, self._first
        while metrics is not None and first is not None:
            now = self._read(metrics)
            if now is not None and now.at - first.at >= SHORTEST_S:
                return self._counted(first, now.remembering(first))
            if time.monotonic() > deadline:
                break
            time.sleep(_POLL_S)
        newest = self._newest
        if first is not None and newest is not None and newest.at - first.at >= SHORTEST_S:
            return self._counted(first, newest)
        return NO_DATA

    def _counted(self, first: Reading, now: Reading) -> RequestsAfter:
        seen = RequestsAfter(reading_delta(first, now).requests, now.at - first.at)
        if seen.requests:
            log.warning(
                "the router still led %d requests to %s in %.1f s after weight 0: check whether it follows the "
                "InferenceService's status",
                seen.requests,
                self._revision,
                seen.seconds,
            )
        return seen

    def _look(self, metrics: MetricsSource, since: float) -> None:
        """Keep the first reading whose data are from after weight 0, and the newest."""
        while not self._is_over.is_set():
            reading = self._read(metrics)
            if reading is not None and reading.at >= since:
                self._first = self._first or reading
                self._newest = reading.remembering(self._newest or reading)
            self._is_over.wait(max(_POLL_S, metrics.interval_s))

    def _read(self, metrics: MetricsSource) -> Reading | None:
        try:
            return metrics.read([self._revision])[self._revision]
        except Exception as error:  # whatever it is: the rollback is what counts
            log.info("the candidate's requests after weight 0 were not read: %s", error)
            return None
