"""The promotion: only what was proved, seen and not paused gets all users."""

from __future__ import annotations

from dataclasses import replace

import pytest
from airflow.sdk.exceptions import AirflowFailException, TaskDeferred

from slipway.hooks.s3_store import ModelStoreHook
from slipway.operators.canary import HoldCanaryOperator
from slipway.operators.promote import PromoteOperator
from slipway.operators.restore import RestoreStableOperator
from slipway.release_run import ReleaseRun
from slipway.triggers.canary import CanaryStepTrigger
from slipway_core.canary.judge import AnalysisPolicy, CanaryJudge
from slipway_core.errors import ClusterUnavailableError
from slipway_core.record.kinds import StageFinished
from slipway_core.spec.release_file import Approval
from tests.support.canary.doubles import LeaseDouble, ServiceDouble
from tests.support.canary.operators import Operate, lead_users, record, stable_uri, stages, state
from tests.support.release.proofs import steps_passed


def test_promotion_is_recorded_when_it_is_seen(
    release_run: ReleaseRun, service: ServiceDouble, store: ModelStoreHook, operate: Operate
) -> None:
    """All traffic is on the candidate before the record calls it promoted; doing it again changes nothing."""
    lead_users(service, release_run, store, 50)
    steps_passed(store, release_run)
    operate(PromoteOperator)
    assert service.model.users() == {release_run.storage_uri: 100}
    assert state(store).outcome == "promoted"
    patches = len(service.patches)
    operate(PromoteOperator)
    assert len(service.patches) == patches


def test_a_promotion_that_does_not_reach_the_cluster_is_tried_again(
    release_run: ReleaseRun, service: ServiceDouble, store: ModelStoreHook, operate: Operate
) -> None:
    """It is not recorded as done; when the API is back the retry promotes."""
    lead_users(service, release_run, store, 50)
    steps_passed(store, release_run)
    service.away = True
    with pytest.raises(ClusterUnavailableError):
        operate(PromoteOperator)
    assert state(store).outcome == "open"
    service.away = False
    operate(PromoteOperator)
    assert service.model.users() == {release_run.storage_uri: 100}


def test_tasks_that_were_marked_as_success_prove_nothing(
    release_run: ReleaseRun, service: ServiceDouble, store: ModelStoreHook, operate: Operate
) -> None:
    """Without the steps in the record there is no promotion, whatever Airflow believes; the canary keeps its weight."""
    lead_users(service, release_run, store, 50)
    record(store).append(StageFinished(stage="canary", outcome="failed", reason="S3 was away"))
    patches = len(service.patches)
    with pytest.raises(AirflowFailException, match=r"may not get 100 % .*canary failed"):
        operate(PromoteOperator)
    assert len(service.patches) == patches
    assert state(store).outcome == "open"


def test_who_watches_until_the_promotion_raises_nothing_that_was_not_proved(
    release_run: ReleaseRun, service: ServiceDouble, store: ModelStoreHook
) -> None:
    """The watch before a promotion holds the last step's weight: without the steps before it is not begun."""
    lead_users(service, release_run, store, 5)
    rollout = release_run.spec.rollout.model_copy(update={"approval": Approval(before_promotion=True)})
    asking = release_run.model_copy(update={"spec": release_run.spec.model_copy(update={"rollout": rollout})})
    hold = HoldCanaryOperator(
        task_id="hold",
        until_task_id="approve_promotion",
        judge=CanaryJudge(AnalysisPolicy()).to_json(),
        release=asking.model_dump_json(),
    )
    with pytest.raises(AirflowFailException, match="may not get 99 %"):
        hold.execute({})
    steps_passed(store, release_run)
    with pytest.raises(TaskDeferred):
        hold.execute({})


def test_a_lease_is_given_back_with_the_end_of_its_canary(
    release_run: ReleaseRun,
    service: ServiceDouble,
    store: ModelStoreHook,
    operate: Operate,
    lease: LeaseDouble,
) -> None:
    """After a promotion nobody watches any more, and no guard shall think that somebody should."""
    lead_users(service, release_run, store, 50)
    steps_passed(store, release_run)
    operate(PromoteOperator)
    assert lease.lease is None


def test_a_canary_that_its_guard_ended_is_not_promoted(
    release_run: ReleaseRun,
    service: ServiceDouble,
    store: ModelStoreHook,
    operate: Operate,
    lease: LeaseDouble,
) -> None:
    """Between the last verdict and the promotion somebody may have taken the lease: that counts."""
    lead_users(service, release_run, store, 50)
    steps_passed(store, release_run)
    lease.end(by="guard", reason="its lease was not renewed")
    with pytest.raises(AirflowFailException, match="not renewed"):
        operate(PromoteOperator)
    operate(RestoreStableOperator)
    assert service.model.users() == {stable_uri(release_run): 100}
    assert lease.lease is None


def test_a_promotion_waits_for_the_end_of_a_pause(
    release_run: ReleaseRun,
    service: ServiceDouble,
    store: ModelStoreHook,
    operate: Operate,
    lease: LeaseDouble,
) -> None:
    """It is deferred to a watch of the last step, nothing fails, and after the resume the version is promoted."""
    lead_users(service, release_run, store, 50)
    steps_passed(store, release_run)
    assert lease.lease is not None
    lease.lease = replace(lease.lease, paused="a person wants to look")
    with pytest.raises(TaskDeferred) as deferred:
        operate(PromoteOperator)
    trigger = deferred.value.trigger
    assert isinstance(trigger, CanaryStepTrigger)
    assert (trigger.hold, trigger.until_resumed, trigger.stage) == (True, True, "promotion")
    assert trigger.step == len(release_run.spec.rollout.steps) - 1
    assert service.model.users() == {stable_uri(release_run): 50, release_run.storage_uri: 50}
    event = {
        "decision": "continue",
        "judge": trigger.state["judge"],
        "elapsed_s": 5.0,
        "events": [],
        "error": None,
    }
    operator = PromoteOperator(task_id="task", release=release_run.model_dump_json())
    with pytest.raises(TaskDeferred):
        operator.resume({}, event, trigger.step)  # type: ignore[arg-type]
    assert lease.lease is not None
    lease.lease = replace(lease.lease, paused="")
    operator.resume({}, event, trigger.step)  # type: ignore[arg-type]
    assert state(store).outcome == "promoted"
    assert ("promote", "passed") in stages(store)
