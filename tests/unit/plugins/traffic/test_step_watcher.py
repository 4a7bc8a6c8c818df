"""A step of a canary as it is watched, over a model of Knative."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace

import pytest

from slipway.release_run import ReleaseRun
from slipway.traffic import step_watcher
from slipway_core.errors import (
    AlreadyReleasedError,
    CanaryRefusedError,
    ForeignChangeError,
    TimedOutError,
)
from slipway_core.spec.rollout.plan import Exposure, RolloutStep
from tests.support.canary.doubles import (
    CANDIDATE_URI,
    STABLE_URI,
    JournalDouble,
    LeaseDouble,
)
from tests.support.plugins.watching import (
    FAILING,
    HALF,
    HEALTHY,
    LONG,
    PLAN,
    Live,
    held,
    kinds,
    newest,
    watch,
)
from tests.support.waiting import until


async def test_a_healthy_candidate_gets_its_share_and_the_step_advances(
    release_run: ReleaseRun, live: Live
) -> None:
    """The weight is seen in the traffic before the first window, and a step without a fault is passed."""
    model = live()
    watched, _, _ = watch(release_run, model, HEALTHY)
    assert await watched.run() == "advance"
    assert model.users() == {STABLE_URI: 80, CANDIDATE_URI: 20}
    assert kinds(watched)[0] == "weight_observed"
    assert kinds(watched)[-1] == "step_finished"
    assert newest(watched, "step_finished").verdict == "pass"
    # What a pass does not rest on is said with it.
    assert newest(watched, "step_finished").reason.endswith("source does not see: errors inside streams.")
    assert newest(watched, "window_judged").first_bad_at is None


async def test_a_failing_candidate_has_no_user_left_before_the_event_is_yielded(
    release_run: ReleaseRun, live: Live
) -> None:
    """A verdict against the candidate is carried out before anybody is told of it, and dated."""
    model = live()
    watched, _, _ = watch(release_run, model, FAILING)
    assert await watched.run() == "roll_back"
    assert model.share(CANDIDATE_URI) == 0
    assert kinds(watched)[-3:] == ["step_finished", "rollback_started", "weight_observed"]
    assert newest(watched, "rollback_started").by == "judge"
    assert newest(watched, "weight_observed").weight == 0
    assert newest(watched, "window_judged").first_bad_at is not None


async def test_a_fault_that_hits_both_alike_does_not_fail_the_candidate(
    release_run: ReleaseRun, live: Live
) -> None:
    """The candidate is held against the stable version in the same window, not against a fixed rate."""
    watched, _, _ = watch(release_run, live(), ((80, 8), (20, 2)))
    assert await watched.run() == "advance"


async def test_a_metrics_source_that_is_away_ends_the_canary(release_run: ReleaseRun, live: Live) -> None:
    """Not to see is not to be well: after the windows that the plan allows, the users are taken back."""
    model = live()
    watched, _, metrics = watch(release_run, model, HEALTHY)
    metrics.away = True
    assert await watched.run() == "roll_back"
    assert model.share(CANDIDATE_URI) == 0
    assert kinds(watched).count("window_judged") == PLAN.max_no_data_windows
    assert newest(watched, "window_judged").verdict["no_data"]


async def test_too_little_traffic_is_never_a_pass(release_run: ReleaseRun, live: Live) -> None:
    """A step without enough candidate requests ends, at the limit of its bake, with the users on stable."""
    model = live()
    watched, _, _ = watch(release_run, model, ((1, 0), (0, 0)))
    assert await watched.run() == "roll_back"
    assert newest(watched, "step_finished").verdict == "inconclusive"
    assert model.share(CANDIDATE_URI) == 0


async def test_a_plan_that_holds_keeps_watching_and_reports(
    release_run: ReleaseRun, live: Live, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With `on_inconclusive: hold` nothing is taken back and nothing is passed."""
    model = live()
    watched, _, _ = watch(release_run, model, ((1, 0), (0, 0)), plan=replace(PLAN, on_inconclusive="hold"))
    assert await watched.run() == "hold"
    assert model.share(CANDIDATE_URI) == 20


