"""The header's word on which parts answer: nobody waits for it, and a part that hangs is told."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

import pytest

from slipway.read_model.store_health import StoreHealth
from slipway.web.health import watch
from slipway.web.health.watch import Answer, HealthWatch, sentence
from tests.support.waiting import wait_until

NOW = datetime(2026, 11, 26, 17, 40, tzinfo=UTC)


def test_a_part_that_is_silent_is_told_since_when() -> None:
    """By the time of day, and by the date where that is not today's; "" where nothing is wrong."""
    at = datetime(2026, 11, 26, 17, 35, 13, tzinfo=UTC)
    told = sentence("staging Triton", Answer(at, "does not answer"), NOW)
    assert told == "staging Triton has not answered since 17:35:13 UTC"
    old = sentence("scheduler", Answer(at - timedelta(days=2), "does not answer"), NOW)
    assert old == "scheduler has not answered since 2026-11-24 17:35:13 UTC"
    assert sentence("scheduler", Answer(None, "does not answer"), NOW) == "scheduler has not answered"
    assert sentence("scheduler", Answer(at), NOW) == ""


def test_all_answer() -> None:
    """Then nothing is wrong, and that is known only once each was asked."""
    asked = threading.Event()

    def ask() -> Mapping[str, Answer]:
        assert asked.wait(60)
        return {"scheduler": Answer(datetime.now(UTC))}

    one = HealthWatch({("scheduler",): ask})
    assert not one.look().is_known
    asked.set()
    wait_until(lambda: one.look().is_known, "the part has answered", 60)
    assert one.look().wrong == ()


def test_nobody_waits_for_a_part_that_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    """A look takes no time, and after the limit the part counts as silent since its last answer."""
    monkeypatch.setattr(watch, "EVERY_S", 0.0)
    monkeypatch.setattr(watch, "SILENT_AFTER_S", 0.2)
    goes_on, hangs = threading.Event(), threading.Event()

    def ask() -> Mapping[str, Answer]:
        if hangs.is_set():
            goes_on.wait(60)
        return {"staging Triton": Answer(datetime.now(UTC))}

    one = HealthWatch({("staging Triton",): ask})
    wait_until(lambda: one.look().is_known, "the part has answered", 60)
    hangs.set()
    longest = 0.0

    def is_silent() -> bool:
        nonlocal longest
        began = time.monotonic()
        wrong = one.look().wrong
        longest = max(longest, time.monotonic() - began)
        return any("staging Triton has not answered since" in part.sentence for part in wrong)

    wait_until(is_silent, "it is told", 60)
    assert longest < 10
    goes_on.set()
    hangs.clear()
    wait_until(lambda: not one.look().wrong, "it answers again", 60)


def test_a_part_that_raises_has_not_answered() -> None:
    """Whatever it raises: silence is never health."""

    def ask() -> Mapping[str, Answer]:
        raise ZeroDivisionError

    one = HealthWatch({("scheduler", "triggerer"): ask})
    wait_until(lambda: len(one.look().wrong) == 2, "both are told", 60)


def test_the_stores_health_is_that_of_the_reads() -> None:
    """It is asked for nothing more: what the pages' reads have met is told."""
    store = StoreHealth()
    one = HealthWatch({}, lambda: store)
    store.answered()
    assert one.look().wrong == ()
    store.failed("no answer")
    assert [part.name for part in one.look().wrong] == ["object store"]
