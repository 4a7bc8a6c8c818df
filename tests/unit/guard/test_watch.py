"""slipway_guard.watch: which canaries are ended, how, and which are left alone."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest

from slipway_core.rollout.lease import SERVER_SKEW_S
from slipway_core.rollout.next_action import (
    Done,
    Patch,
    RollBack,
    ShiftWeight,
    next_action,
)
from slipway_guard.watch import Sight
from tests.support.guard.guarded_canary import (
    CANDIDATE_URI,
    EPOCH,
    LEASE_S,
    NAME,
    NAMESPACE,
    SERVICES,
    STABLE_URI,
    GuardedCanary,
    StoreCluster,
)
from tests.support.guard.lines import Lines


def test_a_canary_that_nobody_drives_is_taken_to_weight_0() -> None:
    """Once the lease has gone unrenewed for its duration, all users are on stable, and the spec still names both."""
    canary = GuardedCanary(weight=20)
    guard = canary.guard()
    canary.pass_time(LEASE_S, guard)
    assert canary.candidate_share() == 20
    canary.pass_time(3, guard)
    observed = canary.observed()
    assert (observed.canary_percent, canary.candidate_share()) == (0, 0)
    assert observed.storage_uri == CANDIDATE_URI
    assert guard.look() == Sight()


def test_the_lease_is_marked_before_the_weight_is_changed() -> None:
    """The order that makes it safe: lease, then InferenceService, then what people are told."""
    canary = GuardedCanary()
    cluster = StoreCluster(canary)
    canary.pass_time(LEASE_S + 5, canary.guard(cluster))
    assert cluster.writes == ["patch_lease", "patch_service", "create_event"]
    lease = canary.lease()
    assert lease is not None
    assert (lease.ended_by, lease.ended_at) == ("guard", EPOCH + timedelta(seconds=LEASE_S + 1))
    assert lease.ended_reason == "its lease of 60 s was not renewed for 60 s"


def test_people_are_told_by_an_event_on_the_inference_service() -> None:
    """The event names both versions, the reason and the share that the candidate had."""
    canary = GuardedCanary(weight=20)
    canary.pass_time(LEASE_S + 5, canary.guard())
    (event,) = canary.events()
    observed = canary.observed()
    assert event["involvedObject"]["uid"] == observed.uid
    assert (event["reason"], event["type"]) == ("CanaryEnded", "Warning")
    for words in (CANDIDATE_URI, STABLE_URI, "20 %", "was not renewed for 60 s"):
        assert words in event["message"]


def test_a_canary_that_is_driven_is_left_alone() -> None:
    """As long as its lease is renewed, a guard writes nothing at all, however long the canary takes."""
    canary = GuardedCanary()
    cluster = StoreCluster(canary)
    canary.pass_time(20 * LEASE_S, canary.guard(cluster), renew=True)
    assert cluster.writes == []
    assert canary.candidate_share() == 20


def test_a_canary_that_was_handed_over_has_longer_and_no_longer() -> None:
    """Its holder has renewed the lease for the time until the promotion begins: the guard waits so long, not more."""
    canary = GuardedCanary(weight=99)
    guard = canary.guard()
    canary.pass_time(10, guard)
    assert canary.renew(lease_s=3 * LEASE_S)
    canary.pass_time(3 * LEASE_S, guard)
    assert canary.candidate_share() == 99
    canary.pass_time(3, guard)
    assert canary.candidate_share() == 0


def test_who_takes_over_makes_the_lease_short_again() -> None:
    """From the first renewal of the promotion on a dead Airflow is noticed as soon as ever."""
    canary = GuardedCanary(weight=99)
    guard = canary.guard()
    assert canary.renew(lease_s=3 * LEASE_S)
    canary.pass_time(2 * LEASE_S, guard)
    assert canary.renew(lease_s=LEASE_S)
    canary.pass_time(LEASE_S, guard)
    assert canary.candidate_share() == 99
    canary.pass_time(3, guard)
    assert canary.candidate_share() == 0


@pytest.mark.parametrize("hours", [-7, 7])
def test_clocks_that_differ_by_hours_change_nothing(hours: int) -> None:
    """A release whose clock is hours off keeps its canary while it renews, and loses it when it does not."""
    canary = GuardedCanary(with_lease=False)
    canary.holder_skew = timedelta(hours=hours)
    canary.acquire()
    guard = canary.guard()
    canary.pass_time(5 * LEASE_S, guard, renew=True)
    assert canary.candidate_share() == 20
    canary.pass_time(LEASE_S + 3, guard)
    assert canary.candidate_share() == 0


def test_a_renewal_at_the_last_moment_wins() -> None:
    """A lease that is renewed between the guard's look and its mark is not ended, and nothing else happens."""
    canary = GuardedCanary()
    cluster = StoreCluster(canary)
    cluster.before_write["patch_lease"] = canary.renew
    guard = canary.guard(cluster)
    canary.pass_time(LEASE_S + 10, guard)
    assert cluster.writes == []
    lease = canary.lease()
    assert lease is not None
    assert not lease.is_ended
    assert canary.candidate_share() == 20
    canary.pass_time(LEASE_S, guard)
    assert canary.candidate_share() == 0


def test_what_a_release_decided_before_the_end_comes_too_late() -> None:
    """A release that wakes up after the guard's end can neither renew its lease nor raise the weight."""
    canary = GuardedCanary()
    seen_lease, seen = canary.lease(), canary.observed()
    decided = next_action(ShiftWeight(50, CANDIDATE_URI), seen)
    assert isinstance(decided, Patch)
    canary.pass_time(LEASE_S + 5, canary.guard())
    assert not canary.renew(seen_lease)
    assert not canary._patch(SERVICES, NAME, decided.body)
    assert canary.candidate_share() == 0


