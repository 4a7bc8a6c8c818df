"""The guard as a process, with the rights of its manifest, against the real API, KServe and Knative."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from slipway.hooks.lease import LeaseHook
from slipway_core.rollout.fields import FIELD_MANAGER
from slipway_core.rollout.holder_identity import HolderIdentity
from slipway_core.rollout.next_action import Done, RollBack, StartCanary
from tests.support.conformance.manifests import FOLDER, objects_of
from tests.support.conformance.rollouts import NAME, Rollouts, uri
from tests.support.conformance.standard_mode import (
    ROUTES,
    STABLE,
    backends,
    canary_on_frozen_routes,
    weight_asked_for,
    writers_of,
)
from tests.support.conformance.users import UsersWay
from tests.support.guard.stage import GuardProcess
from tests.support.waiting import LIMIT_S, wait_until

RELEASE = HolderIdentity(f"{NAME}-2", "canary", 1)
LEASE_S = 5


@contextmanager
def guard_of(rollouts: Rollouts, folder: Path) -> Iterator[GuardProcess]:
    """Have a guard of the namespace, with the rights of its manifest."""
    for manifest in objects_of(FOLDER / "guard" / "rbac.yaml", rollouts.namespace):
        rollouts.cluster.api.apply(manifest)
    token = rollouts.cluster.token_of(rollouts.namespace, "slipway-guard")
    kubeconfig = rollouts.cluster.plane.kubeconfig(f"guard-{rollouts.namespace}", token)
    started = GuardProcess(kubeconfig, folder / "guard", "--namespace", rollouts.namespace)
    try:
        yield started
    finally:
        started.kill()


@pytest.fixture
def guard(knative: Rollouts, tmp_path: Path) -> Iterator[GuardProcess]:
    """A guard of the service in Knative mode."""
    with guard_of(knative, tmp_path) as started:
        yield started


def test_the_guard_ends_a_canary_that_nobody_renews(knative: Rollouts, guard: GuardProcess) -> None:
    """Users are off the candidate, the lease and an event say why, and the release's rollback goes on from there."""
    knative.first(1)
    users = UsersWay(knative.cluster.api, knative.namespace, f"{NAME}-predictor")
    users.start()
    lease = LeaseHook(NAME, knative.namespace, knative.hook.kubernetes_conn_id)
    lease.acquire(RELEASE, lease_s=LEASE_S, candidate_uri=uri(2), stable_uri=uri(1))
    knative.bring(StartCanary(uri(2), 20, release_id=RELEASE.release_id, version=2))
    assert users.versions_now() == {uri(1): 80, uri(2): 20}
    guard.wait_for("users_safe", LIMIT_S)
    assert users.versions_now() == {uri(1): 100}
    ended = lease.keep(RELEASE)
    assert ended is not None
    assert ended.ended_by == "guard"
    (event,) = wait_until(
        lambda: [one for one in knative.objects("/api/v1/events") if one["reason"] == "CanaryEnded"],
        "the guard's event",
    )
    assert event["source"]["component"] == "slipway-guard"
    assert isinstance(knative.bring(RollBack(uri(1), uri(2))).action, Done)
    assert users.versions_now() == {uri(1): 100}
    assert lease.release(RELEASE.release_id) is not None
    assert guard.is_running


def test_the_guard_takes_users_off_though_kserve_leaves_the_routes(
    standard: Rollouts, tmp_path: Path
) -> None:
    """Where KServe touches no route the guard writes the weights itself, which its Role permits."""
    canary_on_frozen_routes(standard)
    lease = LeaseHook(NAME, standard.namespace, standard.hook.kubernetes_conn_id)
    lease.acquire(RELEASE, lease_s=LEASE_S, candidate_uri=uri(2), stable_uri=uri(1))
    with guard_of(standard, tmp_path) as guard:
        wait_until(lambda: backends(standard) == {STABLE}, "users are off the candidate")
        guard.wait_for("users_safe", LIMIT_S)
    assert weight_asked_for(standard) == 0
    assert all(FIELD_MANAGER in writers_of(route) for route in standard.objects(ROUTES))
