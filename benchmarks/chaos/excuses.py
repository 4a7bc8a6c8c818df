"""Which requests may fail: those that were led to what had just been killed, until it answers again.

- A revision's Triton: requests that were led to this revision, until it gives a good answer.
- The router: requests that reached no revision, until it gives a good answer and the clients' connections are back.
- The cluster: all, for every Triton is killed with the emulated cluster, until their revision (none: any) gives a
  good answer.

Each protocol counts by itself: a Triton opens one port after the other. Nothing else is excused: not a weight change,
a promotion, a rollback, a lost answer, nor the death of a task, the guard, the metrics or the object store.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from slipway_sandbox.load.answers import Answer
from slipway_sandbox.load.clients import RECONNECT_S

ROUTER, CLUSTER = "router", "cluster"


@dataclass(frozen=True)
class Excuse:
    """What was killed: a revision's Triton, by its name, ROUTER or CLUSTER.

    It was killed `at`, and from `dead_at` (both unix seconds) gave no answer any more.
    """

    at: float
    dead_at: float
    killed: str


class Excuses:
    """Tells of single answers whether they are excused.

    :param answers: all of the run, from which it is seen when what was killed came back.
    """

    def __init__(self, excuses: Sequence[Excuse], answers: Sequence[Answer]) -> None:
        self._excuses = tuple(excuses)
        self._good = [one for one in answers if one.error is None]
        self._back_at = cache(self._find_back_at)

    def hold_for(self, answer: Answer) -> bool:
        """Whether the request was under way when what it was led to was killed, or was sent before that was back."""
        return any(self._holds(one, answer) for one in self._excuses)

    def _holds(self, excuse: Excuse, answer: Answer) -> bool:
        led_there = excuse.killed in (answer.revision, CLUSTER) or (
            excuse.killed == ROUTER and answer.revision is None
        )
        if not led_there or answer.received < excuse.at:
            return False
        patience_s = RECONNECT_S if excuse.killed == ROUTER else 0.0
        return answer.sent <= self._back_at(excuse, answer.revision, answer.protocol) + patience_s

    def _find_back_at(self, excuse: Excuse, revision: str | None, protocol: str) -> float:
        """When the first good answer came to a request that was sent when it was dead."""
        return min(
            (
                one.received
                for one in self._good
                if one.sent > excuse.dead_at and one.protocol == protocol and revision in (None, one.revision)
            ),
            default=math.inf,
        )