def test_a_release_that_comes_back_finishes_the_rollback() -> None:
    """The guard leaves the object so that the rollback goes on from there, to stable alone."""
    canary = GuardedCanary()
    guard = canary.guard()
    canary.pass_time(LEASE_S + 5, guard)
    for _ in range(20):
        action = next_action(RollBack(STABLE_URI, CANDIDATE_URI), canary.observed())
        if isinstance(action, Done):
            break
        if isinstance(action, Patch):
            assert canary._patch(SERVICES, NAME, action.body)
        canary.pass_time(1, guard)
    assert isinstance(action, Done)
    assert canary.observed().storage_uri == STABLE_URI
    assert len(canary.events()) == 1


def test_a_canary_without_a_lease_is_ended_after_one_period() -> None:
    """A lease that was never made, or was deleted under way, is like one that nobody renews."""
    never = GuardedCanary(with_lease=False)
    guard = never.guard(missing_lease_s=30.0)
    never.pass_time(30, guard)
    assert never.candidate_share() == 20
    never.pass_time(3, guard)
    assert never.candidate_share() == 0
    deleted = GuardedCanary()
    guard = deleted.guard(missing_lease_s=30.0)
    deleted.pass_time(50, guard)
    deleted.store.delete("leases", NAMESPACE, "slipway-digits")
    deleted.pass_time(30, guard)
    assert deleted.candidate_share() == 20
    deleted.pass_time(3, guard)
    assert deleted.candidate_share() == 0


def test_a_guard_that_was_restarted_watches_for_one_lease_more() -> None:
    """Without memory a guard gives a lease its whole duration, and no more than that."""
    canary = GuardedCanary()
    canary.pass_time(LEASE_S - 1, canary.guard())
    restarted = canary.guard()
    canary.pass_time(LEASE_S, restarted)
    assert canary.candidate_share() == 20
    canary.pass_time(3, restarted)
    assert canary.candidate_share() == 0


def test_a_guard_that_was_restarted_goes_on_with_what_it_had_begun() -> None:
    """A lease that was marked as ended is acted on at the first look; the reason is the one that was given."""
    canary = GuardedCanary()
    cluster = StoreCluster(canary)
    cluster.trouble["patch_service"] = "before"
    canary.pass_time(LEASE_S + 1, canary.guard(cluster))
    assert (cluster.writes, canary.candidate_share()) == (["patch_lease"], 20)
    second = StoreCluster(canary)
    canary.pass_time(3, canary.guard(second))
    assert canary.candidate_share() == 0
    assert second.writes == ["patch_service", "create_event"]
    (event,) = canary.events()
    assert "its lease of 60 s was not renewed for 60 s" in event["message"]


def test_a_guard_that_was_away_for_long_ends_at_its_first_look_what_the_server_knows_to_be_old() -> None:
    """The API server's own dates need no watching: a lease much older than clocks can differ has run out."""
    canary = GuardedCanary()
    lease = canary.store.get("leases", NAMESPACE, "slipway-digits")
    (manager,) = lease["metadata"]["managedFields"]
    cluster = StoreCluster(canary)
    written = datetime.fromisoformat(manager["time"])
    cluster.server_time = written + timedelta(seconds=LEASE_S + SERVER_SKEW_S + 1)
    canary.guard(cluster).look()
    assert canary.observed().canary_percent == 0


def test_two_guards_at_once_do_it_once() -> None:
    """Two guards that look in turns end the canary with one patch and tell people once."""
    canary = GuardedCanary()
    first, second = StoreCluster(canary), StoreCluster(canary)
    canary.pass_time(LEASE_S + 10, canary.guard(first), canary.guard(second))
    assert canary.candidate_share() == 0
    assert sorted(first.writes + second.writes) == ["create_event", "patch_lease", "patch_service"]


def test_a_guard_between_another_ones_two_writes_does_no_harm() -> None:
    """A second guard that finishes between the first one's mark and patch leaves the same end, told once."""
    canary = GuardedCanary()
    first = StoreCluster(canary)
    other = canary.guard()

    def meanwhile() -> None:
        canary.reconcile()
        other.look()
        canary.reconcile()
        other.look()

    first.before_write["patch_service"] = meanwhile
    canary.pass_time(LEASE_S + 5, canary.guard(first))
    assert (canary.observed().canary_percent, canary.candidate_share()) == (0, 0)
    assert len(canary.events()) == 1


def test_a_canary_whose_weight_cannot_be_read_is_ended() -> None:
    """A percent that is no number may be any: without a lease the candidate is taken to 0."""
    canary = GuardedCanary(with_lease=False)
    canary.controller_is_alive = False

    def break_it(obj: dict[str, Any]) -> None:
        obj["spec"]["predictor"]["canaryTrafficPercent"] = "many"

    canary.store.mutate(SERVICES, NAMESPACE, NAME, break_it)
    canary.pass_time(LEASE_S + 5, canary.guard())
    assert canary.observed().canary_percent == 0


def test_the_log_tells_the_story_one_line_each(lines: Lines) -> None:
    """Every step is a JSON object with time, level, event and the InferenceService."""
    canary = GuardedCanary()
    canary.pass_time(LEASE_S + 5, canary.guard())
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
