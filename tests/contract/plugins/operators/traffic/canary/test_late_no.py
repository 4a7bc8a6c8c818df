"""Who says no after a raise was asked for and before its patch is heard: the permission is that of the patch."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, cast

import pytest
from airflow.sdk.exceptions import AirflowFailException, TaskDeferred

from slipway.hooks.inference_service import KServeHook
from slipway.hooks.lease import LeaseHook
from slipway.hooks.s3_store import ModelStoreHook
from slipway.operators.canary import ShiftTrafficOperator
from slipway.operators.preview import ShowCandidateOperator
from slipway.operators.promote import PromoteOperator
from slipway.release_run import ReleaseRun
from slipway.traffic import step_cluster
from slipway.traffic.lease_holder import LeaseHolder
from slipway.traffic.raise_permit import RaisePermit
from slipway.traffic.step_cluster import CanaryCluster
from slipway.triggers.first_deploy import FirstDeployTrigger
from slipway.triggers.hold import HoldChangedTrigger
from slipway_core.errors import RaiseRefusedError, ReleaseHeldError, StoreUnavailableError
from slipway_core.record.kinds import RollbackStarted, VersionRejected, WeightObserved
from tests.support.canary.doubles import LeaseDouble, ServiceDouble
from tests.support.canary.operators import Operate, lead_users, record, stable_uri, state
from tests.support.plugins.watching import HEALTHY, watch
from tests.support.release.freezing import frozen
from tests.support.release.proofs import admitted, gates_passed, step_passed, steps_passed

No = Callable[[ModelStoreHook], None]


def rejected(store: ModelStoreHook) -> None:
    record(store).append(VersionRejected(reason="wrong labels in class 3", by="bob"))


def stopped(store: ModelStoreHook) -> None:
    record(store).append(RollbackStarted(reason="a page", by="bob", stable_storage_uri=""))


def freeze(store: ModelStoreHook) -> None:
    frozen(store, "digits")


ALL_NOS: dict[No, type[Exception]] = {
    rejected: RaiseRefusedError,
    stopped: RaiseRefusedError,
    freeze: ReleaseHeldError,
}


def cluster_of(
    release_run: ReleaseRun, service: ServiceDouble, lease: LeaseDouble, step: int = 0
) -> CanaryCluster:
    """The cluster's side of a step, without anybody who says whom it asks."""
    return CanaryCluster(
        release_run,
        step,
        release_run.spec.rollout.steps[step].weight,
        service=cast(KServeHook, service),
        lease_holder=LeaseHolder(cast(LeaseHook, lease), release_run, "canary", 1),
    )


@pytest.mark.parametrize("no", ALL_NOS)
def test_nobody_meets_a_version_after_a_no(
    no: No, release_run: ReleaseRun, service: ServiceDouble, store: ModelStoreHook, lease: LeaseDouble
) -> None:
    """The first percent is asked for at its patch, by default too: what the worker was told before does not count."""
    permit = RaisePermit(store, release_run)
    permit.require(release_run.spec.rollout.steps[0].weight)
    no(store)
    with pytest.raises(ALL_NOS[no]):
        asyncio.run(cluster_of(release_run, service, lease).reach_weight())
    assert service.model is not None
    assert service.model.users() == {stable_uri(release_run): 100}
    with pytest.raises(ALL_NOS[no]):
        permit.require(release_run.spec.rollout.steps[0].weight)


