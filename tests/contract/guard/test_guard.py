"""The guard as a process against an emulated cluster: canaries that are driven, and canaries that nobody drives."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from pathlib import Path

import pytest
from kubernetes.client.rest import ApiException
from urllib3.exceptions import HTTPError

from slipway_core.rollout.next_action import Done, Patch, Promote, RollBack, ShiftWeight, next_action
from tests.support.cluster.emulator import Emulator
from tests.support.guard.guarded_canary import CANDIDATE_URI, NAME, STABLE_URI
from tests.support.guard.stage import LEASES, SERVICES, SLACK_S, GuardProcess, Stage
from tests.support.waiting import wait_until

Guards = Callable[..., GuardProcess]
Stages = Callable[..., Stage]


@contextmanager
def driven(stage: Stage, every_s: float = 0.5) -> Iterator[None]:
    """A release that is alive: it renews its lease, and tries again where the API does not answer."""
    stop = threading.Event()

    def renew() -> None:
        while not stop.wait(every_s):
            with suppress(ApiException, HTTPError):
                stage.renew()

    thread = threading.Thread(target=renew, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(SLACK_S)


def looks_on(guard: GuardProcess, seconds: float) -> None:
    """Let the guard look on for a while: that many seconds, and as many looks as it takes to end a canary."""
    touched = {guard.alive_file.stat().st_mtime_ns}
    began_s = time.monotonic()

    def looked() -> bool:
        touched.add(guard.alive_file.stat().st_mtime_ns)
        return len(touched) > 10 and time.monotonic() > began_s + seconds

    wait_until(looked, "the guard has looked on", seconds + SLACK_S)


def test_a_canary_whose_lease_ran_out_is_taken_to_weight_0(stage: Stage, start_guard: Guards) -> None:
    """Users are off the candidate soon after the lease's duration, not before; the lease and an event say why."""
    guard = start_guard(stage)
    stage.start_canary(weight=20, lease_s=2)
    guard.wait_for("watching")
    assert stage.renew()
    renewed_s = time.monotonic()
    safe_s = stage.wait_for_weight_0(2 + SLACK_S)
    assert safe_s - renewed_s >= 1.9
    guard.wait_for("users_safe")
    lease = stage.lease()
    assert lease is not None
    assert lease.ended_by == "guard"
    assert "was not renewed for 2 s" in lease.ended_reason
    (event,) = wait_until(stage.events, "an event")
    assert (event.reason, event.type, event.source.component) == ("CanaryEnded", "Warning", "slipway-guard")
    assert event.involved_object.uid == stage.observed().uid
    assert stage.observed().storage_uri == CANDIDATE_URI


def test_a_canary_whose_lease_is_renewed_is_left_alone(stage: Stage, start_guard: Guards) -> None:
    """Over several durations of its lease, a canary that is driven keeps its weight, and nothing is written."""
    guard = start_guard(stage)
    stage.start_canary(weight=20, lease_s=4)
    with driven(stage):
        guard.wait_for("watching")
        looks_on(guard, 8)
    assert stage.candidate_share() == 20
    lease = stage.lease()
    assert lease is not None
    assert not lease.is_ended
    assert set(guard.events()) == {"started", "watching"}


def test_a_lease_that_is_renewed_late_is_renewed(stage: Stage, start_guard: Guards) -> None:
    """A renewal in the last third of the lease is one in time, again and again."""
    guard = start_guard(stage)
    stage.start_canary(weight=20, lease_s=5)
    guard.wait_for("watching")
    with driven(stage, every_s=3.5):
        looks_on(guard, 11)
    assert stage.candidate_share() == 20
    assert set(guard.events()) == {"started", "watching"}


