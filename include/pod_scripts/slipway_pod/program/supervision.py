"""Work under two limits: on its time, and on the time in which nothing moves, whatever it waits for."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import TypeVar

from slipway_pod.errors import PodError

T = TypeVar("T")

LOOK_S = 0.1
REMEDY = "check AWS_ENDPOINT_URL, the network and the store; a larger model needs more time"


class Progress:
    """The progress of the work: `tick` when something has moved. `is_over` tells its threads to end."""

    def __init__(self) -> None:
        self.is_over = threading.Event()
        self._moved_at = time.monotonic()

    def tick(self) -> None:
        """Record that something has moved.

        :raises PodError: in a thread whose work was given up meanwhile.
        """
        if self.is_over.is_set():
            raise PodError("TimedOutError", "The work was given up")
        self._moved_at = time.monotonic()

    def idle_s(self) -> float:
        """Return for how many seconds nothing has moved."""
        return time.monotonic() - self._moved_at


def supervised(work: Callable[[Progress], T], timeout_s: float, stall_s: float) -> T:
    """Return what the work returns, in a separate thread; raises what it raises, or a PodError when it is not over in
    time.

    The thread may go on then: whoever calls ends the process soon, and not by waiting for it.
    """
    progress, started = Progress(), time.monotonic()
    answers, failures = list[T](), list[BaseException]()

    def run() -> None:
        try:
            answers.append(work(progress))
        except BaseException as error:  # whatever it is, the caller gets it
            failures.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        while thread.is_alive():
            thread.join(LOOK_S)
            if time.monotonic() - started > timeout_s:
                raise _too_late(f"an end within {timeout_s:g} s", "still at work")
            if progress.idle_s() > stall_s:
                raise _too_late(f"a byte within {stall_s:g} s", "none")
    finally:
        progress.is_over.set()
    if failures:
        raise failures[0]
    return answers[0]


def _too_late(expected: str, found: str) -> PodError:
    what = "The version could not be read in time"
    return PodError("TimedOutError", what, expected=expected, found=found, remedy=REMEDY)
