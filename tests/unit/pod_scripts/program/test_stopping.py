"""SIGTERM for programs with an event loop."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Iterator

import pytest

from slipway_pod.program.result import stop
from slipway_pod.program.stopping import run_until_stopped


@pytest.fixture(autouse=True)
def own_handler() -> Iterator[None]:
    """Leave the process's handler as it was."""
    before = signal.signal(signal.SIGTERM, stop)
    yield
    signal.signal(signal.SIGTERM, before)


def test_a_signal_cancels_the_work_where_it_waits() -> None:
    """Each `finally` runs to its end, its waits included, and the exit code names the signal."""
    seen: list[str] = []

    async def work() -> None:
        try:
            os.kill(os.getpid(), signal.SIGTERM)
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            seen.append("left in order")

    with pytest.raises(SystemExit) as ended:
        run_until_stopped(work())
    assert (ended.value.code, seen) == (128 + signal.SIGTERM, ["left in order"])


def test_a_signal_is_raised_in_no_library_that_could_drop_it() -> None:
    """It ends the program although it arrives where exceptions are dropped."""

    class Dropping:
        def __del__(self) -> None:
            os.kill(os.getpid(), signal.SIGTERM)

    async def work() -> None:
        one = Dropping()
        del one
        await asyncio.Event().wait()

    with pytest.raises(SystemExit):
        run_until_stopped(work())


def test_a_signal_beside_the_works_end_is_not_lost() -> None:
    """Work that ends, or fails, in spite of the signal has no result either."""

    async def work() -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        raise ValueError("meanwhile")

    with pytest.raises(SystemExit):
        run_until_stopped(work())


def test_without_a_signal_the_work_ends_as_it_ends() -> None:
    """Its error is raised, and the signal is handled as before."""

    async def work() -> None:
        raise ValueError("by itself")

    with pytest.raises(ValueError, match="by itself"):
        run_until_stopped(work())
    assert signal.getsignal(signal.SIGTERM) is stop