def test_what_the_release_decided_before_the_end_comes_too_late(stage: Stage, start_guard: Guards) -> None:
    """A release that wakes up after the guard's end: its renewal and its patch conflict, and users stay on stable."""
    stage.start_canary(weight=20, lease_s=1)
    seen_lease, decided = stage.lease(), next_action(ShiftWeight(50, CANDIDATE_URI), stage.observed())
    assert isinstance(decided, Patch)
    guard = start_guard(stage)
    stage.wait_for_weight_0(1 + SLACK_S)
    assert not stage.renew(seen_lease)
    assert not stage.patch(SERVICES, NAME, decided.body)
    guard.wait_for("users_safe")
    stage.drive(RollBack(STABLE_URI, CANDIDATE_URI))
    assert isinstance(next_action(RollBack(STABLE_URI, CANDIDATE_URI), stage.observed()), Done)


def test_a_canary_without_a_lease_is_ended_after_the_time_that_is_given(
    make_stage: Stages, start_guard: Guards
) -> None:
    """A lease that was never made, and one that is deleted under way, are leases that ran out."""
    for deleted in (False, True):
        stage = make_stage()
        stage.start_canary(weight=20, lease_s=60 if deleted else None)
        guard = start_guard(stage, "--missing-lease-s", "2")
        guard.wait_for("watching")
        if deleted:
            stage.delete_lease()
        gone_s = time.monotonic()
        assert stage.wait_for_weight_0(2 + SLACK_S) - gone_s >= 1.5
        guard.wait_for("users_safe")
        assert len(wait_until(stage.events, "an event")) == 1
        assert stage.lease() is None


def test_a_guard_that_is_restarted_watches_anew(stage: Stage, start_guard: Guards) -> None:
    """A guard that crashed is replaced by one without memory: it takes one lease more, and the end is the same."""
    stage.start_canary(weight=20, lease_s=3)
    first = start_guard(stage)
    first.wait_for("watching")
    first.kill()
    second = start_guard(stage)
    second.wait_for("watching")
    stage.wait_for_weight_0(3 + SLACK_S)
    second.wait_for("users_safe")
    assert "canary_ended" not in first.events()


def test_two_guards_at_once_do_what_one_does(stage: Stage, start_guard: Guards) -> None:
    """Two guards end a canary together: weight 0, one end of the lease, one event."""
    guards = [start_guard(stage), start_guard(stage)]
    stage.start_canary(weight=20, lease_s=2)
    stage.wait_for_weight_0(2 + SLACK_S)
    wait_until(lambda: any("users_safe" in guard.events() for guard in guards), "one has seen it through")
    for guard in guards:
        looks_on(guard, 1)
        assert guard.is_running
    assert len(stage.events()) == 1
    assert sum(guard.events().count("patched") for guard in guards) == 1
    assert stage.observed().canary_percent == 0


@pytest.mark.parametrize("hours", [-30, 30])
def test_clocks_that_differ_by_hours_change_nothing(
    make_stage: Stages, start_guard: Guards, hours: int
) -> None:
    """A release whose clock is far off keeps its canary while it renews the lease, and loses it afterwards."""
    stage = make_stage(skew=timedelta(hours=hours))
    stage.start_canary(weight=20, lease_s=4)
    guard = start_guard(stage)
    with driven(stage):
        guard.wait_for("watching")
        looks_on(guard, 5)
        assert stage.candidate_share() == 20
    stage.wait_for_weight_0(4 + SLACK_S)


@pytest.fixture
def own_emulator(tmp_path: Path) -> Iterator[Emulator]:
    """A cluster whose API may go away."""
    emulator = Emulator(tmp_path / "cluster")
    emulator.start()
    yield emulator
    emulator.kill()


def test_a_guard_outlives_an_api_that_goes_away(
    make_stage: Stages, start_guard: Guards, own_emulator: Emulator
) -> None:
    """Longer than a lease without an API: a release that comes back soon keeps its canary, one that does not, not."""
    stage = make_stage(own_emulator)
    stage.start_canary(weight=20, lease_s=4)
    guard = start_guard(stage, emulator=own_emulator)
    with driven(stage):
        guard.wait_for("watching")
        own_emulator.kill()
        guard.wait_for("api_unavailable")
        looks_on(guard, 6)
        own_emulator.start()
        guard.wait_for("api_back")
        looks_on(guard, 3)
        assert stage.candidate_share() == 20
    own_emulator.kill()
    looks_on(guard, 6)
    own_emulator.start()
    stage.wait_for_weight_0(4 + SLACK_S)
    guard.wait_for("users_safe")
    assert guard.is_running


