"""include.guard.watch: which canaries are ended, how, and which are left alone."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest

from include.guard.watch import Sight
from include.model_release.rollout.lease import SERVER_SKEW_S
from include.model_release.rollout.next_action import (
    Done,
    Patch,
    RollBack,
    ShiftWeight,
    next_action,
)
from tests.support.guard.lines import Lines
from tests.support.guard.world import (
    CANDIDATE_URI,
    EPOCH,
    LEASE_S,
    NAME,
    NAMESPACE,
    SERVICES,
    STABLE_URI,
    StoreCluster,
    World,
)


def test_a_canary_that_nobody_drives_is_taken_to_weight_0() -> None:
    """Once the lease has gone unrenewed for its duration, all users are on stable, and the spec still names both."""
    world = World(weight=20)
    guard = world.guard()
    world.pass_time(LEASE_S, guard)
    assert world.candidate_share() == 20
    world.pass_time(3, guard)
    observed = world.observed()
    assert (observed.canary_percent, world.candidate_share()) == (0, 0)
    assert observed.storage_uri == CANDIDATE_URI
    assert guard.look() == Sight()


def test_the_lease_is_marked_before_the_weight_is_changed() -> None:
    """The order that makes it safe: lease, then InferenceService, then what people are told."""
    world = World()
    cluster = StoreCluster(world)
    world.pass_time(LEASE_S + 5, world.guard(cluster))
    assert cluster.writes == ["patch_lease", "patch_service", "create_event"]
    lease = world.lease()
    assert lease is not None
    assert (lease.ended_by, lease.ended_at) == ("guard", EPOCH + timedelta(seconds=LEASE_S + 1))
    assert lease.ended_reason == "its lease of 60 s was not renewed for 60 s"


def test_people_are_told_by_an_event_on_the_inference_service() -> None:
    """The event names both versions, the reason and the share that the candidate had."""
    world = World(weight=20)
    world.pass_time(LEASE_S + 5, world.guard())
    (event,) = world.events()
    observed = world.observed()
    assert event["involvedObject"]["uid"] == observed.uid
    assert (event["reason"], event["type"]) == ("CanaryEnded", "Warning")
    for words in (CANDIDATE_URI, STABLE_URI, "20 %", "was not renewed for 60 s"):
        assert words in event["message"]


def test_a_canary_that_is_driven_is_left_alone() -> None:
    """As long as its lease is renewed, a guard writes nothing at all, however long the canary takes."""
    world = World()
    cluster = StoreCluster(world)
    world.pass_time(20 * LEASE_S, world.guard(cluster), renew=True)
    assert cluster.writes == []
    assert world.candidate_share() == 20


@pytest.mark.parametrize("hours", [-7, 7])
def test_clocks_that_differ_by_hours_change_nothing(hours: int) -> None:
    """A release whose clock is hours off keeps its canary while it renews, and loses it when it does not."""
    world = World(with_lease=False)
    world.holder_skew = timedelta(hours=hours)
    world.acquire()
    guard = world.guard()
    world.pass_time(5 * LEASE_S, guard, renew=True)
    assert world.candidate_share() == 20
    world.pass_time(LEASE_S + 3, guard)
    assert world.candidate_share() == 0


def test_a_renewal_at_the_last_moment_wins() -> None:
    """A lease that is renewed between the guard's look and its mark is not ended, and nothing else happens."""
    world = World()
    cluster = StoreCluster(world)
    cluster.before_write["patch_lease"] = world.renew
    guard = world.guard(cluster)
    world.pass_time(LEASE_S + 10, guard)
    assert cluster.writes == []
    lease = world.lease()
    assert lease is not None
    assert not lease.is_ended
    assert world.candidate_share() == 20
    world.pass_time(LEASE_S, guard)
    assert world.candidate_share() == 0


def test_what_a_release_decided_before_the_end_comes_too_late() -> None:
    """A release that wakes up after the guard's end can neither renew its lease nor raise the weight."""
    world = World()
    seen_lease, seen = world.lease(), world.observed()
    decided = next_action(ShiftWeight(50, CANDIDATE_URI), seen)
    assert isinstance(decided, Patch)
    world.pass_time(LEASE_S + 5, world.guard())
    assert not world.renew(seen_lease)
    assert not world._patch(SERVICES, NAME, decided.body)
    assert world.candidate_share() == 0


def test_a_release_that_comes_back_finishes_the_rollback() -> None:
    """The guard leaves the object so that the rollback goes on from there, to stable alone."""
    world = World()
    guard = world.guard()
    world.pass_time(LEASE_S + 5, guard)
    for _ in range(20):
        action = next_action(RollBack(STABLE_URI, CANDIDATE_URI), world.observed())
        if isinstance(action, Done):
            break
        if isinstance(action, Patch):
            assert world._patch(SERVICES, NAME, action.body)
        world.pass_time(1, guard)
    assert isinstance(action, Done)
    assert world.observed().storage_uri == STABLE_URI
    assert len(world.events()) == 1


