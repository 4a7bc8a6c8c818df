"""A rollback that `model_revalidation` has started, and no person: it is never in a release's way."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from airflow.sdk.exceptions import AirflowSkipException

from slipway.hooks.s3_store import ModelStoreHook
from slipway.release_record.lock import LockOwner, lock_key
from slipway.release_record.record import ReleaseRecord
from slipway.release_run import ReleaseRun
from slipway.traffic.reconciler import reconcile
from slipway_core.rollout.next_action import StartCanary
from tests.support.canary.doubles import ServiceDouble
from tests.support.release.rollback_by_hand import RUN, RunDouble, finish, uri, validated


def by_nobody() -> RunDouble:
    """A run that another run has started."""
    run = RunDouble(version=1)
    run.started_by = None
    return run


def test_a_release_under_way_is_left_alone(
    name_it: Callable[..., ReleaseRun], store: ModelStoreHook, service: ServiceDouble
) -> None:
    """By the lock that its run holds, and by its canary; nothing is patched."""
    run = by_nobody()
    store.write(lock_key("digits"), LockOwner("digits-3", 3).to_bytes())
    run.running.add("digits-3")
    before = len(service.patches)
    with pytest.raises(AirflowSkipException, match="digits-3"):
        name_it(run)
    assert len(service.patches) == before
    store.delete(lock_key("digits"))
    reconcile(service, StartCanary(uri(store, 9), 50, release_id="digits-9", version=9), timeout_s=60)  # type: ignore[arg-type]
    before = len(service.patches)
    with pytest.raises(AirflowSkipException, match="a canary is under way"):
        name_it(run)
    assert len(service.patches) == before


def test_where_nothing_is_under_way_it_goes_back(
    name_it: Callable[..., ReleaseRun], store: ModelStoreHook, service: ServiceDouble
) -> None:
    """The record says who did it, and does not say that a person has; the version is not rejected by that."""
    run = by_nobody()
    release_run = name_it(run)
    validated(store, release_run)
    finish(release_run, run)
    assert service.model is not None
    assert service.model.users() == {uri(store, 1): 100}
    record = ReleaseRecord(store, "digits", 2, RUN)
    started = next(event for event in record.events() if event.kind == "rollback_started")
    assert started.data.by == "model_revalidation"
    assert record.state().rejection is None
