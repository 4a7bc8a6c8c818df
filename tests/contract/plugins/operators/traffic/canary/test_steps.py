"""The operators that lead users to a version and back: real record in S3, a model of Knative for the cluster."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from airflow.sdk.exceptions import AirflowFailException, TaskDeferred

from slipway.hooks.s3_store import ModelStoreHook
from slipway.operators.canary import ShiftTrafficOperator
from slipway.operators.promote import PromoteOperator
from slipway.operators.restore import ArmRollbackOperator, RestoreStableOperator
from slipway.release_run import ReleaseRun, StableVersion
from slipway.triggers.canary import CanaryStepTrigger
from slipway_core.record.kinds import StageStarted
from tests.support.canary.doubles import ServiceDouble
from tests.support.canary.operators import Operate, lead_users, record, resumed, stable_uri, stages, state
from tests.support.release.proofs import step_passed, steps_passed


def test_intent_is_written_before_the_first_percent(
    release_run: ReleaseRun, service: ServiceDouble, store: ModelStoreHook, operate: Operate
) -> None:
    """The worker writes down what it is about to do and leaves the doing to the trigger."""
    with pytest.raises(TaskDeferred) as deferred:
        operate(ShiftTrafficOperator)
    assert isinstance(deferred.value.trigger, CanaryStepTrigger)
    assert deferred.value.kwargs == {"step": 0, "watched_s": 0.0}
    assert service.patches == []
    assert state(store).intended_weight == release_run.spec.rollout.steps[0].weight


def test_trigger_can_be_made_again_from_what_it_says_of_itself(
    service: ServiceDouble, operate: Operate
) -> None:
    """A triggerer that takes a canary over makes the very same trigger."""
    with pytest.raises(TaskDeferred) as deferred:
        operate(ShiftTrafficOperator)
    path, arguments = deferred.value.trigger.serialize()
    assert path == "slipway.triggers.canary.CanaryStepTrigger"
    assert CanaryStepTrigger(**arguments).serialize() == (path, arguments)


def test_a_passed_step_leads_to_the_next_one(
    release_run: ReleaseRun, service: ServiceDouble, store: ModelStoreHook
) -> None:
    """After the first step the second weight is intended."""
    step_passed(store, release_run, release_run.spec.rollout.steps[0].weight)
    with pytest.raises(TaskDeferred) as deferred:
        resumed(release_run, "advance")
    assert deferred.value.kwargs == {"step": 1, "watched_s": 0.0}
    assert state(store).intended_weight == release_run.spec.rollout.steps[1].weight


def test_the_last_passed_step_ends_the_stage(
    release_run: ReleaseRun, service: ServiceDouble, store: ModelStoreHook
) -> None:
    """After the last step the stage has passed; promotion is another task's."""
    record(store).append(StageStarted(stage="canary"))
    resumed(release_run, "advance", step=len(release_run.spec.rollout.steps) - 1)
    assert stages(store) == [("canary", "passed")]


def test_a_step_that_goes_on_keeps_its_time_and_its_judge(
    release_run: ReleaseRun, service: ServiceDouble
) -> None:
    """A report in the middle of a step defers again from where it was."""
    with pytest.raises(TaskDeferred) as deferred:
        resumed(release_run, "continue")
    assert deferred.value.trigger.state["elapsed_s"] == 5.0
    assert deferred.value.kwargs == {"step": 0, "watched_s": 5.0}


def test_a_verdict_against_the_candidate_is_a_refusal_that_is_not_tried_again(
    release_run: ReleaseRun, service: ServiceDouble, store: ModelStoreHook
) -> None:
    """The record says which stage refused, why, and when the first bad answer was seen."""
    verdict = {"status": "fail", "reason": "it fails more often", "statistics": {}, "window": None}
    judged = {
        "kind": "window_judged",
        "at": "2026-01-02T03:04:06+00:00",
        "data": {
            "verdict": verdict,
            "candidate_requests": 30,
            "candidate_errors": 5,
            "first_bad_at": "2026-01-02T03:04:05+00:00",
        },
    }
    started = {
        "kind": "rollback_started",
        "at": "2026-01-02T03:04:07+00:00",
        "data": {"reason": verdict["reason"], "by": "judge", "stable_storage_uri": stable_uri(release_run)},
    }
    with pytest.raises(AirflowFailException, match="it fails more often"):
        resumed(release_run, "roll_back", events=(judged, started))
    found = state(store)
    assert found.refused_by == "canary"
    assert found.first_bad_at is not None
    assert found.first_bad_at.isoformat() == "2026-01-02T03:04:05+00:00"
    assert found.candidate_errors == 5