def test_a_canary_without_a_lease_is_ended_after_one_period() -> None:
    """A lease that was never made, or was deleted under way, is like one that nobody renews."""
    never = World(with_lease=False)
    guard = never.guard(missing_lease_s=30.0)
    never.pass_time(30, guard)
    assert never.candidate_share() == 20
    never.pass_time(3, guard)
    assert never.candidate_share() == 0
    deleted = World()
    guard = deleted.guard(missing_lease_s=30.0)
    deleted.pass_time(50, guard)
    deleted.store.delete("leases", NAMESPACE, "slipway-digits")
    deleted.pass_time(30, guard)
    assert deleted.candidate_share() == 20
    deleted.pass_time(3, guard)
    assert deleted.candidate_share() == 0


def test_a_guard_that_was_restarted_watches_for_one_lease_more() -> None:
    """Without memory a guard gives a lease its whole duration, and no more than that."""
    world = World()
    world.pass_time(LEASE_S - 1, world.guard())
    restarted = world.guard()
    world.pass_time(LEASE_S, restarted)
    assert world.candidate_share() == 20
    world.pass_time(3, restarted)
    assert world.candidate_share() == 0


def test_a_guard_that_was_restarted_goes_on_with_what_it_had_begun() -> None:
    """A lease that was marked as ended is acted on at the first look; the reason is the one that was given."""
    world = World()
    cluster = StoreCluster(world)
    cluster.trouble["patch_service"] = "before"
    world.pass_time(LEASE_S + 1, world.guard(cluster))
    assert (cluster.writes, world.candidate_share()) == (["patch_lease"], 20)
    second = StoreCluster(world)
    world.pass_time(3, world.guard(second))
    assert world.candidate_share() == 0
    assert second.writes == ["patch_service", "create_event"]
    (event,) = world.events()
    assert "its lease of 60 s was not renewed for 60 s" in event["message"]


def test_a_guard_that_was_away_for_long_ends_at_its_first_look_what_the_server_knows_to_be_old() -> None:
    """The API server's own dates need no watching: a lease much older than clocks can differ has run out."""
    world = World()
    lease = world.store.get("leases", NAMESPACE, "slipway-digits")
    (manager,) = lease["metadata"]["managedFields"]
    cluster = StoreCluster(world)
    written = datetime.fromisoformat(manager["time"])
    cluster.server_time = written + timedelta(seconds=LEASE_S + SERVER_SKEW_S + 1)
    world.guard(cluster).look()
    assert world.observed().canary_percent == 0


def test_two_guards_at_once_do_it_once() -> None:
    """Two guards that look in turns end the canary with one patch and tell people once."""
    world = World()
    first, second = StoreCluster(world), StoreCluster(world)
    world.pass_time(LEASE_S + 10, world.guard(first), world.guard(second))
    assert world.candidate_share() == 0
    assert sorted(first.writes + second.writes) == ["create_event", "patch_lease", "patch_service"]


def test_a_guard_between_another_ones_two_writes_does_no_harm() -> None:
    """A second guard that finishes between the first one's mark and patch leaves the same end, told once."""
    world = World()
    first = StoreCluster(world)
    other = world.guard()

    def meanwhile() -> None:
        world.reconcile()
        other.look()
        world.reconcile()
        other.look()

    first.before_write["patch_service"] = meanwhile
    world.pass_time(LEASE_S + 5, world.guard(first))
    assert (world.observed().canary_percent, world.candidate_share()) == (0, 0)
    assert len(world.events()) == 1


def test_a_canary_whose_weight_cannot_be_read_is_ended() -> None:
    """A percent that is no number may be any: without a lease the candidate is taken to 0."""
    world = World(with_lease=False)
    world.controller_is_alive = False

    def break_it(obj: dict[str, Any]) -> None:
        obj["spec"]["predictor"]["canaryTrafficPercent"] = "many"

    world.store.mutate(SERVICES, NAMESPACE, NAME, break_it)
    world.pass_time(LEASE_S + 5, world.guard())
    assert world.observed().canary_percent == 0


def test_the_log_tells_the_story_one_line_each(lines: Lines) -> None:
    """Every step is a JSON object with time, level, event and the InferenceService."""
    world = World()
    world.pass_time(LEASE_S + 5, world.guard())
    told = lines()
    assert [line["event"] for line in told] == ["watching", "canary_ended", "patched", "users_safe"]
    assert {line["inference_service"] for line in told} == {f"{NAMESPACE}/{NAME}"}
    assert told[1] | {"at": ""} == {
        "at": "",
        "level": "warning",
        "event": "canary_ended",
        "inference_service": "models/digits",
        "reason": "its lease of 60 s was not renewed for 60 s",
        "weight": 20,
        "holder": "digits-3",
    }
