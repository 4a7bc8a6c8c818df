from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Callable

import numpy as np
import pytest

from slipway_sandbox.load.answers import Answer
from slipway_sandbox.load.clients import Outcome
from slipway_sandbox.load.request_set import RequestSet
from slipway_sandbox.load.schedule import offer, wait_for_answers
from tests.support.waiting import until

REQUESTS = RequestSet("x", np.ones((3, 1), dtype=np.float32), "y", np.array([0, 1, 2]))


class Slow:
    """Answers only when it is told to."""

    protocol = "slow"

    def __init__(self) -> None:
        self.asked = 0
        self.may_answer = asyncio.Event()

    async def ask(self, row: int) -> Outcome:
        self.asked += 1
        await self.may_answer.wait()
        return Outcome("revision", "1", 0.0)


class Quick:
    """Fails every request at once."""

    protocol = "quick"

    async def ask(self, row: int) -> Outcome:
        return Outcome(None, error="refused")


class Scripted:
    """Answers as `reply` says, given the number of the request from 1 on; keeps the time and the row of each."""

    def __init__(self, protocol: str, reply: Callable[[int], Outcome]) -> None:
        self.protocol = protocol
        self.sent: list[float] = []
        self.rows: list[int] = []
        self._reply = reply

    async def ask(self, row: int) -> Outcome:
        self.sent.append(time.monotonic())
        self.rows.append(row)
        return self._reply(len(self.sent))


async def test_requests_are_sent_whether_or_not_earlier_ones_were_answered() -> None:
    """The loop is open: a model that hangs gets its requests all the same, and none of them is forgotten at the end."""
    client, answers, stop = Slow(), list[Answer](), asyncio.Event()
    offering = asyncio.create_task(offer([client], REQUESTS, 500, answers.append, stop))
    await until(lambda: client.asked >= 20)
    assert answers == []
    stop.set()
    client.may_answer.set()
    await offering
    assert len(answers) == client.asked


async def test_clients_take_turns_by_the_schedule() -> None:
    """Each protocol gets its part, every request is due one interval after the last, none is sent before it is due."""
    answers, stop = list[Answer](), asyncio.Event()
    answering = Slow()
    answering.may_answer.set()
    offering = asyncio.create_task(offer([answering, Quick()], REQUESTS, 200, answers.append, stop))
    await until(lambda: len(answers) >= 20)
    stop.set()
    await offering
    in_order = sorted(answers, key=lambda one: one.due)
    assert [one.protocol for one in in_order[:4]] == ["slow", "quick", "slow", "quick"]
    assert [one.error for one in in_order[:2]] == [None, "refused"]
    steps = [later.due - earlier.due for earlier, later in itertools.pairwise(in_order)]
    assert steps == pytest.approx([1 / 200] * len(steps), abs=1e-6)
    assert all(one.due <= one.sent <= one.received for one in answers)


async def test_answers_are_dated_by_the_wall_clock() -> None:
    """Moments of the load can be held against those of a release, which are another process's."""
    answers, stop, began = list[Answer](), asyncio.Event(), time.time()
    offering = asyncio.create_task(offer([Quick()], REQUESTS, 500, answers.append, stop))
    await until(lambda: len(answers) >= 3)
    stop.set()
    await offering
    assert all(began - 0.1 <= one.sent <= time.time() + 0.1 for one in answers)


async def test_every_answer_is_told_once() -> None:
    """Good, wrong and failed answers are all reported, each with its version, its revision and whether it is right."""

    def reply(number: int) -> Outcome:
        if number % 4 == 0:
            return Outcome("rev-2", error="HTTP 500: no")
        return Outcome("rev-1", version="1", value=0.0)

    over = [Scripted("http", reply), Scripted("grpc", reply)]
    answers, stop = list[Answer](), asyncio.Event()
    offering = asyncio.create_task(offer(over, REQUESTS, 400, answers.append, stop))
    await until(lambda: min(len(client.sent) for client in over) >= 9)
    stop.set()
    await offering
    assert len(answers) == sum(len(client.sent) for client in over)
    failed = [one for one in answers if one.error is not None]
    assert len(failed) == sum(len(client.sent) // 4 for client in over)
    assert {(one.revision, one.version, one.right) for one in failed} == {("rev-2", None, None)}
    assert {(one.revision, one.version) for one in answers if one.error is None} == {("rev-1", "1")}
    assert {one.right for one in answers if one.error is None} == {True, False}


async def test_the_requests_are_sent_in_turn_and_then_again() -> None:
    """After the last request of the set comes the first."""
    client, stop = Scripted("http", lambda _: Outcome("rev", "1", 0.0)), asyncio.Event()
    offering = asyncio.create_task(offer([client], REQUESTS, 500, lambda _: None, stop))
    await until(lambda: len(client.sent) >= 5)
    stop.set()
    await offering
    assert client.rows[:5] == [0, 1, 2, 0, 1]


async def test_a_slow_service_is_not_met_with_a_burst() -> None:
    """What is due while a client waits for as many answers as it may is left out, and not sent later."""
    client, stop, answers = Slow(), asyncio.Event(), list[Answer]()
    # Its requests show how far the schedule has come.
    turns = Scripted("turns", lambda _: Outcome("rev", "1", 0.0))
    rate_rps = 100
    offering = asyncio.create_task(
        offer([client, turns], REQUESTS, rate_rps, answers.append, stop, in_flight_limit=2)
    )
    await until(lambda: len(turns.sent) >= 15)
    assert client.asked == 2
    passed = 2 * len(turns.sent)
    client.may_answer.set()
    await until(lambda: client.asked >= 8)
    stop.set()
    await offering
    first = min(one.due for one in answers)
    places = sorted(round((one.due - first) * rate_rps) for one in answers if one.protocol == "slow")
    assert len(places) == client.asked
    assert places[:2] == [0, 2]
    assert places[2] >= passed


async def test_a_client_that_breaks_ends_the_load() -> None:
    """What a broken client would go on to leave uncounted is an error, and no silence."""

    def reply(_number: int) -> Outcome:
        raise RuntimeError("broken")

    with pytest.raises(ExceptionGroup) as raised:
        await asyncio.wait_for(
            offer([Scripted("http", reply)], REQUESTS, 100, lambda _: None, asyncio.Event()), 5
        )
    assert raised.group_contains(RuntimeError, match="broken")


async def test_waiting_lasts_until_each_client_is_answered() -> None:
    """A service that is not there yet is asked again, over each protocol."""

    def reply(number: int) -> Outcome:
        return Outcome(None, error="HTTP 404") if number < 3 else Outcome("rev", "1", 0.0)

    over = [Scripted("http", reply), Scripted("grpc", reply)]
    await asyncio.wait_for(wait_for_answers(over, asyncio.Event()), 5)
    assert [len(client.sent) for client in over] == [3, 3]


async def test_waiting_ends_when_it_is_told_to() -> None:
    """A service that never comes does not hold the client."""
    stop = asyncio.Event()
    stop.set()
    await asyncio.wait_for(wait_for_answers([Quick()], stop), 5)
