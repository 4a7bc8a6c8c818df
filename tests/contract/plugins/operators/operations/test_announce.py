"""What a release has made true starts the DAGs that wait for it, by Airflow's own database and scheduler."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from slipway.hooks.s3_store import ModelStoreHook
from slipway.release_record.record import ReleaseRecord
from slipway.release_run import ReleaseRun, StableVersion
from slipway_core.record.kinds import (
    EventData,
    Promoted,
    ReleaseFinished,
    ReleaseStarted,
    RollbackStarted,
    RolledBack,
    VersionRejected,
)
from slipway_core.spec.release_file import load_model_spec
from slipway_sandbox.host.settings import PROJECT_ROOT
from tests.support.dags.run import run_program
from tests.support.release.admission import RELEASE_FILE
from tests.support.store.connections import aws_connection

pytestmark = pytest.mark.timeout(300)

V1, V2 = "s3://b/models/digits/1/repository", "s3://b/models/digits/2/repository"
PROMOTED = (Promoted(storage_uri=V2, manifest_sha256="a" * 64), ReleaseFinished(outcome="promoted"))
TAKEN_BACK = (
    RollbackStarted(reason="too many errors", by="judge", stable_storage_uri=V1),
    RolledBack(stable_storage_uri=V1, candidate_requests=9, candidate_errors=4),
    VersionRejected(reason="too many errors", stage="canary"),
    ReleaseFinished(outcome="rolled_back", reason="too many errors"),
)
REFUSED = (ReleaseFinished(outcome="refused", refused_by="validate", reason="wrong answers"),)


def released(store: ModelStoreHook, folder: Path, version: int, *events: EventData) -> dict[str, Any]:
    """Write the record of a release of a version; return its release run."""
    (folder / "digits.yaml").write_text(RELEASE_FILE)
    release_run = ReleaseRun(
        release_id=f"digits-{version}",
        model="digits",
        version=version,
        bucket=store.bucket,
        spec=load_model_spec(folder, "digits"),
        stable=StableVersion(version=1, storage_uri=f"s3://{store.bucket}/models/digits/1/repository"),
    )
    record = ReleaseRecord(store, "digits", version, release_run.release_id)
    started = ReleaseStarted(stable_storage_uri=V1, admitted=release_run.admitted)
    for event in (started, *events):
        record.append(event)
    return release_run.model_dump(mode="json")


def announced(
    home: Path, s3_endpoint: str, store: ModelStoreHook, *releases: dict[str, Any]
) -> dict[str, Any]:
    """Run the task for each release in turn; return its states, the events, and who was started by which."""
    home.mkdir()
    environment = {
        "AIRFLOW_CONN_AWS_DEFAULT": aws_connection(s3_endpoint),
        "AIRFLOW_VAR_SLIPWAY_BUCKET": store.bucket,
    }
    arguments = ["tests.support.dags.announce_program", json.dumps(releases)]
    found: dict[str, Any] = run_program(
        home, PROJECT_ROOT / "examples" / "dags", arguments, "FOUND", environment
    )
    return found


def test_a_promotion_starts_who_waits_for_it_once(
    store: ModelStoreHook, s3_endpoint: str, tmp_path: Path
) -> None:
    """The task is run twice, and the model's asset has one event; the scheduler starts the example DAG with it."""
    release_run = released(store, tmp_path, 2, *PROMOTED)
    found = announced(tmp_path / "home", s3_endpoint, store, release_run, release_run)
    assert found["states"] == ["success", "success"]
    (event,) = found["events"]
    assert event["uri"] == "x-slipway://models/digits/live"
    known = {name: event["extra"][name] for name in ("model", "version", "release_id", "previous_version")}
    assert known == {"model": "digits", "version": 2, "release_id": "digits-2", "previous_version": 1}
    assert found["runs"] == [[2]]


def test_a_rollback_and_its_rejection_are_two_events(
    store: ModelStoreHook, s3_endpoint: str, tmp_path: Path
) -> None:
    """A refused release has no event, and a canary that was taken back has none of a promotion."""
    refused = released(store, tmp_path, 3, *REFUSED)
    taken_back = released(store, tmp_path, 2, *TAKEN_BACK)
    found = announced(tmp_path / "home", s3_endpoint, store, refused, taken_back)
    assert found["states"] == ["success", "success"]
    assert [(event["uri"], event["extra"]["version"]) for event in found["events"]] == [
        ("x-slipway://models/digits/rolled-back", 2),
        ("x-slipway://models/digits/rejected", 2),
    ]
    assert found["runs"] == [[2]]


def test_what_cannot_be_read_is_not_announced(
    store: ModelStoreHook, s3_endpoint: str, tmp_path: Path
) -> None:
    """A release run that is not what was admitted fails the task, and nobody is started."""
    release_run = released(store, tmp_path, 2, *PROMOTED)
    other = {**release_run, "force": True}
    found = announced(tmp_path / "home", s3_endpoint, store, other)
    assert found == {"states": ["failed"], "events": [], "runs": []}
