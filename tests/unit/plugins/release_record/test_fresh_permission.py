"""How old a permission may be when the patch that it allows is sent."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any, cast

import pytest

from slipway.blocking_calls import BlockingCalls
from slipway.hooks.inference_service import KServeHook
from slipway.release_record import fresh_permission
from slipway.release_record.fresh_permission import both, require_fresh
from slipway.traffic.reconciler import reconcile_async
from slipway_core.errors import TimedOutError
from slipway_core.rollout.next_action import StartCanary
from slipway_sandbox.lab.simulation.knative_model import KnativeModel
from tests.support.canary.doubles import CANDIDATE_URI, STABLE_URI, ServiceDouble
from tests.support.waiting import until


class Clock:
    """A monotonic clock that goes on while somebody is asked."""

    def __init__(self, *takes_s: float) -> None:
        self.now_s = 0.0
        self.takes_s = list(takes_s)
        self.asked = 0

    def monotonic(self) -> float:
        return self.now_s

    def permit(self) -> None:
        self.now_s += self.takes_s[self.asked]
        self.asked += 1


@pytest.fixture
def clock_of(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Clock]:
    def made(*takes_s: float) -> Clock:
        clock = Clock(*takes_s)
        monkeypatch.setattr(fresh_permission, "time", clock)
        return clock

    return made


def test_a_slow_answer_is_asked_for_again(clock_of: Callable[..., Clock]) -> None:
    """An answer whose beginning is old by the time it comes may not hold any more; a quick second one does."""
    clock = clock_of(5.1, 0.2)
    require_fresh(clock.permit)
    assert clock.asked == 2


def test_a_quick_answer_is_asked_for_once(clock_of: Callable[..., Clock]) -> None:
    """It is of the moment."""
    clock = clock_of(4.9, 0.0)
    require_fresh(clock.permit)
    assert clock.asked == 1


def test_an_answer_that_is_always_slow_is_none(clock_of: Callable[..., Clock]) -> None:
    """Nobody knows whether it holds, so nothing is raised."""
    clock = clock_of(6.0, 6.0, 6.0)
    with pytest.raises(TimedOutError, match="took too long"):
        require_fresh(clock.permit)


def test_both_are_asked_in_their_order() -> None:
    """The second one is asked when the first one has allowed it."""
    asked: list[str] = []
    both(lambda: asked.append("lease"), lambda: asked.append("record"))()
    assert asked == ["lease", "record"]


def test_what_nobody_waits_for_any_more_is_not_sent() -> None:
    """A store that answers when the call was given up allows nothing: another attempt, or another goal, may be on."""
    model = KnativeModel()
    model.create({"metadata": {}, "spec": {"predictor": {"model": {"storageUri": STABLE_URI}}}})
    model.settle()
    service, hangs, done = ServiceDouble(model), threading.Event(), threading.Event()

    def permit() -> None:
        hangs.wait(20)
        done.set()

    async def run() -> None:
        with pytest.raises(TimedOutError):
            await reconcile_async(
                BlockingCalls("the cluster's API", 0.2),
                cast(KServeHook, service),
                StartCanary(CANDIDATE_URI, 20),
                timeout_s=0.5,
                permit=permit,
            )
        hangs.set()
        await until(done.is_set, "the store has answered")
        await until(lambda: _is_over("slipway the cluster's API"), "the call has ended")

    asyncio.run(run())
    assert service.patches == []


def _is_over(name: str) -> bool:
    threads: list[Any] = [one for one in threading.enumerate() if one.name == name]
    return not threads
