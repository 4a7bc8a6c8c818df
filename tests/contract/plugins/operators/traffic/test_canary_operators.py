"""The operators that lead users to a version and back: real record in S3, a model of Knative for the cluster."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException, TaskDeferred
from slipway import release_context
from slipway.hooks.ingress import Endpoint
from slipway.hooks.s3_store import ModelStoreHook
from slipway.metrics.source import EnvoyMetricsHook
from slipway.operators.approval import ApproveReleaseOperator
from slipway.operators.base import ReleaseOperator
from slipway.operators.canary import HoldCanaryOperator, ShiftTrafficOperator
from slipway.operators.preview import ShowCandidateOperator, curl_line
from slipway.operators.promote import PromoteOperator
from slipway.operators.restore import ArmRollbackOperator, RestoreStableOperator
from slipway.registry.registry import ModelRegistry
from slipway.release_record.record import ReleaseRecord
from slipway.release_run import ReleaseRun, StableVersion
from slipway.traffic.reconciler import reconcile
from slipway.triggers.canary import CanaryStepTrigger

from include.model_release.canary.judge import AnalysisPolicy, CanaryJudge
from include.model_release.errors import (
    ClusterUnavailableError,
    MetricsUnavailableError,
    SlipwayError,
    StoreUnavailableError,
)
from include.model_release.metrics.samples import Counters, Reading
from include.model_release.record.fold import RecordError, ReleaseState
from include.model_release.record.requirements import GATES
from include.model_release.rollout.next_action import RollBack, ShiftWeight, StartCanary
from include.model_release.spec.release_file import Approval, parse_release_spec
from include.model_release.spec.rollout.preview import Preview
from tests.contract.plugins.conftest import Publication
from tests.support.release.proofs import admitted, gates_passed, step_passed, steps_passed
from tests.support.rollout.knative_model import KnativeModel
from tests.unit.plugins.conftest import LeaseDouble, ServiceDouble

Operate = Callable[..., Any]


@pytest.fixture
def release_run(store: ModelStoreHook, prepare_version: Callable[..., Publication]) -> ReleaseRun:
    """Version 3 is admitted, over version 2, and published."""
    one = prepare_version(3)
    ModelRegistry(store).publish(one.manifest, one.sources, one.golden)
    spec = parse_release_spec("model: digits\nsource: {format: onnx}\n", "digits.yaml")
    release_run = ReleaseRun(
        release_id="digits-3",
        model="digits",
        version=3,
        bucket=store.bucket,
        spec=spec,
        stable=StableVersion(version=2, storage_uri=f"s3://{store.bucket}/models/digits/2/repository"),
    )
    admitted(store, release_run)
    gates_passed(store, release_run)
    return release_run


@pytest.fixture
def service(release_run: ReleaseRun, monkeypatch: pytest.MonkeyPatch) -> ServiceDouble:
    """The InferenceService, on which version 2 has all users."""
    model = KnativeModel()
    model.create({"metadata": {}, "spec": {"predictor": {"model": {"storageUri": stable_uri(release_run)}}}})
    model.settle()
    double = ServiceDouble(model)
    monkeypatch.setattr(release_context, "KServeHook", lambda *arguments: double)
    return double


@pytest.fixture(autouse=True)
def lease(release_run: ReleaseRun, monkeypatch: pytest.MonkeyPatch) -> LeaseDouble:
    """The canary's lease, which this release holds."""
    double = LeaseDouble()
    double.acquire(release_run.release_id, lease_s=60, candidate_uri="", stable_uri="")
    monkeypatch.setattr(release_context, "LeaseHook", lambda *arguments: double)
    return double


@pytest.fixture(autouse=True)
def _metrics(monkeypatch: pytest.MonkeyPatch) -> None:
    """The candidate has answered 40 requests, 7 of them with an error."""
    monkeypatch.setenv(
        "AIRFLOW_CONN_SLIPWAY_METRICS", '{"conn_type": "http", "host": "127.0.0.1", "port": 1}'
    )
    monkeypatch.setattr(
        EnvoyMetricsHook,
        "read",
        lambda self, revisions: {name: Reading.of(1.0, {"router": Counters(40, 7)}) for name in revisions},
    )


@pytest.fixture
def operate(release_run: ReleaseRun, service: ServiceDouble) -> Operate:
    """Executes an operator for the release."""

    def execute(operator: type[ReleaseOperator]) -> Any:
        return operator(task_id="task", release=release_run.model_dump_json()).execute({})

    return execute


