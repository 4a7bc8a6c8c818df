"""A dialect is added in one file: the reconciler, the tasks' driver and the guard carry it out without knowing it."""

from __future__ import annotations

from typing import cast

import pytest

from slipway.hooks.inference_service import KServeHook
from slipway.traffic.reconciler import observe_service, reconcile
from slipway_core.errors import SpecError, UserError
from slipway_core.rollout.actions import Done, FirstDeploy, Promote, RollBack, ShiftWeight, StartCanary
from slipway_core.rollout.dialects.registry import DIALECTS, observe, preflight
from slipway_core.rollout.next_action import Goal, Impossible, Patch, next_action, serving_doubt
from slipway_core.rollout.reconciler import Reconciliation
from slipway_guard.watch import Guard, Terms
from tests.support.rollout.toy_dialect import GuardedToy, ToyCluster, ToyDialect, ToyObserved, toy_manifest

V1, V2 = "s3://b/models/digits/1/repository", "s3://b/models/digits/2/repository"


@pytest.fixture(autouse=True)
def toy(monkeypatch: pytest.MonkeyPatch) -> ToyDialect:
    """The registry knows the dialect, and nothing else is changed for it."""
    dialect = ToyDialect()
    monkeypatch.setitem(DIALECTS, dialect.name, dialect)
    return dialect


def reach(cluster: ToyCluster, goal: Goal) -> Reconciliation:
    """Bring the cluster to a goal as a task does."""
    reached = reconcile(cast(KServeHook, cluster), goal, timeout_s=10)
    assert isinstance(reached.action, Done)
    return reached


def live(uri: str = V1) -> ToyCluster:
    """A cluster in which a first version has everyone."""
    cluster = ToyCluster()
    reach(cluster, FirstDeploy(toy_manifest(uri)))
    return cluster


def test_a_release_is_driven_to_its_end() -> None:
    """First version, canary, another weight, promotion."""
    cluster = live()
    assert reach(cluster, StartCanary(V2, 5)).action.traffic == {V1: 95, V2: 5}  # type: ignore[union-attr]
    reach(cluster, ShiftWeight(50, V2))
    assert cluster.split == {V1: 50, V2: 50}
    reach(cluster, Promote(V2))
    assert cluster.split == {V2: 100}
    observed = observe_service(cast(KServeHook, cluster))
    assert isinstance(observed, ToyObserved)
    assert serving_doubt(observed) == ""


def test_a_canary_is_taken_back() -> None:
    """To the version that the object itself names as stable."""
    cluster = live()
    reach(cluster, StartCanary(V2, 20))
    reach(cluster, RollBack(V1, V2))
    assert cluster.split == {V1: 100}
    assert cluster.written == []


def test_what_kserve_has_made_is_written_where_its_controller_hangs() -> None:
    """The fallback is the dialect's own, of a resource that nobody else knows."""
    cluster = live()
    reach(cluster, StartCanary(V2, 20))
    cluster.hangs = True
    reach_back = reconcile(
        cast(KServeHook, cluster),
        RollBack(V1, V2),
        timeout_s=10,
        suffices=lambda last: last.observed is not None and last.observed.is_shielded_from(V2),
    )
    assert reach_back.observed is not None
    assert cluster.split == {V1: 100, V2: 0}
    assert cluster.written == ["digits"]


@pytest.mark.parametrize("hangs", [False, True], ids=["carried on", "controller hangs"])
def test_the_guard_ends_a_canary_of_it(hangs: bool) -> None:
    """With what the dialect watches, and no line of its own."""
    cluster = live()
    reach(cluster, StartCanary(V2, 20))
    cluster.hangs = hangs
    now_s = [0.0]
    guarded = GuardedToy(cluster)
    guard = Guard(guarded, Terms(missing_lease_s=5.0), clock=lambda: now_s[0])
    for _ in range(30):
        now_s[0] += 1.0
        guard.look()
    assert cluster.split[V1] == 100
    assert cluster.split.get(V2, 0) == 0
    assert len(guarded.events) == 1
    assert bool(cluster.written) == hangs


def test_its_preflight_refuses_a_first_deployment() -> None:
    """By the ConfigMap that it names."""
    cluster = ToyCluster(config={"splits": "off"})
    with pytest.raises(SpecError, match="There are no Splits here"):
        reconcile(cast(KServeHook, cluster), FirstDeploy(toy_manifest(V1)), timeout_s=5)
    assert cluster.service is None


def test_what_it_refuses_is_refused() -> None:
    """A weight of another version than the one that is named."""
    cluster = live()
    reach(cluster, StartCanary(V2, 20))
    with pytest.raises(UserError, match="is named, not"):
        reconcile(cast(KServeHook, cluster), ShiftWeight(50, "s3://b/other"), timeout_s=5)


def test_a_mode_that_nobody_knows_is_refused_upward_and_taken_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever cannot be split has no canary; who has one all the same is led off it by what the object says."""
    monkeypatch.delitem(DIALECTS, ToyDialect.name)
    manifest = toy_manifest(V1)
    (problem,) = preflight(manifest)
    assert problem == "The deployment mode Toy cannot split traffic; deploy in Knative or Standard mode."
    component = {
        "latestCreatedRevision": "digits-00001",
        "latestReadyRevision": "digits-00001",
        "latestRolledoutRevision": "digits-00001",
    }
    status = {"components": {"predictor": component}}
    refused = next_action(StartCanary(V2, 5), observe({**manifest, "status": status}))
    assert isinstance(refused, Impossible)
    assert refused.reason == problem
    manifest["spec"]["predictor"] |= {"canaryTrafficPercent": 50, "model": {"storageUri": V2}}
    back = next_action(RollBack(V1, V2), observe({**manifest, "status": status}))
    assert isinstance(back, Patch)
    assert back.body["spec"]["predictor"] == {"canaryTrafficPercent": 0}
