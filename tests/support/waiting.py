"""How tests wait: until a condition holds, with a limit, and a failure that names what did not come."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import TypeVar

Found = TypeVar("Found")

# Long, since nobody waits for it unless a test fails: machines that run other lanes beside this one are slow.
LIMIT_S = 90.0
_POLL_S = 0.02
_CONDITION = "the condition"


def wait_until(
    condition: Callable[[], Found], what: str = _CONDITION, limit_s: float = LIMIT_S, poll_s: float = _POLL_S
) -> Found:
    """Return what `condition` returns once that is true; fail the test after `limit_s`."""
    limit = time.monotonic() + limit_s
    while not (found := condition()):
        assert time.monotonic() < limit, f"not within {limit_s:g} s: {what}"
        time.sleep(poll_s)
    return found


async def until(condition: Callable[[], Found], what: str = _CONDITION, limit_s: float = LIMIT_S) -> Found:
    """Do the same for a coroutine; the condition may wait for an answer, it is asked in a thread."""
    limit = time.monotonic() + limit_s
    while not (found := await asyncio.to_thread(condition)):
        assert time.monotonic() < limit, f"not within {limit_s:g} s: {what}"
        await asyncio.sleep(_POLL_S)
    return found
