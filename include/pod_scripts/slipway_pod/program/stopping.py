"""SIGTERM for programs with an event loop: it cancels the work, and every `finally` runs to its end.

An exception raised by the signal's handler comes up wherever the program happens to be, also inside a library that
drops it; a cancelled task ends where it waits.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Coroutine
from typing import Any

from slipway_pod.program.result import stop


def run_until_stopped(work: Coroutine[Any, Any, None]) -> None:
    """Run the work in its own event loop, in the main thread, until it ends or SIGTERM cancels it.

    :raises SystemExit: with 128 + SIGTERM, after a SIGTERM; also where the work ended well meanwhile.
    """
    asyncio.run(_until_stopped(work))


async def _until_stopped(work: Coroutine[Any, Any, None]) -> None:
    loop, signals = asyncio.get_running_loop(), list[int]()
    task = asyncio.ensure_future(work)

    def take(number: int, _: object) -> None:
        signals.append(number)
        loop.call_soon_threadsafe(task.cancel)

    # Not `loop.add_signal_handler`: between its removal and the next handler the signal's default would act.
    before = signal.signal(signal.SIGTERM, take)
    try:
        await asyncio.wait([task])
    finally:
        signal.signal(signal.SIGTERM, before)
    for number in signals:
        stop(number, None)
    task.result()
