"""A canary that meets a freeze: no further weight, and the users whom it has are watched on."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException, TaskDeferred

from slipway.hooks.s3_store import ModelStoreHook
from slipway.operators.canary import HoldCanaryOperator, ShiftTrafficOperator
from slipway.operators.pause import PauseCanaryOperator
from slipway.operators.preview import ShowCandidateOperator
from slipway.operators.promote import PromoteOperator
from slipway.operators.restore import RestoreStableOperator
from slipway.release_run import ReleaseRun
from slipway.triggers.canary import CanaryStepTrigger
from slipway.triggers.first_deploy import FirstDeployTrigger
from slipway.triggers.hold import HoldChangedTrigger
from slipway_core.canary.judge import AnalysisPolicy, CanaryJudge
from slipway_core.operations.audit import AuditEntry
from slipway_core.operations.freezes import freezes_prefix
from slipway_core.operations.layout import audit_key
from slipway_core.record.kinds import VersionRejected, WeightObserved
from slipway_core.spec.rollout.approval import Approval
from tests.support.canary.doubles import LeaseDouble, ServiceDouble
from tests.support.canary.operators import Operate, lead_users, record, resumed, stable_uri, stages, state
from tests.support.release.admission import RELEASE_FILE
from tests.support.release.freezing import asks, frozen
from tests.support.release.proofs import admitted, gates_passed, step_passed, steps_passed


def watched(decision: str = "continue", **more: Any) -> dict[str, Any]:
    """Return what the trigger tells of a watch."""
    judge = CanaryJudge(AnalysisPolicy()).to_json()
    return {"decision": decision, "judge": judge, "elapsed_s": 7.0, "events": [], "error": None, **more}


def asked_for(release_run: ReleaseRun, **changes: Any) -> ReleaseRun:
    """Return the release under another `rollout`."""
    rollout = release_run.spec.rollout.model_copy(update=changes)
    return release_run.model_copy(update={"spec": release_run.spec.model_copy(update={"rollout": rollout})})


def at_weight(service: ServiceDouble, release_run: ReleaseRun, store: ModelStoreHook, weight: int) -> None:
    """Let users have been led to the candidate, and the record say so."""
    lead_users(service, release_run, store, weight)
    record(store).append(WeightObserved(weight=weight, traffic={}))


def test_the_first_percent_waits_in_the_triggerer(
    release_run: ReleaseRun, service: ServiceDouble, store: ModelStoreHook, operate: Operate, tmp_path: Path
) -> None:
    """Nothing is intended or changed; the record says what is waited for, once; lifted, the canary begins."""
    frozen(store, reason="audit")
    for _ in range(2):
        with pytest.raises(TaskDeferred) as deferred:
            operate(ShiftTrafficOperator)
        assert isinstance(deferred.value.trigger, HoldChangedTrigger)
        assert deferred.value.method_name == "try_again"
    assert service.patches == []
    found = state(store)
    assert found.intended_weight is None
    assert "frozen by bob" in found.held
    assert [event.kind for event in record(store).events()].count("raise_held") == 1
    asks(store, tmp_path, "thaw")
    operator = ShiftTrafficOperator(task_id="task", release=release_run.model_dump_json())
    with pytest.raises(TaskDeferred) as deferred:
        operator.try_again({})
    assert isinstance(deferred.value.trigger, CanaryStepTrigger)
    assert state(store).held == ""


def test_a_first_version_waits_too(
    release_run: ReleaseRun, service: ServiceDouble, store: ModelStoreHook, tmp_path: Path
) -> None:
    """All users at once are a raise like any other."""
    first = release_run.model_copy(update={"stable": None, "release_id": "digits-3-first"})
    admitted(store, first)
    gates_passed(store, first)
    frozen(store)
    operator = ShiftTrafficOperator(task_id="task", release=first.model_dump_json())
    with pytest.raises(TaskDeferred) as deferred:
        operator.execute({})
    assert isinstance(deferred.value.trigger, HoldChangedTrigger)
    assert state(store).intended_weight is None
    asks(store, tmp_path, "thaw")
    with pytest.raises(TaskDeferred) as deferred:
        operator.try_again({})
    assert isinstance(deferred.value.trigger, FirstDeployTrigger)
    assert state(store).intended_weight == 100


def test_a_canary_under_way_stays_and_is_watched_on(
    release_run: ReleaseRun, service: ServiceDouble, store: ModelStoreHook, tmp_path: Path
) -> None:
    """The step before goes on being judged, with its judge; when the freeze is lifted the next one begins."""
    first, second = (step.weight for step in release_run.spec.rollout.steps[:2])
    at_weight(service, release_run, store, first)
    step_passed(store, release_run, first)
    frozen(store, "digits")
    with pytest.raises(TaskDeferred) as deferred:
        resumed(release_run, "advance")
    trigger = deferred.value.trigger
    assert isinstance(trigger, CanaryStepTrigger)
    assert (trigger.step, trigger.hold, deferred.value.method_name) == (0, True, "resume_held")
    assert state(store).intended_weight == first
    operator = ShiftTrafficOperator(task_id="task", release=release_run.model_dump_json())
    with pytest.raises(TaskDeferred) as deferred:
        operator.resume_held({}, watched(judge=trigger.state["judge"]), 0)
    assert deferred.value.trigger.hold is True
    assert deferred.value.trigger.state["elapsed_s"] == 7.0
    asks(store, tmp_path, "thaw", model="digits")
    with pytest.raises(TaskDeferred) as deferred:
        operator.resume_held({}, watched(judge=trigger.state["judge"]), 0)
    assert (deferred.value.trigger.step, deferred.value.trigger.hold) == (1, False)
    assert deferred.value.method_name == "resume"
    assert state(store).intended_weight == second


def test_a_candidate_that_does_worse_while_it_is_held_is_taken_back(
    release_run: ReleaseRun, service: ServiceDouble, store: ModelStoreHook, operate: Operate
) -> None:
    """The judge's word waits for no freeze, and neither does the rollback."""
    first = release_run.spec.rollout.steps[0].weight
    at_weight(service, release_run, store, first)
    step_passed(store, release_run, first)
    frozen(store)
    operator = ShiftTrafficOperator(task_id="task", release=release_run.model_dump_json())
    with pytest.raises(AirflowFailException):
        operator.resume_held({}, watched("roll_back"), 0)
    operate(RestoreStableOperator)
    assert service.model.users() == {stable_uri(release_run): 100}
    assert state(store).outcome == "rolled_back"


