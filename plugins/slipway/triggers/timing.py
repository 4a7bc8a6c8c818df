"""How soon a trigger may fire, and how long it waits for the object store."""

from __future__ import annotations

import asyncio
import time

# An event that comes before Airflow has seen the task's process end makes it take the task for dead.
SHORTEST_S = 3.0
# Of one request to the object store, by who watches users or is about to raise a weight.
STORE_TIMEOUT_S = 2.0


class Pace:
    """Measures from when it is made, which is when a trigger begins."""

    def __init__(self) -> None:
        self._began = time.monotonic()

    async def until_due(self) -> None:
        """Wait until the trigger may fire."""
        await asyncio.sleep(max(0.0, SHORTEST_S - (time.monotonic() - self._began)))
