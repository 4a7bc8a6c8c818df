"""Whether the object store answers, by the reads that pages are made of.

A read that succeeds, fails or hangs shows it. While the store does not answer, a thread asks it for one name again and
again, so that pages know at once when it is back, and no thread of theirs waits for it.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime

log = logging.getLogger(__name__)

PAUSE_S = 0.5
"""Between two questions whether the store is back."""
WANTED_FOR_S = 120.0
"""So long after a page was last asked for, the store is asked whether it is back."""


class StoreHealth:
    """What is known of the store; it may be used by many threads.

    :param probe: asks the store for something small, and raises where it does not answer; None: nothing asks it whether
        it is back, so that every read does.
    """

    def __init__(self, probe: Callable[[], object] | None = None, *, pause_s: float = PAUSE_S) -> None:
        self._probe = probe
        self._pause_s = pause_s
        self._lock = threading.Lock()
        self._problem = ""
        self._answered = self._failed = self._recovered = self._wanted = float("-inf")
        self._answered_at: datetime | None = None
        self._is_probing = False

    @property
    def problem(self) -> str:
        """Why the store counts as away; "": its last answer was one, or it was never asked."""
        return self._problem

    @property
    def answered_at(self) -> datetime | None:
        """When it answered last (UTC); None: it never did."""
        return self._answered_at

    @property
    def recovered_at(self) -> float:
        """When it answered again after it had not, by the monotonic clock."""
        return self._recovered

    def is_failing(self) -> bool:
        """Tell whether the store does not answer, and somebody finds out when it does again."""
        if self._probe is None or not self._problem:
            return False
        with self._lock:
            self._wanted = time.monotonic()
            if self._problem:
                self._begin()
        return bool(self._problem)

    def has_failed_for(self, seconds: float) -> bool:
        """Tell whether the store has not answered for so long."""
        return self.is_failing() and time.monotonic() - self._failed >= seconds

    def answered(self) -> None:
        """Note that the store has answered."""
        with self._lock:
            self._answered, self._answered_at = time.monotonic(), datetime.now(UTC)
            if self._problem:
                log.info("the object store answers again")
                self._problem, self._recovered = "", self._answered

    def failed(self, reason: str) -> None:
        """Note that the store has failed."""
        with self._lock:
            self._fail(reason)

    def silent_since(self, began: float) -> None:
        """Note that a read hangs that began at that time of the monotonic clock.

        It is no sign of anything where others were answered meanwhile.
        """
        with self._lock:
            if self._answered < began:
                self._fail(f"no answer for {time.monotonic() - began:.0f} s")

    def _fail(self, reason: str) -> None:
        if not self._problem:
            self._failed = self._wanted = time.monotonic()
        self._problem = reason
        self._begin()

    def _begin(self) -> None:
        if self._probe is None or self._is_probing:
            return
        self._is_probing = True
        threading.Thread(target=self._work, name="slipway store health", daemon=True).start()

    def _work(self) -> None:
        while self._is_wanted():
            try:
                assert self._probe is not None  # noqa: S101 - for the type
                self._probe()
            except Exception as error:  # whatever it is, the store has not answered as it should
                log.debug("the object store does not answer yet: %s", type(error).__name__)
                time.sleep(self._pause_s)
            else:
                self.answered()

    def _is_wanted(self) -> bool:
        with self._lock:
            if self._problem and time.monotonic() - self._wanted < WANTED_FOR_S:
                return True
            self._is_probing = False
            return False
