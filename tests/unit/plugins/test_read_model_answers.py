"""Answers of a store that may hang: asked for once, kept for a short time, shown with their age."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from slipway.read_model.answers import Answers, Patience
from slipway_core.errors import StoreUnavailableError, TimedOutError
from tests.support.waiting import wait_until

QUICK = Patience(fresh_s=0.0, old_s=0.0, limit_s=0.3)


def answers(ask: Callable[[str], int], patience: Patience = QUICK, slots: int = 2) -> Answers[str, int]:
    """Return answers that are asked for so."""
    return Answers(ask, patience, threading.BoundedSemaphore(slots), most=3)


class Counter:
    """Counts how often it is asked; hangs, or fails, while it is told to."""

    def __init__(self) -> None:
        self.asked = 0
        self.goes_on = threading.Event()
        self.goes_on.set()
        self.fails = False

    def __call__(self, _: str) -> int:
        self.asked += 1
        mine = self.asked
        assert self.goes_on.wait(30)
        if self.fails:
            raise StoreUnavailableError("the store is away", found="no answer")
        return mine


def test_who_asks_together_asks_once() -> None:
    """Twenty who wait for the same answer cost the store one."""
    counter = Counter()
    counter.goes_on.clear()
    one = answers(counter, Patience(fresh_s=60, old_s=60, limit_s=10))
    with ThreadPoolExecutor(20) as pool:
        waiting = [pool.submit(one.get, "a") for _ in range(20)]
        wait_until(lambda: counter.asked == 1, "somebody asks")
        counter.goes_on.set()
        assert {known.result().value for known in waiting} == {1}
    assert one.get("a").value == counter.asked == 1


def test_an_answer_that_is_not_too_old_is_shown_while_a_newer_one_comes() -> None:
    """Nobody waits for it; the next one to ask is shown it."""
    counter = Counter()
    one = answers(counter, Patience(fresh_s=0, old_s=60, limit_s=10))
    assert one.get("a").value == 1
    counter.goes_on.clear()
    assert one.get("a").value == 1
    counter.goes_on.set()
    wait_until(lambda: one.get("a").value > 1, "the newer one is shown")


def test_a_store_that_hangs_costs_the_limit_once() -> None:
    """Then what is known is shown at once, with what is wrong; what is not known is an error."""
    counter = Counter()
    one = answers(counter)
    one.get("a")
    counter.goes_on.clear()
    assert one.get("a").problem.startswith("no answer for")
    began = time.monotonic()
    assert one.get("a").value == 1
    assert time.monotonic() - began < QUICK.limit_s
    with pytest.raises(TimedOutError):
        one.get("b")
    counter.goes_on.set()
    wait_until(lambda: not one.get("a").problem, "it is well again")


def test_no_more_ask_than_there_are_slots() -> None:
    """Who finds none waits for the limit, and is told."""
    counter = Counter()
    counter.goes_on.clear()
    one = answers(counter, slots=1)
    for question in ("a", "b"):
        with pytest.raises(TimedOutError):
            one.get(question)
    assert counter.asked == 1
    counter.goes_on.set()


def test_an_error_is_told_beside_what_is_known() -> None:
    """It ends when an answer comes; without anything known it is raised, and kept as an answer is."""
    counter = Counter()
    counter.fails = True
    one = answers(counter, Patience(fresh_s=60, old_s=60, limit_s=10))
    for _ in range(3):
        with pytest.raises(StoreUnavailableError):
            one.get("a")
    assert counter.asked == 1
    other = answers(counter)
    counter.fails = False
    other.get("a")
    counter.fails = True
    wait_until(lambda: other.get("a").problem == "the store is away: no answer", "it is told")
    counter.fails = False
    wait_until(lambda: not other.get("a").problem, "it is well again")


def test_only_so_many_answers_are_kept() -> None:
    """The ones that were asked for last."""
    counter = Counter()
    one = answers(counter, Patience(fresh_s=60, old_s=60, limit_s=10))
    for question in "abcd":
        one.get(question)
    assert one.get("d").value == 4
    assert one.get("a").value == 5
