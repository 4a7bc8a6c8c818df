"""From the end of the last step until the promotion has begun nobody watches, and the lease lasts so long."""

from __future__ import annotations

import pytest
from airflow.sdk.exceptions import AirflowFailException, TaskDeferred

from slipway.hooks.s3_store import ModelStoreHook
from slipway.operators.canary import HoldCanaryOperator
from slipway.operators.promote import PromoteOperator
from slipway.release_run import ReleaseRun
from slipway_core.canary.judge import AnalysisPolicy, CanaryJudge
from tests.support.canary.doubles import LeaseDouble, ServiceDouble
from tests.support.canary.operators import Operate, lead_users, resumed, state
from tests.support.release.proofs import steps_passed

LEASE_S, HANDOVER_S = 60, 180


def lasts_s(lease: LeaseDouble) -> int:
    """Return how long the lease lasts now."""
    assert lease.lease is not None
    return lease.lease.lease_s


def test_the_lease_lasts_until_the_promotion_has_begun(
    release_run: ReleaseRun,
    service: ServiceDouble,
    store: ModelStoreHook,
    lease: LeaseDouble,
    operate: Operate,
) -> None:
    """The end of the last step makes it longer; the promotion's first renewal makes it as short as before."""
    lead_users(service, release_run, store, 99)
    steps_passed(store, release_run)
    resumed(release_run, "advance", step=len(release_run.spec.rollout.steps) - 1)
    assert lasts_s(lease) == HANDOVER_S
    renewed: list[int] = []
    keep = lease.keep
    lease.keep = lambda holder, lease_s=0: (renewed.append(lease_s), keep(holder, lease_s))[1]  # type: ignore[method-assign]
    operate(PromoteOperator)
    assert renewed
    assert set(renewed) == {LEASE_S}
    assert state(store).outcome == "promoted"


def test_a_longer_lease_is_not_made_shorter(
    release_run: ReleaseRun, service: ServiceDouble, store: ModelStoreHook, lease: LeaseDouble
) -> None:
    """`handover_s` is the least."""
    rollout = release_run.spec.rollout.model_copy(update={"lease_s": 600})
    patient = release_run.model_copy(
        update={"spec": release_run.spec.model_copy(update={"rollout": rollout})}
    )
    lead_users(service, release_run, store, 99)
    steps_passed(store, release_run)
    resumed(patient, "advance", step=len(rollout.steps) - 1)
    assert lasts_s(lease) == 600


def test_between_two_steps_the_lease_stays_short(
    release_run: ReleaseRun, service: ServiceDouble, store: ModelStoreHook, lease: LeaseDouble
) -> None:
    """Another step is watched: the triggerer takes it up after one start of a task."""
    lead_users(service, release_run, store, 5)
    steps_passed(store, release_run)
    with pytest.raises(TaskDeferred):
        resumed(release_run, "advance", step=0)
    assert lasts_s(lease) == LEASE_S


def test_who_watched_while_a_person_thought_hands_over_too(
    release_run: ReleaseRun,
    service: ServiceDouble,
    store: ModelStoreHook,
    lease: LeaseDouble,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The person has answered, and the promotion is a task of its own."""
    lead_users(service, release_run, store, 99)
    steps_passed(store, release_run)
    judge = CanaryJudge(AnalysisPolicy()).to_json()
    hold = HoldCanaryOperator(
        task_id="hold", until_task_id="approve", judge=judge, release=release_run.model_dump_json()
    )
    event = {"decision": "continue", "judge": judge, "elapsed_s": 5.0, "events": [], "error": None}
    last = len(release_run.spec.rollout.steps) - 1
    monkeypatch.setattr(HoldCanaryOperator, "_is_answered", lambda self, context: False)
    with pytest.raises(TaskDeferred):
        hold.resume({}, event, last)  # type: ignore[arg-type]
    assert lasts_s(lease) == LEASE_S
    monkeypatch.setattr(HoldCanaryOperator, "_is_answered", lambda self, context: True)
    hold.resume({}, event, last)  # type: ignore[arg-type]
    assert lasts_s(lease) == HANDOVER_S


def test_an_api_that_is_away_loses_no_release(
    release_run: ReleaseRun, service: ServiceDouble, store: ModelStoreHook, lease: LeaseDouble
) -> None:
    """The steps have passed: the task ends well, with the lease as it was."""
    lead_users(service, release_run, store, 99)
    steps_passed(store, release_run)
    lease.away = True
    resumed(release_run, "advance", step=len(release_run.spec.rollout.steps) - 1)
    assert lasts_s(lease) == LEASE_S


def test_a_canary_that_was_ended_is_not_handed_over(
    release_run: ReleaseRun, service: ServiceDouble, store: ModelStoreHook, lease: LeaseDouble
) -> None:
    """The task fails, and the release is rolled back."""
    lead_users(service, release_run, store, 99)
    steps_passed(store, release_run)
    lease.end(by="guard", reason="nobody renewed it")
    with pytest.raises(AirflowFailException, match="the canary is over"):
        resumed(release_run, "advance", step=len(release_run.spec.rollout.steps) - 1)
