"""Back to an earlier version by hand: real record, lock and manifests in S3, a model of Knative for the cluster."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException, TaskDeferred

from slipway.hooks.s3_store import ModelStoreHook
from slipway.operators import rollback as operators
from slipway.operators.base import ReleaseOperator
from slipway.operators.rollback import TryRollbackOperator
from slipway.release_record.lock import LockOwner
from slipway.release_record.record import ReleaseRecord
from slipway.release_run import ReleaseRun
from slipway.traffic.reconciler import reconcile
from slipway_core.errors import StoreUnavailableError
from slipway_core.record.kinds import StageStarted
from slipway_core.rollout.next_action import StartCanary
from tests.support.canary.doubles import LeaseDouble, ServiceDouble
from tests.support.release.rollback_by_hand import RUN, RunDouble, finish, roll_back, uri, validated


def test_without_a_version_the_one_before_is_live_again(
    name_it: Callable[..., ReleaseRun], service: ServiceDouble, store: ModelStoreHook
) -> None:
    """The InferenceService notes what was live before; who did it, and why, is in the record of what was left."""
    run = RunDouble()
    release_run = name_it(run)
    validated(store, release_run)
    finish(release_run, run)
    assert service.model is not None
    assert service.model.users() == {uri(store, 1): 100}
    events = ReleaseRecord(store, "digits", 2, RUN).events()
    started = next(event for event in events if event.kind == "rollback_started")
    assert (started.data.by, started.data.reason) == ("a person", "labels were swapped")
    state = ReleaseRecord(store, "digits", 2, RUN).state()
    assert (state.outcome, state.standing, state.triggered_by) == ("rolled_back", "rolled_back", "alice")
    assert not store.exists("records/digits/active.json")


def test_staging_tries_the_version_and_tells_the_record_of_the_one_to_leave(
    name_it: Callable[..., ReleaseRun], store: ModelStoreHook
) -> None:
    """The version is staged as a candidate is, with nothing to compare it with; the other one's record is told."""
    run = RunDouble()
    name_it(run)
    begin = TryRollbackOperator(task_id="begin", first_task_id="staging.prepare")
    tried = ReleaseRun.parse(begin.execute(run.context))
    assert (tried.version, tried.stable, tried.recorded_under) == (1, None, 2)
    step = ReleaseOperator(task_id="step", release=tried.model_dump_json())
    step.record.append(StageStarted(stage="validate"))
    assert [stage.name for stage in ReleaseRecord(store, "digits", 2, RUN).state().stages] == ["validate"]


def test_a_version_that_was_not_tried_is_not_gone_back_to(
    name_it: Callable[..., ReleaseRun], service: ServiceDouble, store: ModelStoreHook
) -> None:
    """Marking the staging tasks as success leads nobody anywhere: the record has no gate that passed."""
    run = RunDouble()
    release_run = name_it(run)
    patches = len(service.patches)
    with pytest.raises(AirflowFailException, match="the gate validate, passed; found it was not run"):
        roll_back(release_run, run)
    assert len(service.patches) == patches


def test_a_canary_under_way_is_ended_first(
    name_it: Callable[..., ReleaseRun],
    service: ServiceDouble,
    store: ModelStoreHook,
    lease: LeaseDouble,
) -> None:
    """Its users are back, and its lease is ended by name, before the lock of its release is asked for."""
    reconcile(service, StartCanary(uri(store, 3), 30, release_id="digits-3", version=3), timeout_s=60)  # type: ignore[arg-type]
    lease.acquire("digits-3", lease_s=60, candidate_uri="", stable_uri="")
    run = RunDouble(version=1)
    run.running.add("digits-3")
    operators.model_lock(store, "digits", run.context).acquire(LockOwner("digits-3", 3))
    with pytest.raises(TaskDeferred) as deferred:
        name_it(run)
    assert service.model is not None
    assert service.model.users() == {uri(store, 2): 100}
    assert lease.lease is not None
    assert lease.lease.ended_by == "a person"
    assert deferred.value.kwargs == {"waited": 1}


def test_a_canary_that_was_ended_needs_no_other_version(
    name_it: Callable[..., ReleaseRun], service: ServiceDouble, store: ModelStoreHook
) -> None:
    """Who names no version wants the canary gone; the record is its own release's."""
    reconcile(service, StartCanary(uri(store, 3), 30, release_id="digits-3", version=3), timeout_s=60)  # type: ignore[arg-type]
    with pytest.raises(AirflowSkipException, match="the canary was ended"):
        name_it(RunDouble())
    assert service.model is not None
    assert service.model.users() == {uri(store, 2): 100}
    assert store.entries("records/digits/3/") == []


def test_after_a_rollback_the_version_must_be_named(
    name_it: Callable[..., ReleaseRun], service: ServiceDouble, store: ModelStoreHook
) -> None:
    """Once one has gone back, the InferenceService does not tell what was live before that."""
    run = RunDouble(emergency=True)
    finish(name_it(run), run)
    with pytest.raises(AirflowFailException, match="does not say which version was live before"):
        name_it(RunDouble())


@pytest.mark.parametrize("emergency", [False, True])
def test_a_version_of_a_persons_choice_needs_the_object_store(
    emergency: bool,
    name_it: Callable[..., ReleaseRun],
    service: ServiceDouble,
    earlier: int,
    store_away: pytest.MonkeyPatch,
) -> None:
    """Nobody can tell whether users may be led there: the task is tried again, and names what needs less."""
    patches = len(service.patches)
    try:
        with pytest.raises(StoreUnavailableError, match="`emergency`, which needs only the cluster"):
            name_it(RunDouble(version=earlier, emergency=emergency))
    finally:
        store_away.undo()
    assert len(service.patches) == patches


def test_in_an_emergency_users_go_first_where_the_object_store_is_away(
    name_it: Callable[..., ReleaseRun],
    service: ServiceDouble,
    store: ModelStoreHook,
    store_away: pytest.MonkeyPatch,
) -> None:
    """With S3 away the version before is brought back all the same; the task then waits to write the record."""
    run = RunDouble(emergency=True)
    try:
        release_run = name_it(run)
        with pytest.raises(StoreUnavailableError):
            roll_back(release_run, run)
    finally:
        store_away.undo()
    assert service.model is not None
    assert service.model.users() == {uri(store, 1): 100}
    finish(release_run, run)
    assert ReleaseRecord(store, "digits", 2, RUN).state().outcome == "rolled_back"
