"""Limits of time and memory for tools: each runs in a separate process, which is ended when it exceeds them."""

from __future__ import annotations

import multiprocessing
import re
import resource
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from typing import Any

from slipway_pod.errors import PodError, unexpected
from slipway_pod.storage.upload import MEBIBYTE

OUT_OF_MEMORY = re.compile(
    r"MemoryError|bad.alloc|failed to allocate|can(no|')t allocate memory|\bout of memory\b", re.IGNORECASE
)
MORE_TIME = "raise conversion.timeout_s in the release file, or give the pod more CPU"
MORE_MEMORY = "raise conversion.resources.memory in the release file; if it does not help, export it again"


@dataclass
class Limits:
    """How many seconds all tools may take together, and how many MiB of its own memory each may have."""

    timeout_s: float
    memory_mib: int | None = None
    left_s: float = field(init=False)

    def __post_init__(self) -> None:
        self.left_s = self.timeout_s

    @contextmanager
    def spend(self, share_of_time: float = 1.0) -> Iterator[float]:
        """Return the seconds that a tool may take now; those until the end of the block are gone for the next one."""
        started = time.monotonic()
        try:
            yield self.left_s * share_of_time
        finally:
            self.left_s = max(0.0, self.left_s - (time.monotonic() - started))

    @contextmanager
    def restricted_memory(self) -> Iterator[None]:
        """Limit the memory of this process, which is a tool's own, until the end of the block."""
        soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
        # Private writable memory. RLIMIT_AS would count what is merely mapped: a gigabyte and more of shared
        # libraries with PyTorch, which costs nothing.
        wanted = soft if self.memory_mib is None else self.memory_mib * MEBIBYTE
        resource.setrlimit(resource.RLIMIT_DATA, (wanted, hard))
        try:
            yield
        finally:
            # Reporting what went wrong needs some memory.
            resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))

    def run(self, name: str, act: Callable[[], Any], share_of_time: float = 1.0) -> Any:
        """Return what `act` returns, run in a child process.

        If it hangs, takes too much memory or crashes, only that process ends.

        :param share_of_time: how much of the time that is left it may use.
        """
        context = multiprocessing.get_context("fork")
        ours, theirs = context.Pipe(duplex=False)
        child = context.Process(target=_answer_over, args=(act, theirs, name, self))
        with self.spend(share_of_time) as limit_s:
            child.start()
            theirs.close()
            try:
                if not ours.poll(limit_s):
                    raise time_error(name, limit_s, self)
                answer = ours.recv()
            except EOFError:
                child.join()
                raise crash_error(name, child.exitcode or 0) from None
            finally:
                child.kill()
                child.join()
                ours.close()
        if isinstance(answer, PodError):
            raise answer
        return answer


def _answer_over(act: Callable[[], Any], pipe: Connection, name: str, limits: Limits) -> None:
    """Send what `act` returns, or the PodError that says why it did not; runs in the child."""
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    try:
        with limits.restricted_memory():
            answer = act()
    except Exception as error:  # the parent reports it
        if is_out_of_memory(error):
            answer = memory_error(name, limits)
        else:
            answer = error if isinstance(error, PodError) else unexpected(error)
    pipe.send(answer)


def is_out_of_memory(error: BaseException | None) -> bool:
    """Return whether an error, or one that caused it, says that memory was refused."""
    while error is not None:
        if OUT_OF_MEMORY.search(f"{type(error).__name__}: {error}"):
            return True
        error = error.__cause__ or error.__context__
    return False


def time_error(name: str, limit_s: float, limits: Limits, remedy: str = MORE_TIME) -> PodError:
    """Return the error for a tool that was still at work when its time was up."""
    what = f"The tool {name!r} did not finish in time"
    expected = f"an end within {limit_s:.3g} s (all tools: {limits.timeout_s:g} s)"
    return PodError("TimedOutError", what, expected=expected, found="still at work, and ended", remedy=remedy)


def memory_error(name: str, limits: Limits) -> PodError:
    """Return the error for a tool that asked for more memory than there is for it."""
    what = f"The tool {name!r} wanted more memory than it may have"
    expected = None if limits.memory_mib is None else f"at most {limits.memory_mib} MiB"
    found = "an allocation that was refused"
    return PodError("UserError", what, expected=expected, found=found, remedy=MORE_MEMORY)


def crash_error(name: str, exit_code: int) -> PodError:
    """Return the error for a tool that died without an answer."""
    number = -exit_code
    how = signal.Signals(number).name if number in set(signal.Signals) else f"exit code {exit_code}"
    memory = " (most often: out of memory)" if how in ("SIGKILL", "SIGABRT") else ""
    what = f"The tool {name!r} crashed on this model"
    return PodError("ModelInvalidError", what, found=f"{how}{memory}", remedy=MORE_MEMORY)
