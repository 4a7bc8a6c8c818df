"""The guard's watch where something fails, or where it is not its business."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest

from slipway_core.errors import ClusterUnavailableError
from slipway_core.rollout.next_action import (
    Patch,
    RollBack,
    next_action,
)
from slipway_guard.watch import Sight, users_are_safe
from tests.support.guard.guarded_canary import (
    CANDIDATE_URI,
    LEASE_S,
    STABLE_URI,
    GuardedCanary,
    StoreCluster,
)
from tests.support.guard.lines import Lines


@pytest.mark.parametrize(
    ("request_name", "when"),
    list(
        itertools.product(["snapshot", "patch_lease", "patch_service", "create_event"], ["before", "after"])
    ),
)
def test_an_api_that_fails_for_a_while_is_asked_again(request_name: str, when: str) -> None:
    """Whichever request fails, before or after its effect, the end is the same once the API is back."""
    canary = GuardedCanary()
    cluster = StoreCluster(canary)
    guard = canary.guard(cluster)
    canary.pass_time(LEASE_S - 1, guard)
    cluster.trouble[request_name] = when
    for _ in range(30):
        canary.now_s += 1
        try:
            guard.look()
        except ClusterUnavailableError:
            assert request_name == "snapshot"
        canary.reconcile()
    cluster.trouble.clear()
    canary.pass_time(5, guard)
    assert (canary.observed().canary_percent, canary.candidate_share()) == (0, 0)
    assert len(canary.events()) == 1


def test_a_release_can_go_on_after_an_api_that_was_away_for_long() -> None:
    """While the API is away nobody can renew; who renews soon after it is back keeps the canary."""
    canary = GuardedCanary()
    guard = canary.guard()
    canary.pass_time(10, guard)
    canary.now_s += 600
    guard.look()
    canary.now_s += 5
    canary.renew()
    canary.pass_time(20, guard)
    assert canary.candidate_share() == 20


def test_an_event_that_cannot_be_written_does_not_occupy_the_guard_for_ever(lines: Lines) -> None:
    """After a minute of trying, the guard says so in its log and goes on watching others."""
    canary = GuardedCanary()
    cluster = StoreCluster(canary)
    cluster.trouble["create_event"] = "before"
    guard = canary.guard(cluster)
    canary.pass_time(LEASE_S + 70, guard)
    assert guard.look() == Sight()
    assert [line["event"] for line in lines()].count("event_not_written") == 1


def test_users_count_as_safe_only_when_the_traffic_is_seen_to_be_off_the_candidate(lines: Lines) -> None:
    """A controller that does not act keeps the guard at it, which says once what it waits for."""
    canary = GuardedCanary()
    guard = canary.guard()
    canary.pass_time(LEASE_S, guard)
    canary.controller_is_alive = False
    canary.pass_time(30, guard)
    assert guard.look().ending == 1
    assert canary.events() == []
    assert [line["event"] for line in lines()].count("waiting") == 1
    canary.controller_is_alive = True
    canary.pass_time(2, guard)
    assert guard.look() == Sight()
    assert len(canary.events()) == 1


def test_users_count_as_safe_only_once_the_route_is_ready(lines: Lines) -> None:
    """With a dead ingress weight 0 is patched at once, and the log says what is waited for; people hear nothing yet."""
    canary = GuardedCanary()
    canary.ingress_is_alive = False
    guard = canary.guard()
    canary.pass_time(LEASE_S + 30, guard)
    assert (canary.observed().canary_percent, canary.candidate_share()) == (0, 0)
    assert guard.look().ending == 1
    assert canary.events() == []
    assert "IngressNotConfigured" in next(line["found"] for line in lines() if line["event"] == "waiting")
    canary.ingress_is_alive = True
    canary.pass_time(2, guard)
    assert guard.look() == Sight()
    assert len(canary.events()) == 1


def test_weight_0_that_leads_nobody_away_is_not_the_end() -> None:
    """Where percent 0 leaves users on the candidate (it counts as rolled out), they are not safe yet."""
    seen = GuardedCanary().observed()
    stuck = replace(
        seen, canary_percent=0, latest_rolledout=seen.latest_created, traffic={seen.latest_created: 100}
    )
    goal = RollBack(STABLE_URI, CANDIDATE_URI)
    action = next_action(goal, stuck)
    assert isinstance(action, Patch)
    assert not users_are_safe(action, stuck, goal)
