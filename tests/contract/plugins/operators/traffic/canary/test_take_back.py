"""The teardown that brings all users back to the stable version, whatever is out of order."""

from __future__ import annotations

from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException, TaskDeferred

from slipway.hooks.s3_store import ModelStoreHook
from slipway.metrics.sources.scrape import EnvoyMetricsHook
from slipway.operators.canary import ShiftTrafficOperator
from slipway.operators.promote import PromoteOperator
from slipway.operators.restore import ArmRollbackOperator, RestoreStableOperator
from slipway.release_record.record import ReleaseRecord
from slipway.release_run import ReleaseRun
from slipway.traffic.reconciler import reconcile
from slipway_core.errors import MetricsUnavailableError, SlipwayError, StoreUnavailableError
from slipway_core.record.fold import RecordError
from slipway_core.record.kinds import RolledBack, StageStarted
from slipway_core.rollout.next_action import RollBack, ShiftWeight, StartCanary
from tests.support.canary.doubles import LeaseDouble, ServiceDouble
from tests.support.canary.operators import Operate, lead_users, record, stable_uri, stages, state
from tests.support.release.proofs import admitted, gates_passed, steps_passed


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
    record(store).append(StageStarted(stage="roll_back"))
    record(store).append(
        RolledBack(
            stable_storage_uri=stable_uri(release_run),
            candidate_requests=1,
            candidate_errors=0,
            weight_0_at=None,
        )
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
    reconcile(service, StartCanary(foreign, 30), timeout_s=60)  # type: ignore[arg-type]
    reconcile(service, ShiftWeight(60, foreign), timeout_s=60)  # type: ignore[arg-type]
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
        timeout_s=60,
        suffices=lambda now: now.observed is not None and now.observed.storage_uri != release_run.storage_uri,
    )
    operate(RestoreStableOperator)
    assert state(store).candidate_errors == 7
