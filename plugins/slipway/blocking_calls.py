"""Calls that block, from a coroutine: each in a thread of its own, with a limit to how long it is waited for.

asyncio's default pool has `min(32, cpu + 4)` threads, and everything in a triggerer shares it: a few calls that hang
leave none for the call that protects users. `BlockingCalls` starts a thread for each call, and lets at most one call to
its dependency hang; so a watch has as many threads as it has dependencies, whatever the others do. The threads are
daemons: one that hangs does not keep its process from ending.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar

from slipway_core.errors import TimedOutError

Result = TypeVar("Result")


class BlockingCalls:
    """Calls to one dependency, one at a time.

    :param name: what is called, for people: "the object store".
    :param limit_s: how long a call is waited for, in seconds, the wait for the call before it included.
    """

    def __init__(self, name: str, limit_s: float) -> None:
        self._name = name
        self.limit_s = limit_s
        self._call: asyncio.Future[Any] | None = None

    @property
    def is_busy(self) -> bool:
        """Whether a call is under way, waited for or given up."""
        return self._call is not None and not self._call.done()

    async def run(self, call: Callable[[], Result], limit_s: float | None = None) -> Result:
        """Return what the call returns or raises.

        :param limit_s: instead of that for all calls.
        :raises TimedOutError: the call, or one before it that was given up, has not ended within the limit. It goes on
            in its thread, and what it does then is done; its result is dropped.
        """
        limit_s = self.limit_s if limit_s is None else limit_s
        deadline = asyncio.get_running_loop().time() + limit_s
        while (before := self._call) is not None and not before.done():
            if not await _is_done_by(before, deadline):
                raise self._timed_out(limit_s, "an earlier call has not finished")
        future = _started(call, f"slipway {self._name}")
        self._call = future
        if not await _is_done_by(future, deadline):
            raise self._timed_out(limit_s, "no answer")
        return future.result()

    def _timed_out(self, limit_s: float, found: str) -> TimedOutError:
        return TimedOutError(
            f"a call to {self._name} did not finish in time",
            expected=f"an answer within {limit_s:g} s",
            found=found,
            remedy=f"check whether {self._name} hangs",
        )


async def _is_done_by(future: asyncio.Future[Any], deadline: float) -> bool:
    left_s = max(0.0, deadline - asyncio.get_running_loop().time())
    await asyncio.wait({future}, timeout=left_s)
    return future.done()


def _started(call: Callable[[], Result], name: str) -> asyncio.Future[Result]:
    """Start the call in a thread; the future is the running loop's."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[Result] = loop.create_future()
    # An error that nobody waits for any more is nobody's.
    future.add_done_callback(lambda done: None if done.cancelled() else done.exception())
    context = contextvars.copy_context()

    def work() -> None:
        try:
            end = partial(_end, future, result=context.run(call))
        except BaseException as error:  # it is raised where the call is waited for
            end = partial(_end, future, error=error)
        with suppress(RuntimeError):  # the loop has ended meanwhile
            loop.call_soon_threadsafe(end)

    threading.Thread(target=work, name=name, daemon=True).start()
    return future


def _end(future: asyncio.Future[Any], *, result: Any = None, error: BaseException | None = None) -> None:
    if future.done():
        return
    if error is None:
        future.set_result(result)
    elif isinstance(error, StopIteration):  # which no future takes
        future.set_exception(RuntimeError(repr(error)))
    else:
        future.set_exception(error)