def stable_uri(release_run: ReleaseRun) -> str:
    assert release_run.stable is not None
    return release_run.stable.storage_uri


def record(store: ModelStoreHook) -> ReleaseRecord:
    return ReleaseRecord(store, "digits", 3, "digits-3")


def state(store: ModelStoreHook) -> ReleaseState:
    return record(store).state()


def stages(store: ModelStoreHook) -> list[tuple[str, str]]:
    """Return name and outcome of each stage after the gates."""
    found = [(stage.name, stage.outcome) for stage in state(store).stages]
    return [one for one in found if one[0] not in GATES]


def lead_users(service: ServiceDouble, release_run: ReleaseRun, store: ModelStoreHook, weight: int) -> None:
    """Bring the candidate to a weight, as shift_traffic does."""
    record(store).append(
        "weight_intended",
        weight=weight,
        storage_uri=release_run.storage_uri,
        stable_storage_uri=stable_uri(release_run),
    )
    reconcile(service, StartCanary(release_run.storage_uri, weight), timeout_s=5)  # type: ignore[arg-type]


def test_intent_is_written_before_the_first_percent(
    release_run: ReleaseRun, service: ServiceDouble, store: ModelStoreHook, operate: Operate
) -> None:
    """The worker writes down what it is about to do and leaves the doing to the trigger."""
    with pytest.raises(TaskDeferred) as deferred:
        operate(ShiftTrafficOperator)
    assert isinstance(deferred.value.trigger, CanaryStepTrigger)
    assert deferred.value.kwargs == {"step": 0}
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


def resumed(release_run: ReleaseRun, decision: str, step: int = 0, events: tuple[Any, ...] = ()) -> None:
    judge = CanaryJudge(AnalysisPolicy()).to_json()
    event = {
        "decision": decision,
        "judge": judge,
        "elapsed_s": 5.0,
        "events": list(events),
        "error": None,
    }
    ShiftTrafficOperator(task_id="task", release=release_run.model_dump_json()).resume({}, event, step)  # type: ignore[arg-type]


def test_a_passed_step_leads_to_the_next_one(
    release_run: ReleaseRun, service: ServiceDouble, store: ModelStoreHook
) -> None:
    """After the first step the second weight is intended."""
    step_passed(store, release_run, release_run.spec.rollout.steps[0].weight)
    with pytest.raises(TaskDeferred) as deferred:
        resumed(release_run, "advance")
    assert deferred.value.kwargs == {"step": 1}
    assert state(store).intended_weight == release_run.spec.rollout.steps[1].weight


def test_the_last_passed_step_ends_the_stage(
    release_run: ReleaseRun, service: ServiceDouble, store: ModelStoreHook
) -> None:
    """After the last step the stage has passed; promotion is another task's."""
    record(store).append("stage_started", stage="canary")
    resumed(release_run, "advance", step=len(release_run.spec.rollout.steps) - 1)
    assert stages(store) == [("canary", "passed")]


def test_a_step_that_goes_on_keeps_its_time_and_its_judge(
    release_run: ReleaseRun, service: ServiceDouble
) -> None:
    """A report in the middle of a step defers again from where it was."""
    with pytest.raises(TaskDeferred) as deferred:
        resumed(release_run, "continue")
    assert deferred.value.trigger.state["elapsed_s"] == 5.0
    assert deferred.value.kwargs == {"step": 0}


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
    record(store).append("stage_finished", stage="canary", outcome="failed", reason="S3 was away")
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


def test_a_step_that_meets_a_pause_leaves_the_users_where_they_are(
    release_run: ReleaseRun, service: ServiceDouble, store: ModelStoreHook
) -> None:
    """The step before is watched on; it passes again when the canary is resumed."""
    step_passed(store, release_run, release_run.spec.rollout.steps[0].weight)
    step_passed(store, release_run, release_run.spec.rollout.steps[1].weight)
    with pytest.raises(TaskDeferred) as deferred:
        resumed(release_run, "paused", step=2)
    assert deferred.value.kwargs == {"step": 1}
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
    assert ("mend the model" in text) == (by == "judge")


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
    with pytest.raises(AirflowFailException, match="another version"):
        ArmRollbackOperator(task_id="task", release=other.model_dump_json()).execute({})
    assert service.patches == []


def test_a_promoted_version_is_not_taken_back(
    release_run: ReleaseRun, service: ServiceDouble, store: ModelStoreHook, operate: Operate
) -> None:
    """The teardown leaves a promoted version alone."""
    lead_users(service, release_run, store, 50)
    steps_passed(store, release_run)
    operate(PromoteOperator)
    operate(RestoreStableOperator)
    assert service.model.users() == {release_run.storage_uri: 100}


