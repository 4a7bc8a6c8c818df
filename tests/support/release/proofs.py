"""What a release must have in its record before a weight is raised, written as its tasks write it."""

from __future__ import annotations

from slipway.hooks.s3_store import ModelStoreHook
from slipway.registry.registry import ModelRegistry
from slipway.release_record.record import ReleaseRecord
from slipway.release_run import ReleaseRun
from slipway_core.record.kinds import (
    CandidateVerified,
    Promoted,
    ReleaseFinished,
    ReleaseStarted,
    StageFinished,
    StageStarted,
    StepFinished,
)
from slipway_core.record.requirements import requirements_of


def record_of(store: ModelStoreHook, release_run: ReleaseRun) -> ReleaseRecord:
    """Return the release's record."""
    return ReleaseRecord(store, release_run.model, release_run.version, release_run.release_id)


def manifest_digest(store: ModelStoreHook, release_run: ReleaseRun) -> str:
    """Return the SHA-256 of the published version's manifest."""
    return ModelRegistry(store).require_with_digest(release_run.model, release_run.version)[1]


def admitted(store: ModelStoreHook, release_run: ReleaseRun, triggered_by: str | None = "alice") -> None:
    """The release begins, as `admit` writes it."""
    required = requirements_of(release_run.spec, first=release_run.stable is None)
    record_of(store, release_run).append(
        ReleaseStarted(
            stable_storage_uri=None if release_run.stable is None else release_run.stable.storage_uri,
            required=required,
            triggered_by=triggered_by,
        )
    )


def gates_passed(store: ModelStoreHook, release_run: ReleaseRun) -> None:
    """Every gate has passed for what is published, and the files were held against the manifest."""
    record, digest = record_of(store, release_run), manifest_digest(store, release_run)
    for gate in requirements_of(release_run.spec, first=release_run.stable is None).gates:
        record.append(StageStarted(stage=gate))
        record.append(StageFinished(stage=gate, outcome="passed", manifest_sha256=digest))
    record.append(CandidateVerified(manifest_sha256=digest))


def step_passed(store: ModelStoreHook, release_run: ReleaseRun, weight: int, verdict: str = "pass") -> None:
    """A step of the canary is over."""
    record_of(store, release_run).append(
        StepFinished(
            weight=weight, verdict=verdict, reason="", candidate_requests=100, candidate_errors=0, seconds=5.0
        )
    )


def steps_passed(store: ModelStoreHook, release_run: ReleaseRun) -> None:
    """Every step of the canary has passed."""
    for step in release_run.spec.rollout.steps:
        step_passed(store, release_run, step.weight)


def promoted(store: ModelStoreHook, model: str, version: int) -> None:
    """An earlier release of a published version ended well."""
    record = ReleaseRecord(store, model, version, f"{model}-{version}")
    digest = ModelRegistry(store).require_with_digest(model, version)[1]
    uri = ModelRegistry(store).storage_uri(model, version)
    record.append(ReleaseStarted(stable_storage_uri=None))
    record.append(Promoted(storage_uri=uri, manifest_sha256=digest))
    record.append(ReleaseFinished(outcome="promoted"))
