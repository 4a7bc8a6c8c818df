from __future__ import annotations

import asyncio
import itertools
import time

import pytest

from include.sandbox.load.answers import Answer
from include.sandbox.load.clients import Outcome, offer


class Slow:
    """Answers only when it is told to."""

    protocol = "slow"

    def __init__(self) -> None:
        self.asked = 0
        self.may_answer = asyncio.Event()

    async def ask(self) -> Outcome:
        self.asked += 1
        await self.may_answer.wait()
        return "revision", None


class Quick:
    """Fails every request at once."""

    protocol = "quick"

    async def ask(self) -> Outcome:
        return None, "refused"


async def until(condition: object, limit_s: float = 5.0) -> None:
    limit = time.monotonic() + limit_s
    while not condition():  # type: ignore[operator]
        assert time.monotonic() < limit
        await asyncio.sleep(0.002)


async def test_requests_are_sent_whether_or_not_earlier_ones_were_answered() -> None:
    """The loop is open: a model that hangs gets its requests all the same, and none of them is forgotten at the end."""
    client, told, stop = Slow(), list[Answer](), asyncio.Event()
    offering = asyncio.create_task(offer([client], 500, told.append, stop))
    await until(lambda: client.asked >= 20)
    assert told == []
    stop.set()
    client.may_answer.set()
    await offering
    assert len(told) == client.asked


async def test_clients_take_turns_by_the_schedule() -> None:
    """Each protocol gets its part, every request is due one interval after the last, none is sent before it is due."""
    told, stop = list[Answer](), asyncio.Event()
    answering = Slow()
    answering.may_answer.set()
    offering = asyncio.create_task(offer([answering, Quick()], 200, told.append, stop))
    await until(lambda: len(told) >= 20)
    stop.set()
    await offering
    in_order = sorted(told, key=lambda one: one.due)
    assert [one.protocol for one in in_order[:4]] == ["slow", "quick", "slow", "quick"]
    assert [one.error for one in in_order[:2]] == [None, "refused"]
    steps = [later.due - earlier.due for earlier, later in itertools.pairwise(in_order)]
    assert steps == pytest.approx([1 / 200] * len(steps), abs=1e-6)
    assert all(one.due <= one.sent <= one.received for one in told)


async def test_answers_are_dated_by_the_wall_clock() -> None:
    """Moments of the load can be held against those of a release, which are another process's."""
    told, stop, began = list[Answer](), asyncio.Event(), time.time()
    offering = asyncio.create_task(offer([Quick()], 500, told.append, stop))
    await until(lambda: len(told) >= 3)
    stop.set()
    await offering
    assert all(began - 0.1 <= one.sent <= time.time() + 0.1 for one in told)