@pytest.mark.parametrize("weight", [1, 50, 99])
def test_a_stopped_release_is_taken_back(
    weight: int, release_run: ReleaseRun, service: ServiceDouble, store: ModelStoreHook, operate: Operate
) -> None:
    """From any weight the stable version alone gets the users; the record says why and what it cost."""
    lead_users(service, release_run, store, weight)
    operate(RestoreStableOperator)
    assert service.model.users() == {stable_uri(release_run): 100}
    assert service.model.spec.get("canaryTrafficPercent") is None
    found = state(store)
    assert found.outcome == "rolled_back"
    assert found.candidate_errors == 7
    assert found.weight_0_at is not None
    assert "stopped" in (found.reason or "")


def test_the_first_patch_of_a_rollback_is_the_percent_alone(
    release_run: ReleaseRun, service: ServiceDouble, store: ModelStoreHook, operate: Operate
) -> None:
    """Users are safe before anything else is changed."""
    lead_users(service, release_run, store, 50)
    before = len(service.patches)
    operate(RestoreStableOperator)
    assert service.patches[before]["spec"] == {"predictor": {"canaryTrafficPercent": 0}}


def test_a_release_that_led_no_user_there_has_nothing_to_take_back(
    service: ServiceDouble, store: ModelStoreHook, operate: Operate
) -> None:
    """Without an intended weight the InferenceService is not touched."""
    operate(RestoreStableOperator)
    assert service.patches == []
    assert state(store).outcome == "open"


def test_a_rollback_is_done_once(
    release_run: ReleaseRun, service: ServiceDouble, store: ModelStoreHook, operate: Operate
) -> None:
    """A teardown that is run again finds the release rolled back."""
    lead_users(service, release_run, store, 50)
    operate(RestoreStableOperator)
    events, patches = len(record(store).events()), len(service.patches)
    operate(RestoreStableOperator)
    assert (len(record(store).events()), len(service.patches)) == (events, patches)


def test_a_rollback_that_was_killed_at_its_very_end_is_tidied(
    release_run: ReleaseRun,
    service: ServiceDouble,
    store: ModelStoreHook,
    operate: Operate,
    lease: LeaseDouble,
) -> None:
    """A task that died right after it wrote `rolled_back` left its stage open and its lease; its retry ends both."""
    lead_users(service, release_run, store, 50)
    record(store).append("stage_started", stage="roll_back")
    record(store).append(
        "rolled_back",
        stable_storage_uri=stable_uri(release_run),
        candidate_requests=1,
        candidate_errors=0,
        weight_0_at=None,
    )
    operate(RestoreStableOperator)
    assert stages(store) == [("roll_back", "passed")]
    assert lease.lease is None


