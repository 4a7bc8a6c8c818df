"""A guard among objects that somebody else has written."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from slipway_core.rollout import lease
from slipway_core.rollout.dialects.standard.resources import HTTP_ROUTES
from slipway_guard.cluster import Snapshot
from tests.support.guard.guarded_canary import LEASE_S, NAMESPACE, GuardedCanary, StoreCluster


def test_a_lease_that_says_it_lasts_for_years_ends_within_the_hour() -> None:
    """What somebody writes into a lease does not switch the guard off."""
    canary = GuardedCanary()
    seen = canary.lease()
    assert seen is not None
    canary.store.merge_patch(lease.PLURAL, NAMESPACE, seen.name, {"spec": {"leaseDurationSeconds": 10**9}})
    guard = canary.guard(poll_s=60.0)
    canary.pass_time(lease.LONGEST_LEASE_S - 300, guard, step_s=60.0)
    assert canary.candidate_share() > 0
    canary.pass_time(600, guard, step_s=60.0)
    assert canary.candidate_share() == 0


@pytest.mark.parametrize("junk", [{}, {"metadata": 7}, {"metadata": {"namespace": []}}, []])
def test_objects_that_cannot_be_understood_hide_no_canary(junk: Any) -> None:
    """Among leases, routes and services that are none, a canary whose lease ran out is still ended."""
    canary = GuardedCanary()
    cluster = StoreCluster(canary)
    plain = cluster.snapshot

    def with_junk() -> Snapshot:
        seen = plain()
        watched = {HTTP_ROUTES: (junk,)}
        return replace(seen, services=(junk, *seen.services), leases=(junk, *seen.leases), watched=watched)

    cluster.snapshot = with_junk  # type: ignore[method-assign]
    canary.pass_time(LEASE_S + 10, canary.guard(cluster))
    assert canary.candidate_share() == 0
