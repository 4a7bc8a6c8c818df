"""What a watch makes of a pause."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from slipway.release_run import ReleaseRun
from tests.support.canary.doubles import (
    CANDIDATE_URI,
    LeaseDouble,
)
from tests.support.plugins.watching import FAILING, HALF, HEALTHY, LONG, PLAN, Live, held, kinds, pause, watch
from tests.support.waiting import until


async def test_a_paused_canary_stays_at_its_weight_and_is_still_judged(
    release_run: ReleaseRun, live: Live
) -> None:
    """While a person looks, no time runs out and no step ends; a candidate that turns bad is still taken back."""
    model, lease = live(), LeaseDouble()
    watched, _, metrics = watch(release_run, model, HEALTHY, lease=lease)
    running = asyncio.create_task(watched.run())
    await until(lambda: "weight_observed" in kinds(watched))
    pause(lease)
    await until(lambda: watched.elapsed_s > PLAN.max_bake_s and kinds(watched).count("window_judged") > 10)
    assert model.share(CANDIDATE_URI) == 20
    metrics.per_reading = FAILING
    assert await running == "roll_back"
    assert model.share(CANDIDATE_URI) == 0


async def test_a_raise_that_meets_a_pause_is_not_made(release_run: ReleaseRun, live: Live) -> None:
    """The look of the raise itself finds the pause: the watch says so, nothing is patched, and nothing has failed."""
    model, lease = live(), LeaseDouble()
    first, _, _ = watch(release_run, model, HEALTHY, lease=lease)
    assert await first.run() == "advance"
    pause(lease)
    second, service, _ = watch(release_run, model, HEALTHY, step=1, lease=lease)
    assert await second.run() == "paused"
    assert service.patches == []
    assert model.share(CANDIDATE_URI) == 20
    assert second.events == []


async def test_the_first_percent_waits_for_the_end_of_a_pause(release_run: ReleaseRun, live: Live) -> None:
    """A try that comes back to a paused release with no users on the candidate holds the lease and waits."""
    model, lease = live(), held(release_run, 1)
    pause(lease)
    watched, service, _ = watch(release_run, model, HEALTHY, lease=lease)
    running = asyncio.create_task(watched.run())
    await until(lambda: lease.renewals > 3)
    assert (service.patches, model.share(CANDIDATE_URI)) == ([], 0)
    assert lease.lease is not None
    lease.lease = replace(lease.lease, paused="")
    assert await running == "advance"


async def test_a_try_that_finds_more_users_than_it_gives_takes_them_back_first(
    release_run: ReleaseRun, live: Live
) -> None:
    """A pause forbids to raise, never to lower: nobody would judge the users of a try that has died."""
    model, lease = live(), LeaseDouble()
    first, _, _ = watch(release_run, model, HEALTHY, lease=lease)
    assert await first.run() == "advance"
    second, _, _ = watch(release_run, model, HALF, step=1, lease=lease)
    assert await second.run() == "advance"
    assert model.share(CANDIDATE_URI) == 50
    pause(lease)
    again, _, _ = watch(release_run, model, HEALTHY, lease=lease, plan=LONG)
    running = asyncio.create_task(again.run())
    await until(lambda: "window_judged" in kinds(again))
    assert model.share(CANDIDATE_URI) == 20
    running.cancel()


async def test_a_watch_for_the_end_of_a_pause_ends_with_it(release_run: ReleaseRun, live: Live) -> None:
    """While the promotion waits the judge watches on; the resume is reported at once."""
    model, lease = live(), LeaseDouble()
    first, _, _ = watch(release_run, model, HEALTHY, lease=lease)
    assert await first.run() == "advance"
    pause(lease)
    waits, _, _ = watch(release_run, model, HEALTHY, hold=True, lease=lease, until_resumed=True)
    running = asyncio.create_task(waits.run())
    await until(lambda: kinds(waits).count("window_judged") > 3)
    assert not running.done()
    assert lease.lease is not None
    lease.lease = replace(lease.lease, paused="")
    assert await running == "continue"
