"""Who is told of a canary that is held, cannot be judged, or lost its lease."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from airflow.sdk.exceptions import TaskDeferred

from slipway.hooks.s3_store import ModelStoreHook
from slipway.operators.canary import ShiftTrafficOperator
from slipway.operators.restore import ArmRollbackOperator, RestoreStableOperator
from slipway.release_run import ReleaseRun
from slipway_core.canary.judge import CanaryJudge
from slipway_core.operations.notices.of_release import inconclusive_after_s
from tests.support.canary.doubles import LeaseDouble, ServiceDouble
from tests.support.canary.operators import Operate, lead_users, record
from tests.support.notifications.outbox import facts, notices_in, notify_of_everything
from tests.support.release.freezing import frozen


@pytest.fixture(autouse=True)
def _everybody(monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody is told of everything."""
    notify_of_everything(monkeypatch)


def test_a_raise_that_is_held_is_told_once(
    service: ServiceDouble, store: ModelStoreHook, operate: Operate
) -> None:
    """However often the canary asks; the notice says which raise."""
    frozen(store, reason="audit")
    for _ in range(3):
        with pytest.raises(TaskDeferred):
            operate(ShiftTrafficOperator)
    (notice,) = notices_in(store)
    assert notice.event == "held"
    assert facts(notice)["held"].startswith("the raise to")
    assert "audit" in notice.reason


def seen(release_run: ReleaseRun, elapsed_s: float) -> dict[str, Any]:
    """What the trigger tells of a watch that could not be judged."""
    judge = CanaryJudge(release_run.spec.rollout.analysis)
    step = release_run.spec.rollout.steps[0]
    judge.begin_step(step.weight, step.bake_s)
    return {
        "decision": "continue",
        "judge": judge.to_json(),
        "elapsed_s": elapsed_s,
        "events": [],
        "error": None,
    }


def test_a_step_whose_verdict_does_not_come_is_told_once(
    release_run: ReleaseRun, service: ServiceDouble, store: ModelStoreHook
) -> None:
    """Not while its bake is under way, then once, with the numbers; not again at the next report."""
    plan = release_run.spec.rollout.plan
    limit_s = inconclusive_after_s(plan.steps[0].bake_s, plan)
    before_s = 0.0
    for elapsed_s, expected in ((limit_s - 1, 0), (limit_s + 60, 1), (limit_s + 120, 1)):
        operator = ShiftTrafficOperator(task_id="task", release=release_run.model_dump_json())
        with pytest.raises(TaskDeferred) as deferred:
            operator.resume({}, seen(release_run, elapsed_s), 0, watched_s=before_s)
        before_s = deferred.value.kwargs["watched_s"] if deferred.value.kwargs else 0.0
        assert len(notices_in(store)) == expected
    (notice,) = notices_in(store)
    assert notice.event == "inconclusive"
    assert facts(notice)["weight"] == f"{plan.steps[0].weight} %"
    assert "fails at" in facts(notice)["evidence against it"]


def ended_by_guard(lease: LeaseDouble, release_run: ReleaseRun) -> None:
    """The guard has ended the canary while Airflow was away."""
    assert lease.lease is not None
    lease.end(by="guard", reason="the lease was not renewed for 60 s")
    lease.lease = replace(
        lease.lease,
        holder=release_run.release_id,
        ended_at=datetime.now(UTC),
        candidate_uri=release_run.storage_uri,
    )


def test_a_canary_that_its_guard_has_ended_is_told_when_it_is_seen(
    release_run: ReleaseRun,
    service: ServiceDouble,
    lease: LeaseDouble,
    store: ModelStoreHook,
    operate: Operate,
) -> None:
    """The teardown of the release finds the lease ended, tells why, and gives it back."""
    lead_users(service, release_run, store, 50)
    ended_by_guard(lease, release_run)
    operate(RestoreStableOperator)
    (notice,) = notices_in(store)
    assert (notice.event, notice.version) == ("lease_lost", release_run.version)
    assert notice.release_id == release_run.release_id
    assert "was not renewed" in notice.reason
    assert lease.lease is None
    assert record(store).state().outcome == "rolled_back"


def test_a_lease_that_a_dead_release_has_left_is_told_by_the_next_one(
    release_run: ReleaseRun,
    service: ServiceDouble,
    lease: LeaseDouble,
    store: ModelStoreHook,
    operate: Operate,
) -> None:
    """Its own tasks never ran again: who comes next finds it, and tells under the dead release's name."""
    lead_users(service, release_run, store, 50)
    ended_by_guard(lease, release_run)
    assert lease.lease is not None
    lease.lease = replace(
        lease.lease, holder="digits-2-dead", candidate_uri="s3://b/models/digits/7/repository"
    )
    operate(ArmRollbackOperator)
    (notice,) = notices_in(store)
    assert (notice.event, notice.version, notice.release_id) == ("lease_lost", 7, "digits-2-dead")


@pytest.mark.parametrize("candidate_uri", ["", "\ud800", "<!channel>" * 500])
def test_whatever_a_lease_says_the_way_back_goes_on(
    release_run: ReleaseRun,
    service: ServiceDouble,
    lease: LeaseDouble,
    store: ModelStoreHook,
    operate: Operate,
    candidate_uri: str,
) -> None:
    """Its texts are anybody's; the notice is made of what can be read."""
    lead_users(service, release_run, store, 50)
    ended_by_guard(lease, release_run)
    assert lease.lease is not None
    lease.lease = replace(lease.lease, candidate_uri=candidate_uri, ended_reason=candidate_uri)
    operate(RestoreStableOperator)
    assert [notice.version for notice in notices_in(store)] == [release_run.version]


def test_a_lease_that_a_person_has_ended_is_no_lost_one(
    release_run: ReleaseRun,
    service: ServiceDouble,
    lease: LeaseDouble,
    store: ModelStoreHook,
    operate: Operate,
) -> None:
    """Who ended the canary knows it; the end of the release is told anyway."""
    lead_users(service, release_run, store, 50)
    ended_by_guard(lease, release_run)
    assert lease.lease is not None
    lease.lease = replace(lease.lease, ended_by="a person")
    operate(RestoreStableOperator)
    assert notices_in(store) == []
