"""Records of whole releases of made-up models, for tests of what is folded from them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from slipway_core.bucket_layout import repository_paths
from slipway_core.record.events import Event
from slipway_core.record.kinds import (
    EventData,
    Promoted,
    ReleaseFinished,
    ReleaseStarted,
    RollbackStarted,
    RolledBack,
    StageFinished,
    StageStarted,
    StepFinished,
    VersionRejected,
    WeightIntended,
    WeightObserved,
)
from slipway_core.record.requirements import Requirements

START = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)
PLAN = Requirements(weights=(5, 50))


def uri(model: str, version: int) -> str:
    """Return where a version lies."""
    return repository_paths(model, version).storage_uri("bucket")


def at(minutes: float) -> datetime:
    """Return a moment after the start of it all."""
    return START + timedelta(minutes=minutes)


def record_of(
    model: str,
    version: int,
    said: Sequence[EventData],
    *,
    begins_at: datetime = START,
    release_id: str = "",
    first_seq: int = 1,
    step: timedelta = timedelta(seconds=10),
) -> list[Event]:
    """Return the events that say this, one after another."""
    name = release_id or f"{model}-{version}"
    return [
        Event(first_seq + place, begins_at + place * step, name, model, version, data)
        for place, data in enumerate(said)
    ]


def begun(model: str, version: int, stable: int | None) -> list[EventData]:
    """Return what a release says that has passed its gates."""
    return [
        ReleaseStarted(
            stable_storage_uri=None if stable is None else uri(model, stable),
            required=PLAN if stable is not None else Requirements(),
            triggered_by="ada",
            reason="a better one",
        ),
        StageStarted(stage="validate"),
        StageFinished(stage="validate", outcome="passed"),
        StageStarted(stage="benchmark"),
        StageFinished(stage="benchmark", outcome="passed"),
        StageStarted(stage="canary"),
    ]


def step_of(model: str, version: int, stable: int, weight: int, verdict: str) -> list[EventData]:
    """Return what a step of a canary says."""
    return [
        WeightIntended(weight=weight, storage_uri=uri(model, version), stable_storage_uri=uri(model, stable)),
        WeightObserved(weight=weight, traffic={"old": 100 - weight, "new": weight}),
        StepFinished(
            weight=weight,
            verdict=verdict,
            reason="as it was",
            candidate_requests=100,
            candidate_errors=0,
            seconds=60.0,
        ),
    ]


def promoted(model: str, version: int, stable: int | None) -> list[EventData]:
    """Return what a release says that promotes its version."""
    steps = (
        []
        if stable is None
        else [one for weight in PLAN.weights for one in step_of(model, version, stable, weight, "pass")]
    )
    return [
        *begun(model, version, stable),
        *steps,
        StageFinished(stage="canary", outcome="passed"),
        Promoted(storage_uri=uri(model, version)),
        ReleaseFinished(outcome="promoted"),
    ]


def rolled_back(model: str, version: int, stable: int) -> list[EventData]:
    """Return what a release says that the judge takes back."""
    return [
        *begun(model, version, stable),
        *step_of(model, version, stable, PLAN.weights[0], "fail"),
        RollbackStarted(reason="errors", by="judge", stable_storage_uri=uri(model, stable)),
        RolledBack(stable_storage_uri=uri(model, stable), candidate_requests=100, candidate_errors=7),
        VersionRejected(reason="errors", stage="canary"),
        ReleaseFinished(outcome="rolled_back"),
    ]
