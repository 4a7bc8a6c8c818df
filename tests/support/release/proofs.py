"""What a release must have in its record before a weight is raised, written as its tasks write it."""

from __future__ import annotations

from slipway.hooks.s3_store import ModelStoreHook
from slipway.registry.registry import ModelRegistry
from slipway.release_record.record import ReleaseRecord
from slipway.release_run import ReleaseTicket

from include.model_release.record.requirements import requirements_of


def record_of(store: ModelStoreHook, ticket: ReleaseTicket) -> ReleaseRecord:
    """Return the release's record."""
    return ReleaseRecord(store, ticket.model, ticket.version, ticket.release_id)


def manifest_digest(store: ModelStoreHook, ticket: ReleaseTicket) -> str:
    """Return the SHA-256 of the published version's manifest."""
    return ModelRegistry(store).require_with_digest(ticket.model, ticket.version)[1]


def admitted(store: ModelStoreHook, ticket: ReleaseTicket, triggered_by: str | None = "alice") -> None:
    """The release begins, as `admit` writes it."""
    required = requirements_of(ticket.spec, first=ticket.stable is None)
    record_of(store, ticket).append(
        "release_started",
        stable_storage_uri=None if ticket.stable is None else ticket.stable.storage_uri,
        required=required.to_dict(),
        triggered_by=triggered_by,
    )


def gates_passed(store: ModelStoreHook, ticket: ReleaseTicket) -> None:
    """Every gate has passed for what is published, and the files were held against the manifest."""
    record, digest = record_of(store, ticket), manifest_digest(store, ticket)
    for gate in requirements_of(ticket.spec, first=ticket.stable is None).gates:
        record.append("stage_started", stage=gate)
        record.append("stage_finished", stage=gate, outcome="passed", manifest_sha256=digest)
    record.append("candidate_verified", manifest_sha256=digest)


def step_passed(store: ModelStoreHook, ticket: ReleaseTicket, weight: int, verdict: str = "pass") -> None:
    """A step of the canary is over."""
    record_of(store, ticket).append(
        "step_finished",
        weight=weight,
        verdict=verdict,
        reason="",
        candidate_requests=100,
        candidate_errors=0,
        seconds=5.0,
    )


def steps_passed(store: ModelStoreHook, ticket: ReleaseTicket) -> None:
    """Every step of the canary has passed."""
    for step in ticket.spec.rollout.steps:
        step_passed(store, ticket, step.weight)


def promoted(store: ModelStoreHook, model: str, version: int) -> None:
    """An earlier release of a published version ended well."""
    record = ReleaseRecord(store, model, version, f"{model}-{version}")
    digest = ModelRegistry(store).require_with_digest(model, version)[1]
    uri = ModelRegistry(store).storage_uri(model, version)
    record.append("release_started", stable_storage_uri=None)
    record.append("promoted", storage_uri=uri, manifest_sha256=digest)
    record.append("release_finished", outcome="promoted")