def test_sigterm_ends_the_watch_cleanly(stage: Stage, start_guard: Guards) -> None:
    """The guard ends at once with exit code 0 and says so; a canary that is driven is not touched by that."""
    stage.start_canary(weight=20, lease_s=60)
    guard = start_guard(stage)
    guard.wait_for("watching")
    assert guard.stop() == 0
    assert guard.events()[-1] == "stopped"
    assert stage.candidate_share() == 20


def test_once_ends_at_once_where_no_canary_is(stage: Stage, start_guard: Guards) -> None:
    """A CronJob's run has nothing to watch most of the time: exit code 0."""
    guard = start_guard(stage, "--once")
    assert guard.wait() == 0
    assert guard.events() == ["started", "stopped"]


def test_once_ends_a_dead_canary_and_leaves_a_living_one(make_stage: Stages, start_guard: Guards) -> None:
    """One run watches for as long as the lease lasts: it sees a dead canary to weight 0, and finds a living one so."""
    dead, living = make_stage(), make_stage()
    for stage in (dead, living):
        stage.start_canary(weight=20, lease_s=3)
    with driven(living):
        guards = [start_guard(stage, "--once") for stage in (dead, living)]
        assert [guard.wait(3 + SLACK_S) for guard in guards] == [0, 0]
    assert (dead.candidate_share(), living.candidate_share()) == (0, 20)
    assert len(dead.events()) == 1


def test_once_that_cannot_end_a_canary_says_so_by_its_exit_code(stage: Stage, start_guard: Guards) -> None:
    """A canary that somebody changed is left alone, lease and all, and the run fails, so that people look."""
    stage.start_canary(weight=20, lease_s=1)
    third = {"spec": {"predictor": {"model": {"storageUri": "s3://third"}}}}
    assert stage.patch(SERVICES, NAME, third)
    guard = start_guard(stage, "--once")
    assert guard.wait(1 + SLACK_S) == 1
    assert "left_alone" in guard.events()
    lease = stage.lease()
    assert lease is not None
    assert not lease.is_ended


def test_somebody_else_can_end_a_canary_by_its_lease(stage: Stage, start_guard: Guards) -> None:
    """Whoever marks the lease as ended has the guard take the canary to weight 0 at its next look."""
    stage.start_canary(weight=20, lease_s=60)
    guard = start_guard(stage)
    guard.wait_for("watching")
    notes = {"slipway.dev/ended-by": "an operator", "slipway.dev/ended-reason": "it smells"}
    assert stage.patch(LEASES, f"slipway-{NAME}", {"metadata": {"annotations": notes}})
    stage.wait_for_weight_0(SLACK_S)
    (event,) = wait_until(stage.events, "an event")
    assert "it was ended by an operator: it smells" in event.message


def test_a_promotion_that_begins_late_finds_its_canary(stage: Stage, start_guard: Guards) -> None:
    """The last step's holder has handed over: longer than a lease lasts nobody renews it, and nobody is taken back."""
    guard = start_guard(stage)
    stage.start_canary(weight=99, lease_s=2)
    guard.wait_for("watching")
    assert stage.renew(lease_s=60)
    looks_on(guard, 4)
    assert stage.candidate_share() == 99
    assert stage.renew(lease_s=2)
    stage.drive(Promote(CANDIDATE_URI))
    assert stage.candidate_share() == 100


def test_a_canary_that_was_handed_over_to_nobody_is_taken_to_weight_0(
    stage: Stage, start_guard: Guards
) -> None:
    """Airflow has died in between: the candidate keeps its weight for the time of the hand-over, and no longer."""
    guard = start_guard(stage)
    stage.start_canary(weight=99, lease_s=2)
    guard.wait_for("watching")
    assert stage.renew(lease_s=5)
    renewed_s = time.monotonic()
    assert stage.wait_for_weight_0(5 + SLACK_S) - renewed_s >= 4.9
