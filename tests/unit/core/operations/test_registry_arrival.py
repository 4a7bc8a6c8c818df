"""Whether a promoted version is brought in, by what the bucket has of it."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from slipway_core.errors import (
    ArrivalRefusedError,
    SlipwayError,
    VersionConflictError,
    VersionDeletedError,
)
from slipway_core.intake import IncomingVersion, ReadyFile, parse_ready
from slipway_core.operations.registry_arrival import (
    InBucket,
    Origin,
    check_present,
    next_step,
    ready_file,
)
from slipway_core.record.arrivals import Attempts

ORIGIN = Origin("Digits", 3, "run", "mlflow-artifacts:/0/a", 5)
READY = parse_ready(ready_file("digits", ORIGIN, {"model.onnx": "0" * 64}), IncomingVersion("digits", 3))
STARTED = Attempts(started_at=datetime(2026, 1, 2, tzinfo=UTC), ended=True, met_users=False)
REJECTED = Attempts(started_at=None, ended=False, met_users=False, rejected=True)


def test_ready_json_notes_the_origin() -> None:
    """It is read as training's own, and says the same for the same version."""
    assert Origin.noted(READY.metadata) == ORIGIN
    assert READY.files == {"model.onnx": "0" * 64}
    assert READY.start == "automatic"
    assert ready_file("digits", ORIGIN, {}) == ready_file("digits", replace(ORIGIN), {})


@pytest.mark.parametrize(
    ("found", "status", "step"),
    [
        (InBucket(), "READY", "bring_in"),
        (InBucket(), "PENDING_REGISTRATION", "wait"),
        (InBucket(ready=READY), "READY", "known"),
        (InBucket(published=READY.metadata), "READY", "known"),
        (InBucket(ready=READY, attempts=replace(STARTED, rejected=True)), "READY", "known"),
        (InBucket(attempts=STARTED), "READY", "known"),
        (InBucket(attempts=replace(STARTED, rejected=True)), "READY", "known"),
        (InBucket(attempts=STARTED, deleted=True), "READY", "known"),
    ],
)
def test_what_is_to_be_done(found: InBucket, status: str, step: str) -> None:
    """What arrived, is published or was released is known; the rest is brought in once it is complete."""
    assert next_step(ORIGIN, status, found) == step


@pytest.mark.parametrize(
    ("found", "status", "error"),
    [
        (InBucket(ready=ReadyFile(model="digits", version=3)), "READY", VersionConflictError),
        (InBucket(published={}), "READY", VersionConflictError),
        (InBucket(published={"mlflow": "x"}), "READY", VersionConflictError),
        (InBucket(published={"mlflow": {"else": 1}}), "READY", VersionConflictError),
        (InBucket(deleted=True), "READY", VersionDeletedError),
        (InBucket(attempts=REJECTED), "READY", ArrivalRefusedError),
        (InBucket(), "FAILED_REGISTRATION", ArrivalRefusedError),
    ],
)
def test_what_is_refused(found: InBucket, status: str, error: type[SlipwayError]) -> None:
    """Another origin, a number that is used up, a rejected version, one that MLflow does not call ready."""
    with pytest.raises(error):
        next_step(ORIGIN, status, found)


@pytest.mark.parametrize(
    "other",
    [
        replace(ORIGIN, run_id="another"),
        replace(ORIGIN, source="mlflow-artifacts:/0/b"),
        replace(ORIGIN, registered_model="Other"),
        replace(ORIGIN, created_at_ms=6),
    ],
    ids=["run", "source", "registered model", "time"],
)
def test_the_number_alone_says_nothing(other: Origin) -> None:
    """A registered model that was made again counts from 1 again."""
    with pytest.raises(VersionConflictError, match="is not the registry's"):
        next_step(other, "READY", InBucket(ready=READY))


def test_what_lies_there_must_be_the_registrys() -> None:
    """Part of it may be there, of an arrival that was broken off."""
    files = {"model.onnx": 5, "labels.txt": 3}
    check_present(files, {}, "s3://b/incoming/digits/3/")
    check_present(files, {"labels.txt": 3}, "s3://b/incoming/digits/3/")
    for present in ({"labels.txt": 4}, {"other.txt": 3}):
        with pytest.raises(VersionConflictError, match=next(iter(present))):
            check_present(files, present, "s3://b/incoming/digits/3/")
