"""What a watch tells pages: after every window, and never at the cost of the watch."""

from __future__ import annotations

import asyncio
import threading
import time

import pytest

from slipway.read_model import live_writer
from slipway.release_run import ReleaseRun
from tests.support.canary.doubles import CANDIDATE_URI
from tests.support.plugins.watching import FAILING, HEALTHY, LONG, LiveObjectDouble, judged, kinds, watch
from tests.support.plugins.watching import Live as LiveModel
from tests.support.waiting import until


async def test_pages_are_told_of_every_window_and_of_the_end(
    release_run: ReleaseRun, live: LiveModel
) -> None:
    """Each window reaches the document, with the weight that was seen; the last one says how the step ended."""
    pages = LiveObjectDouble()
    watched, _, _ = watch(release_run, live(), HEALTHY, live=pages)
    assert await watched.run() == "advance"
    await until(lambda: bool(pages.written) and pages.written[-1].decision == "advance")
    assert pages.windows == len(judged(watched))
    last = pages.written[-1]
    assert (last.step, last.weight_observed, last.release_id) == (0, 20, release_run.release_id)
    assert last.verdict.status == "pass"


async def test_pages_are_told_that_users_were_taken_back(release_run: ReleaseRun, live: LiveModel) -> None:
    """After a rollback the document has weight 0, which was seen, and the decision."""
    pages = LiveObjectDouble()
    watched, _, _ = watch(release_run, live(), FAILING, live=pages)
    assert await watched.run() == "roll_back"
    await until(lambda: bool(pages.written) and pages.written[-1].decision == "roll_back")
    assert pages.written[-1].weight_observed == 0


async def test_pages_are_told_of_a_pause(release_run: ReleaseRun, live: LiveModel) -> None:
    """When a person pauses the canary the document says why."""
    pages = LiveObjectDouble()
    watched, _, _ = watch(release_run, live(), HEALTHY, plan=LONG, live=pages)
    running = asyncio.create_task(watched.run())
    await until(lambda: len(judged(watched)) >= 1)
    watched._cluster._lease_holder.paused = "a person wants to look"  # as the next renewal finds it
    await until(lambda: any(one.paused for one in pages.written))
    running.cancel()
    assert pages.written[-1].paused == "a person wants to look"


async def test_a_store_that_hangs_for_pages_delays_neither_verdict_nor_shield(
    release_run: ReleaseRun, live: LiveModel
) -> None:
    """The step is judged and taken back as fast as with a store that answers: nobody waits for pages."""
    hangs = threading.Event()
    seconds = []
    for act in (lambda: None, lambda: hangs.wait(60)):
        model, began = live(), time.monotonic()
        pages = LiveObjectDouble(lambda act=act: act() and None)  # type: ignore[misc]
        watched, _, _ = watch(release_run, model, FAILING, live=pages)
        assert await watched.run() == "roll_back"
        assert model.share(CANDIDATE_URI) == 0
        seconds.append(time.monotonic() - began)
    hangs.set()
    assert seconds[1] < seconds[0] + 2.0


async def test_what_fails_for_pages_changes_nothing_for_the_watch(
    release_run: ReleaseRun, live: LiveModel
) -> None:
    """A store that refuses, or an error that nobody thought of, ends no step; what was not written is told later."""
    refuses = True

    def act() -> None:
        if refuses:
            raise RuntimeError("no")

    pages = LiveObjectDouble(act)
    watched, _, _ = watch(release_run, live(), HEALTHY, plan=LONG, live=pages)
    running = asyncio.create_task(watched.run())
    await until(lambda: len(judged(watched)) >= 3)
    refuses = False
    await until(lambda: pages.windows >= 3)
    assert not running.done()
    running.cancel()
    assert "rollback_started" not in kinds(watched)


async def test_the_end_of_a_step_is_told_when_the_store_is_back(
    release_run: ReleaseRun, live: LiveModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No window comes after it, so it is tried again for a while, after the watch is over."""
    monkeypatch.setattr(live_writer, "_PAUSE_S", 0.05)
    refuses = True

    def act() -> None:
        if refuses:
            raise RuntimeError("no")

    pages = LiveObjectDouble(act)
    watched, _, _ = watch(release_run, live(), HEALTHY, live=pages)
    assert await watched.run() == "advance"
    assert pages.written == []
    refuses = False
    await until(lambda: bool(pages.written) and pages.written[-1].decision == "advance")
    assert pages.windows == len(judged(watched))
