from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import pytest

from slipway.release_run import ReleaseRun
from slipway.traffic import step_watcher
from slipway.traffic.step_watcher import StepWatch
from slipway_core.metrics.samples import Reading
from slipway_sandbox.lab.simulation.knative_model import KnativeModel
from tests.support.canary.doubles import (
    CANDIDATE_URI,
    JournalDouble,
    LeaseDouble,
    ReplayDouble,
    ServiceDouble,
)
from tests.support.plugins.watching import HEALTHY, PLAN, kinds, newest, pause, watch
from tests.support.waiting import until

REPLAYING = replace(PLAN, on_inconclusive="golden_replay", max_bake_s=1.0)
NOBODY = ((0, 0), (0, 0))
Live = Callable[..., KnativeModel]


@pytest.fixture(autouse=True)
def _own_urls(monkeypatch: pytest.MonkeyPatch) -> None:
    """The routes give each revision a URL of its own, as KServe's tag routing does."""
    plain = ServiceDouble.get

    def with_urls(self: ServiceDouble) -> dict[str, Any] | None:
        found = plain(self)
        for target in (found or {}).get("status", {})["components"]["predictor"]["traffic"]:
            target["url"] = f"http://{target['revisionName']}.example"
        return found

    monkeypatch.setattr(ServiceDouble, "get", with_urls)


def windows(watched: StepWatch) -> list[dict[str, Any]]:
    """The recorded windows that were seen, in order."""
    verdicts = [event.data.verdict for event in watched.events if event.kind == "window_judged"]
    return [verdict["window"] for verdict in verdicts if verdict["window"] is not None]


async def test_a_candidate_without_users_passes_by_replays(release_run: ReleaseRun, live: Live) -> None:
    """After the bake golden requests are replayed to both revisions, and the step's reason says what it rests on."""
    replay = ReplayDouble()
    watched, _, _ = watch(release_run, live(), NOBODY, plan=REPLAYING, replay=replay)
    assert await watched.run() == "advance"
    assert replay.urls[0] == (
        "http://digits-predictor-00001.example",
        "http://digits-predictor-00002.example",
    )
    assert "replayed golden requests" in newest(watched, "step_finished").reason
    assert newest(watched, "step_finished").candidate_requests == 0


async def test_users_windows_are_judged_first_and_both_are_recorded(
    release_run: ReleaseRun, live: Live
) -> None:
    """Each replayed window follows the users' window beside which it was replayed, under its source; there are as many
    of them as it takes to make up for the bake in which no user asked.
    """
    watched, _, _ = watch(release_run, live(), NOBODY, plan=REPLAYING)
    assert await watched.run() == "advance"
    sources = [window["source"] for window in windows(watched)]
    first = sources.index("replay")
    assert set(sources[:first]) == {"users"}
    before_replays = [one for one, after in itertools.pairwise(sources) if after == "replay"]
    assert len(before_replays) > 1
    assert set(before_replays) == {"users"}


async def test_a_candidate_that_fails_replays_is_taken_back(release_run: ReleaseRun, live: Live) -> None:
    """Its users, few as they are, are on stable again; none of the failed replays counts as theirs."""
    model = live()
    replay = ReplayDouble((50, 0), (50, 40))
    watched, _, _ = watch(release_run, model, NOBODY, plan=REPLAYING, replay=replay)
    assert await watched.run() == "roll_back"
    assert model.share(CANDIDATE_URI) == 0
    judged = newest(watched, "window_judged")
    assert judged.verdict["status"] == "fail"
    assert (judged.candidate_errors, judged.first_bad_at) == (0, None)


async def test_enough_users_need_no_replay(release_run: ReleaseRun, live: Live) -> None:
    """Nothing is replayed where users send what it takes."""
    replay = ReplayDouble()
    watched, _, _ = watch(release_run, live(), HEALTHY, plan=REPLAYING, replay=replay)
    assert await watched.run() == "advance"
    assert replay.urls == []


async def test_without_urls_it_is_rolled_back_and_says_why(
    release_run: ReleaseRun, live: Live, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A replay that cannot be had leaves the policy what `rollback` is, with the reason in the record."""
    model, replay = live(), ReplayDouble(candidate=None)
    watched, _, _ = watch(release_run, model, NOBODY, plan=REPLAYING, replay=replay)
    assert await watched.run() == "roll_back"
    assert model.share(CANDIDATE_URI) == 0
    assert "No golden requests were replayed: the store is away" in newest(watched, "rollback_started").reason


async def test_what_is_replayed_while_the_users_are_not_seen_is_not_judged(
    release_run: ReleaseRun, live: Live, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A window without data stays one, whatever was replayed meanwhile, and beside the next one nothing is replayed."""
    replay = ReplayDouble((50, 50), (50, 50))
    watched, _, metrics = watch(
        release_run, live(), NOBODY, plan=replace(REPLAYING, max_bake_s=30.0), replay=replay
    )

    read = metrics.read

    def away_after_the_first_replay(revisions: Iterable[str]) -> dict[str, Reading]:
        metrics.away = bool(replay.urls)
        return read(revisions)

    monkeypatch.setattr(metrics, "read", away_after_the_first_replay)
    assert await watched.run() == "roll_back"
    verdicts = [event.data.verdict for event in watched.events if event.kind == "window_judged"]
    assert [verdict["no_data"] for verdict in verdicts[-3:]] == [True, True, True]
    assert len(replay.urls) == 1
    assert all(window["source"] == "users" for window in windows(watched))


async def test_a_watch_that_is_made_anew_goes_on_replaying(
    release_run: ReleaseRun, live: Live, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Windows longer than the reporting interval make a watch each; the judge still knows what it lacked."""
    monkeypatch.setattr(step_watcher, "REPORT_INTERVAL_S", 0.0)
    model, journal, lease = live(), JournalDouble(), LeaseDouble()
    lasting = replace(REPLAYING, max_bake_s=30.0)
    for _ in range(40):
        replay = ReplayDouble()
        watched, _, _ = watch(
            release_run, model, NOBODY, plan=lasting, journal=journal, replay=replay, lease=lease
        )
        decision = await watched.run()
        if decision != "continue":
            break
    assert decision == "advance"
    assert replay.urls != []


async def test_a_paused_canary_is_not_topped_up(release_run: ReleaseRun, live: Live) -> None:
    """While a person looks nothing ends, so nothing is lacking."""
    lease, replay = LeaseDouble(), ReplayDouble()
    watched, _, _ = watch(release_run, live(), NOBODY, plan=REPLAYING, lease=lease, replay=replay)
    running = asyncio.create_task(watched.run())
    await until(lambda: "weight_observed" in kinds(watched))
    pause(lease)
    watched._cluster._lease_holder._due_s = 0.0
    await until(lambda: kinds(watched).count("window_judged") > 8)
    assert replay.urls == []
    running.cancel()


async def test_replayed_requests_do_not_stand_for_users_whom_the_router_leads_elsewhere(
    release_run: ReleaseRun, live: Live
) -> None:
    """A candidate without users does not pass by golden requests while stable has plenty of users."""
    replay = ReplayDouble()
    plan = replace(PLAN, on_inconclusive="golden_replay")
    watched, _, _ = watch(release_run, live(), ((100, 0), (0, 0)), plan=plan, replay=replay)
    assert await watched.run() == "roll_back"
    assert "it sent 0 % of the users to the candidate" in newest(watched, "rollback_started").reason
