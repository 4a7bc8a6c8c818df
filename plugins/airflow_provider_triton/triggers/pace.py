"""How soon a trigger may fire."""

from __future__ import annotations

import asyncio
import time

# An event that comes before Airflow has seen the task's process end makes it take the task for dead.
SHORTEST_S = 3.0


class Pace:
    """Measures from when it is made, which is when a trigger begins."""

    def __init__(self) -> None:
        self._began = time.monotonic()

    async def until_due(self) -> None:
        """Wait until the trigger may fire."""
        await asyncio.sleep(max(0.0, SHORTEST_S - (time.monotonic() - self._began)))
