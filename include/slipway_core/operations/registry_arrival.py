"""From a version that carries the alias in a registry to an arrival in the bucket: whether, and its ready.json."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import JsonValue

from slipway_core.errors import ArrivalRefusedError, VersionConflictError, VersionDeletedError
from slipway_core.intake import ReadyFile
from slipway_core.operations.registry_answers import RegistryVersion
from slipway_core.record.arrivals import Attempts
from slipway_rules.text_forms import canonical_json

ORIGIN_KEY = "mlflow"
"""Under which key of ready.json's metadata, and so of the manifest's, the origin lies."""

Step = Literal["bring_in", "known", "wait"]


@dataclass(frozen=True)
class Origin:
    """Which version of which registered model something was made of.

    A registered model that was deleted and made again counts from 1 again: the number alone says nothing.
    """

    registered_model: str
    version: int
    run_id: str
    source: str
    created_at_ms: int

    @classmethod
    def of(cls, registered_model: str, version: RegistryVersion) -> Origin:
        """Return the origin that something made of this version has."""
        return cls(registered_model, version.number, version.run_id, version.source, version.created_at_ms)

    @classmethod
    def noted(cls, metadata: Mapping[str, Any]) -> Origin | None:
        """Return the origin that metadata of a ready.json or a manifest note; None: they note none."""
        noted = metadata.get(ORIGIN_KEY)
        if not isinstance(noted, Mapping):
            return None
        try:
            return cls(**noted)
        except TypeError:  # other keys than these
            return None


@dataclass(frozen=True)
class InBucket:
    """What the bucket has of a version.

    `ready` is its ready.json, `published` the metadata of its manifest, `deleted` says that its number is used up, and
    `attempts` is what its record tells; None: there is none.
    """

    ready: ReadyFile | None = None
    published: Mapping[str, Any] | None = None
    deleted: bool = False
    attempts: Attempts | None = None


def next_step(origin: Origin, status: str, found: InBucket) -> Step:
    """Return what to do about a version that carries the alias.

    :param origin: what would be brought in.
    :param status: MLflow's word for the version's state.
    :param found: what is there.
    :raises VersionConflictError: something else has this number.
    :raises VersionDeletedError: its files were deleted; the number is not used again.
    :raises ArrivalRefusedError: it was rejected before any release, or MLflow says that it never gets complete.
    """
    for place, metadata in (
        ("has arrived", None if found.ready is None else found.ready.metadata),
        ("is published", found.published),
    ):
        if metadata is None:
            continue
        noted = Origin.noted(metadata)
        if noted == origin:
            return "known"
        raise VersionConflictError(
            f"version {origin.version} {place} already, and is not the registry's",
            expected=str(origin),
            found=str(noted) if noted else "a version that did not come from the registry",
            remedy="register the model again: the next number is free",
        )
    if found.attempts is not None and found.attempts.started_at is not None:
        return "known"
    if found.deleted:
        raise VersionDeletedError(
            f"version {origin.version} was deleted, and its number cannot be used again",
            remedy="register the model again: the next number is free",
        )
    if found.attempts is not None and found.attempts.rejected:
        raise ArrivalRefusedError(
            f"version {origin.version} is rejected",
            remedy="see `version_rejection`; or register a fixed version",
        )
    if status == "PENDING_REGISTRATION":
        return "wait"
    if status != "READY":
        raise ArrivalRefusedError(
            f"MLflow does not call version {origin.version} ready",
            expected="READY",
            found=status,
            remedy="register the model again",
        )
    return "bring_in"


def check_present(files: Mapping[str, int], present: Mapping[str, int], place: str) -> None:
    """Check what lies under the version's prefix, before anything is downloaded.

    :param files: what the registry's version has: sizes by name.
    :param present: what is there: sizes by name.
    :raises VersionConflictError: something there is not the registry's.
    """
    foreign = sorted(name for name, size in present.items() if files.get(name) != size)
    if foreign:
        raise conflict(place, foreign[0])


def conflict(place: str, name: str) -> VersionConflictError:
    """Return the error for a file that lies there already with other bytes, or does not belong there."""
    return VersionConflictError(
        f"{place} holds {name[:200]!r}, which is not what the registry has",
        expected="nothing, or the registry's own files",
        found="other bytes",
        remedy="find out who wrote it and delete it there; or register the model again: the next number is free",
    )


def ready_file(model: str, origin: Origin, sha256: Mapping[str, str]) -> bytes:
    """Return the ready.json of a version from the registry; the same version gives the same bytes.

    :param sha256: of each file that was brought in, in hexadecimal, by name.
    """
    noted: dict[str, JsonValue] = {
        "registered_model": origin.registered_model,
        "version": origin.version,
        "run_id": origin.run_id,
        "source": origin.source,
        "created_at_ms": origin.created_at_ms,
    }
    ready = ReadyFile(model=model, version=origin.version, files=dict(sha256), metadata={ORIGIN_KEY: noted})
    return canonical_json(ready.model_dump(mode="json", exclude_defaults=True), indent=2) + b"\n"