def test_a_rollback_does_not_need_the_metrics_source(
    release_run: ReleaseRun,
    service: ServiceDouble,
    store: ModelStoreHook,
    operate: Operate,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With nobody to count, the users are taken back all the same and the counts are unknown."""

    def away(self: EnvoyMetricsHook, revisions: Any) -> Any:
        raise MetricsUnavailableError("the metrics endpoint did not answer")

    monkeypatch.setattr(EnvoyMetricsHook, "read", away)
    lead_users(service, release_run, store, 50)
    operate(RestoreStableOperator)
    assert service.model.users() == {stable_uri(release_run): 100}
    assert state(store).candidate_errors is None


@pytest.mark.parametrize(
    "error",
    [StoreUnavailableError("S3 did not answer"), RecordError("the record has gaps")],
    ids=["away", "damaged"],
)
def test_a_rollback_does_not_need_the_record(
    error: SlipwayError,
    release_run: ReleaseRun,
    service: ServiceDouble,
    store: ModelStoreHook,
    operate: Operate,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With the record away or damaged the users are taken back first; only then the task fails."""
    lead_users(service, release_run, store, 50)

    def unreadable(self: ReleaseRecord) -> Any:
        raise error

    monkeypatch.setattr(ReleaseRecord, "events", unreadable)
    with pytest.raises((StoreUnavailableError, AirflowFailException)):
        operate(RestoreStableOperator)
    assert service.model.users() == {stable_uri(release_run): 100}


def test_a_rollback_does_not_need_to_write_the_record(
    release_run: ReleaseRun,
    service: ServiceDouble,
    store: ModelStoreHook,
    operate: Operate,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With a bucket that can be read and not written the users are taken back first; only then the task fails."""
    lead_users(service, release_run, store, 50)

    def read_only(self: ModelStoreHook, key: str, body: bytes, **options: Any) -> bool:
        raise StoreUnavailableError("the bucket takes no writes")

    monkeypatch.setattr(ModelStoreHook, "write_once", read_only)
    with pytest.raises(StoreUnavailableError):
        operate(RestoreStableOperator)
    assert service.model.users() == {stable_uri(release_run): 100}


def test_what_a_dead_release_left_is_taken_back_first(
    release_run: ReleaseRun, service: ServiceDouble, operate: Operate
) -> None:
    """A canary that nobody concluded is rolled back before the next release begins its own."""
    foreign = f"s3://{release_run.bucket}/models/digits/9/repository"
    reconcile(service, StartCanary(foreign, 30), timeout_s=5)  # type: ignore[arg-type]
    reconcile(service, ShiftWeight(60, foreign), timeout_s=5)  # type: ignore[arg-type]
    operate(ArmRollbackOperator)
    assert service.model.users() == {stable_uri(release_run): 100}


async def test_a_first_version_goes_live_alone_and_a_stopped_one_is_withdrawn(
    release_run: ReleaseRun,
    service: ServiceDouble,
    store: ModelStoreHook,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Without a stable version the trigger creates the InferenceService; taken back, it is deleted."""
    service.model = None
    first = release_run.model_copy(update={"stable": None, "release_id": "the first"})
    admitted(store, first)
    gates_passed(store, first)
    operator = ShiftTrafficOperator(task_id="task", release=first.model_dump_json())
    with pytest.raises(TaskDeferred) as deferred:
        operator.execute({})
    events = [event async for event in deferred.value.trigger.run()]
    operator.deployed({}, events[0].payload)
    assert service.model.users() == {release_run.storage_uri: 100}
    assert state(store).weight == 100
    RestoreStableOperator(task_id="task", release=first.model_dump_json()).execute({})
    assert service.model is None
    assert state(store).outcome == "rolled_back"


def test_what_users_met_is_counted_also_where_the_trigger_began_the_rollback(
    release_run: ReleaseRun, service: ServiceDouble, store: ModelStoreHook, operate: Operate
) -> None:
    """When the good version is named again already, a note on the InferenceService tells whose errors to count."""
    lead_users(service, release_run, store, 50)
    rollback = RollBack(stable_uri(release_run), release_run.storage_uri)
    reconcile(
        service,  # type: ignore[arg-type]
        rollback,
        timeout_s=5,
        suffices=lambda now: now.observed is not None and now.observed.storage_uri != release_run.storage_uri,
    )
    operate(RestoreStableOperator)
    assert state(store).candidate_errors == 7


# --- the preview ---


@pytest.fixture
def previewing(release_run: ReleaseRun) -> ReleaseRun:
    """The release with a preview."""
    rollout = release_run.spec.rollout.model_copy(update={"preview": Preview()})
    return release_run.model_copy(update={"spec": release_run.spec.model_copy(update={"rollout": rollout})})


def show(release_run: ReleaseRun, generation: object) -> dict[str, Any]:
    operator = ShowCandidateOperator(
        task_id="show", release=release_run.model_dump_json(), generation=str(generation)
    )
    shown: dict[str, Any] = operator.execute({})  # type: ignore[arg-type]
    return shown


def first_step(release_run: ReleaseRun, generation: object) -> CanaryStepTrigger:
    """Return the trigger of the canary's first step, as a triggerer makes it of what was stored."""
    operator = ShiftTrafficOperator(
        task_id="task", release=release_run.model_dump_json(), generation=str(generation)
    )
    with pytest.raises(TaskDeferred) as deferred:
        operator.execute({})
    return CanaryStepTrigger(**deferred.value.trigger.serialize()[1])


def test_a_release_without_a_preview_is_decided_on_as_it_was_armed(
    release_run: ReleaseRun, service: ServiceDouble, operate: Operate
) -> None:
    """Nothing is changed, and the canary is bound to the InferenceService that the rollback was armed over."""
    armed_at = operate(ArmRollbackOperator)
    assert armed_at == service.model.generation  # type: ignore[union-attr]
    shown = show(release_run, armed_at)
    assert shown == {"candidate_url": "", "stable_url": "", "generation": armed_at}
    assert service.patches == []
    assert first_step(release_run, shown["generation"]).generation == armed_at


def test_a_preview_is_written_down_before_it_is_opened_and_told_when_it_is_up(
    previewing: ReleaseRun,
    service: ServiceDouble,
    store: ModelStoreHook,
    operate: Operate,
) -> None:
    """Intent first; then no user is led there, and the record tells where to ask; run again it changes nothing."""
    armed_at = operate(ArmRollbackOperator)
    shown = show(previewing, armed_at)
    assert shown["candidate_url"] == "http://latest-digits-predictor.models.example.org"
    assert shown["stable_url"] == "http://prev-digits-predictor.models.example.org"
    assert service.model.users() == {stable_uri(previewing): 100}  # type: ignore[union-attr]
    kinds = [event.kind for event in record(store).events()]
    assert kinds.index("weight_intended") < kinds.index("weight_observed")
    told = next(event for event in record(store).events() if event.kind == "weight_observed")
    assert told.data["candidate_url"] == shown["candidate_url"]
    assert stages(store) == [("preview", "passed")]
    patches = len(service.patches)
    assert show(previewing, armed_at) == shown
    assert len(service.patches) == patches


def test_the_first_step_goes_on_from_the_preview_and_from_no_other_state(
    previewing: ReleaseRun, service: ServiceDouble, operate: Operate
) -> None:
    """The trigger carries the generation through being stored; its goal is refused once the preview is taken back."""
    shown = show(previewing, operate(ArmRollbackOperator))
    trigger = first_step(previewing, shown["generation"])
    goal = trigger._watch()._cluster._goal()
    assert isinstance(goal, StartCanary)
    assert goal.generation == shown["generation"]
    operate(RestoreStableOperator)
    for force in (False, True):
        with pytest.raises(SlipwayError):
            reconcile(service, replace(goal, force=force), timeout_s=5)  # type: ignore[arg-type]
    assert service.model.users() == {stable_uri(previewing): 100}  # type: ignore[union-attr]


def test_a_preview_that_is_stopped_is_taken_back(
    previewing: ReleaseRun, service: ServiceDouble, store: ModelStoreHook, operate: Operate
) -> None:
    """The teardown leaves stable alone, without any percent in the spec; no user met it, so it is no rollback."""
    show(previewing, operate(ArmRollbackOperator))
    operate(RestoreStableOperator)
    found = state(store)
    assert (found.outcome, found.rollback_phase, found.standing) == ("open", "done", "")
    events = len(record(store).events())
    operate(RestoreStableOperator)
    assert len(record(store).events()) == events
    assert service.model.spec.get("canaryTrafficPercent") is None  # type: ignore[union-attr]
    assert service.model.users() == {stable_uri(previewing): 100}  # type: ignore[union-attr]


def test_a_preview_that_a_dead_release_left_is_taken_back_first(
    previewing: ReleaseRun, service: ServiceDouble, operate: Operate
) -> None:
    """The next release finds a candidate at 0 % and begins over stable alone."""
    show(previewing, operate(ArmRollbackOperator))
    armed_at = operate(ArmRollbackOperator)
    assert service.model.users() == {stable_uri(previewing): 100}  # type: ignore[union-attr]
    assert service.model.spec["model"]["storageUri"] == stable_uri(previewing)  # type: ignore[union-attr]
    assert armed_at == service.model.generation  # type: ignore[union-attr]


def test_nobody_needs_a_preview_where_nothing_is_live(previewing: ReleaseRun, service: ServiceDouble) -> None:
    """A first version has no stable one that would go on serving meanwhile."""
    service.model = None
    first = previewing.model_copy(update={"stable": None})
    assert show(first, None) == {"candidate_url": "", "stable_url": "", "generation": None}


@pytest.mark.parametrize(
    ("endpoint", "line"),
    [
        (
            Endpoint("http://10.0.0.1:8080", "c.models"),
            "curl -H 'Host: c.models' http://10.0.0.1:8080/v2/models/digits",
        ),
        (Endpoint("http://c.models", "c.models"), "curl http://c.models/v2/models/digits"),
    ],
    ids=["by an ingress", "by its own name"],
)
def test_testers_are_given_a_command(endpoint: Endpoint, line: str) -> None:
    """It carries the host in a header where the host's name leads nowhere by itself."""
    assert curl_line(endpoint, "digits") == line


def test_the_address_of_the_candidate_is_rendered_into_the_approval(release_run: ReleaseRun) -> None:
    """A person who is asked is told where to try it; the field is a template."""
    assert "candidate_url" in ApproveReleaseOperator.template_fields
    assert "generation" in ShiftTrafficOperator.template_fields
    assert "generation" in ShowCandidateOperator.template_fields