def test_a_cleared_task_of_a_release_that_has_ended_starts_nothing(
    release_run: ReleaseRun, service: ServiceDouble, store: ModelStoreHook, operate: Operate
) -> None:
    """Neither the canary nor the promotion begins anew after a rollback; the record stays as it was."""
    lead_users(service, release_run, store, 50)
    steps_passed(store, release_run)
    operate(RestoreStableOperator)
    patches = len(service.patches)
    for operator in (ShiftTrafficOperator, PromoteOperator):
        with pytest.raises(AirflowFailException, match="ended as rolled_back"):
            operate(operator)
    assert len(service.patches) == patches
    assert state(store).outcome == "rolled_back"


def test_a_step_that_meets_a_pause_leaves_the_users_where_they_are(
    release_run: ReleaseRun, service: ServiceDouble, store: ModelStoreHook
) -> None:
    """The step before is watched on; it passes again when the canary is resumed."""
    step_passed(store, release_run, release_run.spec.rollout.steps[0].weight)
    step_passed(store, release_run, release_run.spec.rollout.steps[1].weight)
    with pytest.raises(TaskDeferred) as deferred:
        resumed(release_run, "paused", step=2)
    assert deferred.value.kwargs == {"step": 1, "watched_s": 0.0}
    assert deferred.value.trigger.stage == "canary"
    assert state(store).intended_weight == release_run.spec.rollout.steps[1].weight


@pytest.mark.parametrize("by", ["judge", "guard", "a person"])
def test_the_end_of_a_canary_is_told_once_and_without_contradiction(
    by: str, release_run: ReleaseRun, service: ServiceDouble, store: ModelStoreHook
) -> None:
    """One expectation, one finding, one remedy; only the judge's word says that the model is to be mended."""
    reason = "ended by guard: its lease of 60 s was not renewed for 60 s"
    started = {
        "kind": "rollback_started",
        "at": "2026-01-02T03:04:07+00:00",
        "data": {"reason": reason, "by": by, "stable_storage_uri": stable_uri(release_run)},
    }
    with pytest.raises(AirflowFailException) as failed:
        resumed(release_run, "roll_back", events=(started,))
    text = str(failed.value)
    assert [text.count(word) for word in ("Expected", "found", "Remedy")] == [1, 1, 1]
    assert reason in text
    assert ("fix the model" in text) == (by == "judge")


def test_a_try_names_itself_on_the_lease(release_run: ReleaseRun, service: ServiceDouble) -> None:
    """The trigger carries the number of its task's try, through being made again on another triggerer."""
    operator = ShiftTrafficOperator(task_id="task", release=release_run.model_dump_json())
    with pytest.raises(TaskDeferred) as deferred:
        operator.execute({"ti": SimpleNamespace(try_number=3)})  # type: ignore[arg-type,typeddict-item]
    again = CanaryStepTrigger(**deferred.value.trigger.serialize()[1])
    assert (again.stage, again.attempt) == ("canary", 3)


def test_a_release_over_another_version_than_it_was_compared_with_is_refused(
    release_run: ReleaseRun, service: ServiceDouble, operate: Operate
) -> None:
    """What is live may have been rolled back by hand while the candidate went through its gates."""
    other = release_run.model_copy(
        update={"stable": StableVersion(version=1, storage_uri="s3://slipway/models/digits/1/repository")}
    )
    with pytest.raises(AirflowFailException, match="has changed since this release began"):
        ArmRollbackOperator(task_id="task", release=other.model_dump_json()).execute({})
    assert service.patches == []
