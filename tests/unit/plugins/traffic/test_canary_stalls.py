"""A watch whose dependencies hang, and time that nobody watched."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import replace

import pytest

from slipway.release_run import ReleaseRun
from slipway.traffic import shield
from slipway.traffic.checkpoint import WatchState
from slipway_core.spec.rollout.plan import Exposure
from tests.support.canary.doubles import (
    CANDIDATE_URI,
    JournalDouble,
    LeaseDouble,
)
from tests.support.plugins.watching import (
    FAILING,
    HEALTHY,
    LONG,
    PLAN,
    Live,
    has_no_data,
    judged,
    kinds,
    newest,
    watch,
)
from tests.support.waiting import until


async def test_a_verdict_that_cannot_be_carried_out_stays_a_verdict(
    release_run: ReleaseRun, live: Live, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A cluster that is away when users are to be shielded gives the version no second judge."""
    monkeypatch.setattr(shield, "SHIELD_TIMEOUT_S", 0.2)
    model, lease = live(), LeaseDouble()
    watched, service, metrics = watch(release_run, model, HEALTHY, lease=lease, plan=LONG)
    running = asyncio.create_task(watched.run())
    await until(lambda: "window_judged" in kinds(watched))
    service.away = lease.away = True
    metrics.per_reading = FAILING
    assert await running == "roll_back"
    assert kinds(watched)[-1] == "rollback_started"
    service.away = False
    await watched.shield()
    assert model.share(CANDIDATE_URI) == 0


async def test_a_store_that_hangs_delays_no_verdict_and_no_step_ends_without_it(
    release_run: ReleaseRun, live: Live
) -> None:
    """Saving is nobody's to wait for: the judge sees window after window; the step ends when the store is back."""
    hangs = threading.Event()

    class HangingJournal(JournalDouble):
        def save(self, state: WatchState) -> bool:
            hangs.wait(60)
            return super().save(state)

    model, lease = live(), LeaseDouble()
    watched, _, _ = watch(release_run, model, HEALTHY, lease=lease, journal=HangingJournal())
    running = asyncio.create_task(watched.run())
    await until(lambda: kinds(watched).count("window_judged") > 8)
    assert watched.elapsed_s > PLAN.steps[0].bake_s
    assert not running.done()
    hangs.set()
    assert await running == "advance"


async def test_time_that_nobody_watched_is_no_bake_and_no_bet(release_run: ReleaseRun, live: Live) -> None:
    """A triggerer that stood still has no data for one window; what users met meanwhile counts against the budget."""
    model, lease = live(), LeaseDouble()
    plan = replace(LONG, exposure=Exposure(max_requests=20 * 400))
    watched, _, metrics = watch(release_run, model, HEALTHY, lease=lease, plan=plan)
    running = asyncio.create_task(watched.run())
    await until(lambda: kinds(watched).count("window_judged") > 2)
    before = watched.elapsed_s
    metrics.readings += 300
    await until(lambda: watched.judge.unjudged.windows == 1)
    await until(lambda: any(one.data.verdict["no_data"] for one in judged(watched)))
    assert watched.elapsed_s - before < 1.0
    assert max(one.data.verdict["window"]["seconds"] for one in judged(watched) if not has_no_data(one)) < 1.0
    assert sum(has_no_data(one) for one in judged(watched)) == 1
    metrics.readings += 300
    assert await running == "roll_back"
    assert "budget" in newest(watched, "rollback_started").reason