async def test_a_long_step_reports_what_it_saw_so_far(
    release_run: ReleaseRun, live: Live, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A bake is not silent for longer than the reporting interval."""
    monkeypatch.setattr(step_watcher, "REPORT_INTERVAL_S", 0.1)
    long = replace(PLAN, steps=(RolloutStep(weight=20, bake_s=60),), max_bake_s=60.0)
    watched, _, _ = watch(release_run, live(), HEALTHY, plan=long)
    assert await watched.run() == "continue"
    assert "window_judged" in kinds(watched)
    assert watched.elapsed_s > 0


async def test_a_conflict_only_means_to_look_again(release_run: ReleaseRun, live: Live) -> None:
    """Patches that meet a conflict are dropped and decided anew, on the way up and on the way back."""
    model = live()
    watched, service, _ = watch(release_run, model, FAILING)
    service.conflicts = 3
    assert await watched.run() == "roll_back"
    assert model.share(CANDIDATE_URI) == 0


async def test_a_candidate_that_does_not_come_up_is_refused(release_run: ReleaseRun, live: Live) -> None:
    """Its revision never gets ready, so no user is ever led to it."""
    model = live(unloadable=frozenset({CANDIDATE_URI}))
    watched, _, _ = watch(release_run, model, HEALTHY)
    with pytest.raises(CanaryRefusedError, match="does not come up"):
        await watched.run()
    assert model.users() == {STABLE_URI: 100}


async def test_what_was_rolled_back_is_not_started_again(release_run: ReleaseRun, live: Live) -> None:
    """A second canary of a version that was taken back needs force."""
    model = live()
    watched, service, _ = watch(release_run, model, FAILING)
    assert await watched.run() == "roll_back"
    for _ in range(8):
        await watched.shield()
        service.get()
    again, _, _ = watch(release_run, model, HEALTHY)
    with pytest.raises(AlreadyReleasedError, match=r"rolled back|under way"):
        await again.run()
    assert model.share(CANDIDATE_URI) == 0


async def test_traffic_that_never_shows_the_weight_times_out(
    release_run: ReleaseRun, live: Live, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ready alone does not count: without the weight in the observed traffic the step does not begin."""
    model = live()
    monkeypatch.setattr(model, "_route", lambda: None)
    slow = release_run.spec.rollout.model_copy(update={"ready_timeout_s": 0.2})
    late = release_run.model_copy(update={"spec": release_run.spec.model_copy(update={"rollout": slow})})
    watched, _, _ = watch(late, model, HEALTHY)
    with pytest.raises(TimedOutError, match="in time"):
        await watched.run()
    assert watched.events == []


async def test_the_second_step_raises_the_share_of_the_canary_under_way(
    release_run: ReleaseRun, live: Live
) -> None:
    """A later step shifts the weight of the same revision; it makes no new one."""
    model = live()
    first, _, _ = watch(release_run, model, HEALTHY)
    assert await first.run() == "advance"
    second, _, _ = watch(release_run, model, HALF, step=1)
    assert await second.run() == "advance"
    assert model.users() == {STABLE_URI: 50, CANDIDATE_URI: 50}
    assert len(model.revisions) == 2


@pytest.mark.parametrize("traffic", [((100, 0), (0, 0)), ((40, 0), (60, 0))])
async def test_no_step_passes_at_which_the_router_leads_others_to_the_candidate(
    release_run: ReleaseRun, live: Live, traffic: tuple[tuple[int, int], tuple[int, int]]
) -> None:
    """The status says 20 %; where the router counts nobody, or most, the step ends as inconclusive and says so."""
    watched, _, _ = watch(release_run, live(), traffic, plan=replace(PLAN, on_inconclusive="hold"))
    assert await watched.run() == "hold"
    verdict = newest(watched, "window_judged").verdict
    assert verdict["status"] == "inconclusive"
    assert "The router does not do what the status says: at weight 20 %" in verdict["reason"]


async def test_a_watch_that_died_goes_on_with_its_judge_and_its_events(
    release_run: ReleaseRun, live: Live, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A trigger made anew from what Airflow kept takes over what its predecessor saved after its last window."""
    monkeypatch.setattr(step_watcher, "REPORT_INTERVAL_S", 0.1)
    long = replace(PLAN, steps=(RolloutStep(weight=20, bake_s=60),), max_bake_s=60.0)
    model, journal, lease = live(), JournalDouble(), LeaseDouble()
    died, _, metrics = watch(release_run, model, HEALTHY, plan=long, journal=journal, lease=lease)
    assert await died.run() == "continue"
    again, _, later = watch(release_run, model, HEALTHY, plan=long, journal=journal, lease=lease)
    later.readings = metrics.readings + 30
    assert await again.run() == "continue"
    assert again.elapsed_s > died.elapsed_s
    assert again.events[: len(died.events)] == died.events
    # What users met while nobody watched is counted, and no window.
    assert newest(again, "window_judged").candidate_requests == 20 * (later.readings - 1)
    assert again.judge.unjudged.candidate_requests >= 20 * 30
    windows = [event.data.verdict for event in again.events if event.kind == "window_judged"]
    assert all(verdict["window"]["seconds"] < 2 * PLAN.window_s + 0.1 for verdict in windows)
    assert again.elapsed_s == pytest.approx(sum(verdict["window"]["seconds"] for verdict in windows))


async def test_another_watch_takes_over_the_reading_but_not_the_judge(
    release_run: ReleaseRun, live: Live
) -> None:
    """What users met between two steps is counted from the last reading on; a judge comes from the task alone."""
    model, journal = live(), JournalDouble()
    first, _, metrics = watch(release_run, model, HEALTHY, journal=journal)
    assert await first.run() == "advance"
    second, _, later = watch(release_run, model, HALF, step=1, journal=journal, name="another")
    later.readings = metrics.readings + 30
    assert await second.run() == "advance"
    judged = next(event.data for event in second.events if event.kind == "window_judged")
    assert judged.candidate_requests > 20 * 30
    assert judged.verdict["window"]["candidate"]["requests"] < 20 * 30
    assert judged.verdict["statistics"]["canary"]["windows"] == 1
    assert not judged.verdict["no_data"]


async def test_the_same_data_again_is_no_window(release_run: ReleaseRun, live: Live) -> None:
    """A source that shows nothing new is asked again, until it says itself that its data are too old."""
    watched, _, metrics = watch(release_run, live(), HEALTHY)
    metrics.frozen = True
    running = asyncio.create_task(watched.run())
    await asyncio.sleep(0.3)
    assert kinds(watched) == ["weight_observed"]
    metrics.away = True
    assert await running == "roll_back"
    assert all(event.data.verdict["no_data"] for event in watched.events if event.kind == "window_judged")


async def test_a_budget_of_exposure_ends_the_canary(release_run: ReleaseRun, live: Live) -> None:
    """Once users have met as much of the candidate as the plan allows it is taken back, and the reason says so."""
    model = live()
    watched, _, _ = watch(release_run, model, HEALTHY, plan=replace(PLAN, exposure=Exposure(max_requests=10)))
    assert await watched.run() == "roll_back"
    assert model.share(CANDIDATE_URI) == 0
    assert "budget" in newest(watched, "rollback_started").reason


async def test_a_canary_whose_guard_ended_it_is_not_gone_on_with(release_run: ReleaseRun, live: Live) -> None:
    """A lease that was ended while nobody renewed it ends the canary, and the record says by whom."""
    model, lease = live(), LeaseDouble()
    watched, _, _ = watch(release_run, model, HEALTHY, plan=LONG, lease=lease)
    running = asyncio.create_task(watched.run())
    await until(lambda: "window_judged" in kinds(watched))
    lease.end(by="guard", reason="its lease was not renewed")
    watched._cluster._lease_holder._due_s = 0.0
    assert await running == "roll_back"
    assert model.share(CANDIDATE_URI) == 0
    assert newest(watched, "rollback_started").by == "guard"
    assert "not renewed" in newest(watched, "rollback_started").reason


async def test_an_ended_canary_is_not_begun_again(release_run: ReleaseRun, live: Live) -> None:
    """A task that comes back finds the end of its canary before it raises any weight."""
    model, lease = live(), held(release_run, 1)
    lease.end(by="guard", reason="its lease was not renewed")
    for step in (0, 1):
        watched, service, _ = watch(release_run, model, HEALTHY, step=step, lease=lease)
        if step == 0:
            assert await watched.run() == "roll_back"
            assert all(body["spec"]["predictor"]["canaryTrafficPercent"] == 0 for body in service.patches)
    assert model.share(CANDIDATE_URI) == 0


async def test_who_sees_nothing_does_not_renew(release_run: ReleaseRun, live: Live) -> None:
    """Without answers to look at the lease is left to run out."""
    lease = LeaseDouble()
    watched, _, metrics = watch(release_run, live(), HEALTHY, lease=lease)
    metrics.away = True
    running = asyncio.create_task(watched.run())
    await until(lambda: "window_judged" in kinds(watched))
    renewed = lease.renewals
    watched._cluster._lease_holder._due_s = 0.0
    assert await running == "roll_back"
    assert lease.renewals == renewed


async def test_a_weight_that_someone_else_changed_is_told_and_not_overwritten(
    release_run: ReleaseRun, live: Live
) -> None:
    """A foreign hand on the InferenceService ends the step with an error that names what was found."""
    model = live()
    watched, service, _ = watch(release_run, model, HEALTHY, plan=LONG)
    running = asyncio.create_task(watched.run())
    await until(lambda: "window_judged" in kinds(watched))
    patched = len(service.patches)
    model.patch({"metadata": {}, "spec": {"predictor": {"canaryTrafficPercent": 70}}})
    with pytest.raises(ForeignChangeError, match="something else changed"):
        await running
    assert len(service.patches) == patched


async def test_an_api_that_is_away_does_not_end_a_watch(release_run: ReleaseRun, live: Live) -> None:
    """The judge goes on while the cluster's API is away, beyond the bake: without it no next step can begin."""
    lease = LeaseDouble()
    watched, service, _ = watch(release_run, live(), HEALTHY, lease=lease)
    running = asyncio.create_task(watched.run())
    await until(lambda: "weight_observed" in kinds(watched))
    lease.away = service.away = True
    await until(lambda: watched.elapsed_s > 2 * PLAN.max_bake_s)
    assert not running.done()
    lease.away = service.away = False
    assert await running == "advance"


async def test_the_log_has_one_line_a_window(
    release_run: ReleaseRun, live: Live, caplog: pytest.LogCaptureFixture
) -> None:
    """What will happen, a line of columns for each window, the verdict when it changes, and how the step ended."""
    caplog.set_level(logging.INFO, logger=step_watcher.__name__)
    watched, _, _ = watch(release_run, live(), HEALTHY)
    await watched.run()
    lines = caplog.messages
    assert lines[0].startswith("step 1 of 2: weight 20 % is set, 20 % is seen in the traffic; ")
    windows = [line for line in lines if "| evidence" in line]
    assert len(windows) == kinds(watched).count("window_judged")
    assert all("|  20 % |" in line for line in windows)
    assert lines[-1] == "the step at 20 % is over: pass"
    changes = [line for line in lines[1:-1] if line not in windows]
    assert len(changes) == len({change.split(":")[0] for change in changes})


async def test_the_log_says_why_users_are_taken_back(
    release_run: ReleaseRun, live: Live, caplog: pytest.LogCaptureFixture
) -> None:
    """Who did it and why, and that nobody is there any more."""
    caplog.set_level(logging.INFO, logger=step_watcher.__name__)
    watched, _, _ = watch(release_run, live(), FAILING)
    await watched.run()
    assert any(line.startswith("fail: The candidate fails: ") for line in caplog.messages)
    assert "users are moved back, by judge" in caplog.messages
    assert caplog.messages[-1] == "no new requests reach the candidate: the traffic shows weight 0"