def test_a_release_may_be_refused_in_the_middle(
    release_run: ReleaseRun, service: ServiceDouble, store: ModelStoreHook
) -> None:
    """Where the file says so: the stage fails, which takes the candidate back, and says nothing against it."""
    first = release_run.spec.rollout.steps[0].weight
    at_weight(service, release_run, store, first)
    step_passed(store, release_run, first)
    frozen(store)
    with pytest.raises(AirflowFailException, match="frozen by bob"):
        resumed(asked_for(release_run, on_hold="refuse"), "advance")
    assert stages(store) == [("canary", "failed")]
    assert state(store).refused_by is None


def test_what_a_version_has_already_is_not_held(
    release_run: ReleaseRun, service: ServiceDouble, store: ModelStoreHook, operate: Operate
) -> None:
    """A task that is run again begins at the first step, which is less than users have; a watch goes on as it is."""
    for step in release_run.spec.rollout.steps:
        at_weight(service, release_run, store, step.weight)
        step_passed(store, release_run, step.weight)
    frozen(store)
    asking = asked_for(release_run, approval=Approval(before_promotion=True))
    hold = HoldCanaryOperator(
        task_id="hold",
        until_task_id="approve_promotion",
        judge=CanaryJudge(AnalysisPolicy()).to_json(),
        release=asking.model_dump_json(),
    )
    with pytest.raises(TaskDeferred):
        hold.execute({})
    with pytest.raises(TaskDeferred) as deferred:
        operate(ShiftTrafficOperator)
    assert isinstance(deferred.value.trigger, CanaryStepTrigger)


def test_a_preview_has_no_user_and_is_not_held(
    previewing: ReleaseRun, service: ServiceDouble, store: ModelStoreHook
) -> None:
    """Testers may look at the candidate during a freeze."""
    frozen(store)
    shown = ShowCandidateOperator(task_id="show", release=previewing.model_dump_json()).execute({})
    assert shown["candidate_url"]


def test_a_promotion_waits_and_is_watched(
    release_run: ReleaseRun, service: ServiceDouble, store: ModelStoreHook, operate: Operate, tmp_path: Path
) -> None:
    """At the last step's weight, without a failure; when the freeze is lifted the version is promoted."""
    last = release_run.spec.rollout.steps[-1].weight
    at_weight(service, release_run, store, last)
    steps_passed(store, release_run)
    frozen(store)
    with pytest.raises(TaskDeferred) as deferred:
        operate(PromoteOperator)
    trigger = deferred.value.trigger
    assert isinstance(trigger, CanaryStepTrigger)
    assert (trigger.hold, trigger.until_resumed, trigger.stage) == (True, False, "promotion")
    assert state(store).outcome == "open"
    promote = PromoteOperator(task_id="task", release=release_run.model_dump_json())
    with pytest.raises(TaskDeferred) as deferred:
        promote.resume({}, watched(), trigger.step)
    assert deferred.value.trigger.state["elapsed_s"] == 7.0
    asks(store, tmp_path, "thaw")
    promote.resume({}, watched(), trigger.step)
    assert service.model.users() == {release_run.storage_uri: 100}
    assert state(store).outcome == "promoted"


