"""Whether the store answers: told by reads, and found out by one thread when it is back."""

from __future__ import annotations

import threading
import time

import pytest

from slipway.read_model.answers import GREATEST_AGE_S, Answers, Known, Patience
from slipway.read_model.store_health import StoreHealth
from slipway_core.errors import SlipwayError, StoreUnavailableError
from tests.support.waiting import wait_until


class Store:
    """A store that is away while it is told to be."""

    def __init__(self) -> None:
        self.is_away = False
        self.asked = 0

    def ask(self, _: str = "") -> int:
        """Answer how often it was asked."""
        self.asked += 1
        if self.is_away:
            raise StoreUnavailableError("the store is away", found="no answer")
        return self.asked


def test_a_store_that_is_back_is_noticed_by_itself() -> None:
    """One thread asks; with its first answer everything counts as not known, however young the error is."""
    store = Store()
    health = StoreHealth(store.ask, pause_s=0.01)
    answers: Answers[str, int] = Answers(
        store.ask, Patience(fresh_s=3600, old_s=0, limit_s=30), threading.BoundedSemaphore(2), health=health
    )
    store.is_away = True
    with pytest.raises(StoreUnavailableError):
        answers.get("a")
    assert health.is_failing()
    store.is_away = False
    wait_until(lambda: not health.is_failing(), "the store is back", 60)
    assert answers.get("a").problem == ""


def test_nothing_is_asked_of_a_store_that_is_away_but_whether_it_is_back() -> None:
    """Pages are shown what is known at once, with why it may be old."""
    store = Store()
    probing = threading.Event()
    health = StoreHealth(lambda: probing.wait(60) or store.ask(), pause_s=0.01)
    answers: Answers[str, int] = Answers(
        store.ask, Patience(fresh_s=0, old_s=0, limit_s=30), threading.BoundedSemaphore(2), health=health
    )
    assert answers.get("a").value == 1
    health.failed("no answer")
    began = time.monotonic()
    found = [answers.get("a") for _ in range(20)]
    assert time.monotonic() - began < 20
    assert {(one.value, one.problem) for one in found} == {(1, "no answer")}
    assert store.asked == 1
    probing.set()
    wait_until(lambda: not health.is_failing(), "the store is back", 60)


def test_an_answer_that_is_too_old_for_an_act_is_none() -> None:
    """It is read anew; where that does not come, an error is raised in its place."""
    store = Store()
    health = StoreHealth(lambda: time.sleep(0.01) or store.ask(), pause_s=0.01)
    answers: Answers[str, int] = Answers(
        store.ask,
        Patience(fresh_s=3600, old_s=3600, limit_s=30),
        threading.BoundedSemaphore(2),
        health=health,
    )
    assert answers.get("a").value == 1
    assert answers.get("a", most_age_s=3600).value == 1
    assert answers.get("a", most_age_s=0).value == 2
    store.is_away = True
    with pytest.raises(SlipwayError):
        answers.get("a", most_age_s=0)
    assert answers.get("a").value == 2


def test_a_read_that_hangs_is_no_sign_where_others_were_answered() -> None:
    """Only one that began after the last answer, or hangs alone, is."""
    health = StoreHealth()
    began = time.monotonic()
    health.answered()
    health.silent_since(began)
    assert health.problem == ""
    health.silent_since(time.monotonic())
    assert "no answer" in health.problem


def test_a_page_has_the_age_of_its_oldest_part() -> None:
    """A page that is made of several answers is as old as the oldest of those that are old."""
    store = Store()
    answers: Answers[str, int] = Answers(store.ask, Patience(), threading.BoundedSemaphore(2))
    young = answers.get("a")
    old = Known(1, young.read_at.replace(year=2020), "no answer for 9 s")
    assert young.old == ""
    both = young.with_age_of(old)
    assert (both.read_at, both.problem, both.value) == (old.read_at, old.problem, young.value)
    assert both.old.startswith("this is from 2020-")
    assert both.age_s > GREATEST_AGE_S
