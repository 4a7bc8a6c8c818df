"""A rollback by hand whose XCom somebody else has written: users are led to what was asked about, and nowhere else."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException

from slipway.hooks.s3_store import ModelStoreHook
from slipway.operators.staging import PrepareStagingOperator
from slipway.release_record.record import ReleaseRecord
from slipway.release_run import ReleaseRun, StableVersion
from tests.support.canary.doubles import ServiceDouble
from tests.support.release.rollback_by_hand import RunDouble, finish, roll_back, uri, validated


@pytest.mark.parametrize("emergency", [False, True])
def test_the_version_asked_about_is_the_one_that_gets_the_users(
    emergency: bool,
    name_it: Callable[..., ReleaseRun],
    service: ServiceDouble,
    store: ModelStoreHook,
    earlier: int,
) -> None:
    """A number that is permitted beside the place of another version changes nothing."""
    run = RunDouble(version=earlier, emergency=emergency)
    release_run = name_it(run)
    validated(store, release_run)
    patches = len(service.patches)
    for stable in (
        StableVersion(version=earlier, storage_uri=uri(store, 9)),
        StableVersion(version=9, storage_uri=uri(store, earlier)),
        StableVersion(version=earlier, storage_uri=f"s3://elsewhere/models/digits/{earlier}/repository"),
        StableVersion(version=7, storage_uri=uri(store, 7)),
    ):
        with pytest.raises(AirflowFailException, match="another release than was admitted"):
            roll_back(release_run.model_copy(update={"stable": stable}), run)
    assert len(service.patches) == patches
    finish(release_run, run)
    assert service.model is not None
    assert service.model.users() == {uri(store, earlier): 100}


def test_staging_tries_what_was_asked_for(
    name_it: Callable[..., ReleaseRun], store: ModelStoreHook, earlier: int
) -> None:
    """Another version, or less asked of it, is not tried in the name of this rollback."""
    run = RunDouble(version=earlier)
    name_it(run)
    tried: dict[str, Any] = next(value for value in run.pushed.values() if value)
    easier = {**tried, "spec": {**tried["spec"], "validation": {"accuracy_min": 0.0}}}
    for forged in ({**tried, "version": 9}, easier):
        release = ReleaseRun.model_validate(forged).model_dump_json()
        with pytest.raises(AirflowFailException, match="another release than was admitted"):
            PrepareStagingOperator(task_id="prepare", release=release).execute({})
    record = ReleaseRecord(store, tried["model"], tried["recorded_under"], tried["release_id"])
    ReleaseRun.model_validate(tried).require_admitted(record.state())