def test_an_override_lets_one_version_go_on(
    release_run: ReleaseRun, service: ServiceDouble, store: ModelStoreHook, operate: Operate, tmp_path: Path
) -> None:
    """Another person's word, in the version's record."""
    frozen(store, by="bob")
    asks(store, tmp_path, "override", who="carol", model="digits", version=3)
    with pytest.raises(TaskDeferred) as deferred:
        operate(ShiftTrafficOperator)
    assert isinstance(deferred.value.trigger, CanaryStepTrigger)


def test_a_freeze_that_cannot_be_read_raises_nothing(
    release_run: ReleaseRun, service: ServiceDouble, store: ModelStoreHook, operate: Operate
) -> None:
    """It waits, and the record says why."""
    store.write(f"{freezes_prefix(None)}20990101T000000Z-0123456789abcdef.json", b"?")
    with pytest.raises(TaskDeferred) as deferred:
        operate(ShiftTrafficOperator)
    assert isinstance(deferred.value.trigger, HoldChangedTrigger)
    assert "could not be read" in state(store).held


def test_a_version_that_is_rejected_while_it_is_held_goes_no_further(
    release_run: ReleaseRun, service: ServiceDouble, store: ModelStoreHook, operate: Operate
) -> None:
    """Whoever waits asks the record first: the stage is refused, and the users are taken back."""
    first = release_run.spec.rollout.steps[0].weight
    at_weight(service, release_run, store, first)
    step_passed(store, release_run, first)
    frozen(store)
    record(store).append(VersionRejected(reason="wrong answers", by="dora"))
    operator = ShiftTrafficOperator(task_id="task", release=release_run.model_dump_json())
    with pytest.raises(AirflowFailException, match="rejected by dora"):
        operator.resume_held({}, watched(), 0)
    operate(RestoreStableOperator)
    assert service.model.users() == {stable_uri(release_run): 100}


def resume(store: ModelStoreHook, folder: Path) -> str:
    """What the form of `canary_pause` does; returns what it tells."""
    (folder / "digits.yaml").write_text(RELEASE_FILE)
    operator = PauseCanaryOperator(task_id="pause", releases_dir=str(folder), bucket=store.bucket)
    asked: Any = {
        "params": {"model": "digits", "action": "resume", "reason": "looked at it"},
        "run_id": "digits-resume",
        "dag_run": SimpleNamespace(triggering_user_name="carol"),
    }
    return operator.execute(asked)


def test_a_resume_in_a_freeze_raises_nothing(
    release_run: ReleaseRun,
    service: ServiceDouble,
    store: ModelStoreHook,
    lease: LeaseDouble,
    tmp_path: Path,
) -> None:
    """The pause is over, the freeze is not: the message names it, and the next raise waits for its end."""
    first = release_run.spec.rollout.steps[0].weight
    at_weight(service, release_run, store, first)
    step_passed(store, release_run, first)
    lease.pause("a person wants to look")
    frozen(store, reason="audit")
    told = resume(store, tmp_path)
    assert "continues; no weight is raised before that ends: every model is frozen by bob" in told
    assert lease.lease is not None
    assert not lease.lease.paused
    with pytest.raises(TaskDeferred) as deferred:
        resumed(release_run, "advance")
    assert (deferred.value.trigger.hold, deferred.value.method_name) == (True, "resume_held")
    assert state(store).intended_weight == first
    asks(store, tmp_path, "thaw")
    lease.pause("a person wants to look")
    assert resume(store, tmp_path) == "the canary of digits-3 continues"
    key = audit_key("digits", 3, "digits-resume", "resumed")
    kept = AuditEntry.from_bytes(store.require(key, remedy="none"), key)
    assert (kept.by, kept.reason) == ("carol", "looked at it")


def test_a_resume_of_a_rejected_version_says_what_becomes_of_it(
    release_run: ReleaseRun, service: ServiceDouble, store: ModelStoreHook, tmp_path: Path
) -> None:
    """It is taken back at its next raise; to resume it is not refused."""
    at_weight(service, release_run, store, release_run.spec.rollout.steps[0].weight)
    record(store).append(VersionRejected(reason="wrong answers", by="dora"))
    assert "is rolled back, because it was rejected by dora" in resume(store, tmp_path)


def test_a_held_lease_is_left_alone(
    release_run: ReleaseRun, service: ServiceDouble, store: ModelStoreHook, lease: LeaseDouble
) -> None:
    """Whoever waits gives nothing back: the watch that goes on renews it."""
    first = release_run.spec.rollout.steps[0].weight
    at_weight(service, release_run, store, first)
    step_passed(store, release_run, first)
    frozen(store)
    before = lease.lease
    with pytest.raises(TaskDeferred):
        resumed(release_run, "advance")
    assert lease.lease == before