@pytest.mark.parametrize("no", ALL_NOS)
def test_a_no_during_a_pause_counts_when_it_ends(
    no: No,
    release_run: ReleaseRun,
    service: ServiceDouble,
    store: ModelStoreHook,
    lease: LeaseDouble,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A canary that was paused before its first percent begins by what holds when it is resumed."""
    monkeypatch.setattr(step_cluster, "PAUSED_POLL_S", 0.01)
    lease.pause("alice wants to look")
    looks, keep = 0, lease.keep

    def kept(*arguments: Any) -> Any:
        nonlocal looks
        looks += 1
        if looks == 3:
            no(store)
            lease.pause(None)
        return keep(*arguments)

    monkeypatch.setattr(lease, "keep", kept)
    with pytest.raises(ALL_NOS[no]):
        asyncio.run(cluster_of(release_run, service, lease).reach_weight())
    assert looks >= 3
    assert service.model is not None
    assert service.model.users() == {stable_uri(release_run): 100}


@pytest.mark.parametrize("no", ALL_NOS)
def test_a_patch_that_is_repeated_is_asked_for_again(
    no: No, release_run: ReleaseRun, service: ServiceDouble, store: ModelStoreHook, lease: LeaseDouble
) -> None:
    """A step whose patch met a conflict or an error goes by what holds then, and the users stay where they are."""
    first = release_run.spec.rollout.steps[0].weight
    lead_users(service, release_run, store, first)
    record(store).append(WeightObserved(weight=first, traffic={}))
    step_passed(store, release_run, first)
    patch = service.patch

    def refused(body: dict[str, Any], limit_s: float | None = None) -> bool:
        assert limit_s is not None, "a raise is waited for without a limit"
        service.patch = patch  # type: ignore[method-assign]
        no(store)
        return False

    service.patch = refused  # type: ignore[method-assign]
    with pytest.raises(ALL_NOS[no]):
        asyncio.run(cluster_of(release_run, service, lease, step=1).reach_weight())
    assert service.model is not None
    assert service.model.users()[release_run.storage_uri] == first


@pytest.mark.parametrize("no", ALL_NOS)
def test_no_promotion_after_a_no(
    no: No, release_run: ReleaseRun, service: ServiceDouble, store: ModelStoreHook, operate: Operate
) -> None:
    """A promotion whose first patch met a conflict is not sent again: it waits for the freeze, or is refused."""
    last = release_run.spec.rollout.steps[-1].weight
    lead_users(service, release_run, store, last)
    record(store).append(WeightObserved(weight=last, traffic={}))
    steps_passed(store, release_run)
    patch = service.patch

    sent = 0

    def conflict(body: dict[str, Any], limit_s: float | None = None) -> bool:
        nonlocal sent
        sent += 1
        service.patch = patch  # type: ignore[method-assign]
        no(store)
        return False

    service.patch = conflict  # type: ignore[method-assign]
    with pytest.raises(TaskDeferred if no is freeze else AirflowFailException):
        operate(PromoteOperator)
    assert service.model is not None
    assert sent == 1
    assert service.model.users()[release_run.storage_uri] == last
    assert state(store).outcome == "open"


def test_a_preview_is_asked_for_at_its_patch(
    previewing: ReleaseRun, service: ServiceDouble, store: ModelStoreHook
) -> None:
    """A version that was rejected since is not brought up for testers either."""
    get = service.get

    def observed() -> Any:
        if state(store).rejection is None:
            rejected(store)
        return get()

    service.get = observed  # type: ignore[method-assign]
    with pytest.raises(AirflowFailException, match="rejected by bob"):
        ShowCandidateOperator(task_id="show", release=previewing.model_dump_json()).execute({})
    assert service.patches == []


def test_a_first_version_is_asked_for_when_it_is_created(
    release_run: ReleaseRun, service: ServiceDouble, store: ModelStoreHook
) -> None:
    """The trigger that brings it up asks; what a freeze holds goes back to waiting, and a rejected one is refused."""
    first = release_run.model_copy(update={"stable": None, "release_id": "digits-3-first"})
    admitted(store, first)
    gates_passed(store, first)
    operator = ShiftTrafficOperator(task_id="task", release=first.model_dump_json())
    with pytest.raises(TaskDeferred) as deferred:
        operator.execute({})
    service.model = None
    frozen(store, "digits")

    async def fired() -> dict[str, Any]:
        trigger = FirstDeployTrigger(**deferred.value.trigger.serialize()[1])
        [event] = [one.payload async for one in trigger.run()]
        return event

    event = asyncio.run(fired())
    assert (event["held"], service.model) == (True, None)
    with pytest.raises(TaskDeferred) as waiting:
        operator.deployed({}, event)
    assert isinstance(waiting.value.trigger, HoldChangedTrigger)
    rejected(store)
    refused = asyncio.run(fired())
    assert (refused["held"], service.model) == (False, None)
    assert "rejected by bob" in str(refused["error"])


def test_a_step_that_is_held_goes_back_to_the_one_before(
    release_run: ReleaseRun, service: ServiceDouble, store: ModelStoreHook
) -> None:
    """The watch says that the step waits, and the worker has the step before watched until the freeze ends."""
    first, second = (step.weight for step in release_run.spec.rollout.steps[:2])
    lead_users(service, release_run, store, first)
    record(store).append(WeightObserved(weight=first, traffic={}))
    step_passed(store, release_run, first)
    frozen(store, "digits")
    assert service.model is not None
    ask = RaisePermit(store, release_run).to(second)
    watched, _, _ = watch(release_run, service.model, HEALTHY, step=1, permit=lambda _: ask())
    assert asyncio.run(watched.run()) == "held"
    event = {
        "decision": "held",
        "judge": watched.judge.to_json(),
        "elapsed_s": 0.0,
        "events": [],
        "error": None,
    }
    operator = ShiftTrafficOperator(task_id="task", release=release_run.model_dump_json())
    with pytest.raises(TaskDeferred) as deferred:
        operator.resume({}, event, 1)
    trigger = deferred.value.trigger
    assert (trigger.step, trigger.hold, deferred.value.method_name) == (0, True, "resume_held")
    assert service.model.users()[release_run.storage_uri] == first


def test_a_store_that_is_away_permits_nothing(
    release_run: ReleaseRun, service: ServiceDouble, store: ModelStoreHook, operate: Operate
) -> None:
    """What nobody can ask is not allowed: the promotion that was allowed a moment ago is not carried out."""
    lead_users(service, release_run, store, 50)
    steps_passed(store, release_run)
    permitted, asked = RaisePermit.require, 0

    def away(self: RaisePermit, weight: int) -> None:
        nonlocal asked
        asked += 1
        if asked > 1:
            raise StoreUnavailableError("S3 does not answer")
        permitted(self, weight)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(RaisePermit, "require", away)
        with pytest.raises(StoreUnavailableError):
            operate(PromoteOperator)
    assert asked == 2
    assert service.model is not None
    assert service.model.users()[release_run.storage_uri] == 50


def test_more_users_than_planned_are_taken_back_without_asking(
    release_run: ReleaseRun, service: ServiceDouble, store: ModelStoreHook, lease: LeaseDouble
) -> None:
    """A task that is run again takes the users down to the first step's weight, whatever anybody has said."""
    lead_users(service, release_run, store, 50)
    rejected(store)
    lease.pause("alice wants to look")
    asyncio.run(cluster_of(release_run, service, lease).reach_weight())
    assert service.model is not None
    assert service.model.users()[release_run.storage_uri] == release_run.spec.rollout.steps[0].weight
