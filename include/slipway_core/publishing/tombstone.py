"""The tombstone: what stays at the place of a version whose files are deleted.

A version's number is never used again with other bytes, also when its files are gone. So its deletion has an order
that may be broken off anywhere:

1. the tombstone is written with If-None-Match: from now on nobody publishes, verifies or goes back to the version;
2. the manifest is deleted: the version does not exist any more;
3. the decision and the files are deleted.

Whoever finds a tombstone and more than evidence beside it goes on with 2. Nothing is ever written there again. Readers
look for the manifest first and for the tombstone then: one that came between is seen.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from slipway_core.bucket_layout import RepositoryPaths
from slipway_core.errors import UserError, VersionDeletedError
from slipway_core.publishing.stored_document import parse_document
from slipway_core.value_types import Sha256, UtcTime

TOMBSTONE_FILE = "deleted.json"
TOMBSTONE_LIMIT_BYTES = 64 << 10
DELETED_MANIFEST_FILE = "deleted-manifest.json"
"""The copy of the manifest that is kept with the evidence, so that it stays known what the version was."""

Line = Annotated[str, Field(max_length=2000)]


class Tombstone(BaseModel):
    """Who deleted a version, when and why. `plan_sha256` is the digest of the plan that named it."""

    model_config = ConfigDict(frozen=True, extra="ignore", protected_namespaces=())

    schema_version: Literal[1] = 1
    model: Line
    version: Annotated[int, Field(ge=1)]
    begun_at: UtcTime
    run: Line
    started_by: Line | None = None
    approved_by: Line | None = None
    plan_sha256: Sha256
    manifest_sha256: Sha256 | None = None
    reason: Line

    def to_bytes(self) -> bytes:
        """Return the tombstone as UTF-8 JSON."""
        return self.model_dump_json(indent=2).encode() + b"\n"

    @classmethod
    def from_bytes(cls, content: bytes, name: str = TOMBSTONE_FILE) -> Tombstone:
        """Return the tombstone in `content`.

        :param name: what the error calls it.
        :raises UserError: it is invalid, or too large.
        """
        return parse_document(
            cls,
            content,
            limit_bytes=TOMBSTONE_LIMIT_BYTES,
            what=f"{name} is not a tombstone of this schema",
            expected="schema_version 1, model, version, begun_at, run, plan_sha256 and reason",
            remedy="Find out who wrote it; its version counts as deleted anyway.",
        )


def tombstone_key(paths: RepositoryPaths) -> str:
    """Return where the tombstone of a version lies."""
    return f"{paths.root}{TOMBSTONE_FILE}"


def deleted_error(paths: RepositoryPaths, content: bytes | None) -> VersionDeletedError:
    """Return the error for a request for a deleted version.

    :param content: of the tombstone; None: it is too large to be one. That something lies there is enough.
    """
    try:
        tombstone = None if content is None else Tombstone.from_bytes(content)
    except UserError:
        tombstone = None
    found = (
        "a tombstone that cannot be read"
        if tombstone is None
        else f"deleted since {tombstone.begun_at:%Y-%m-%d %H:%M} UTC by the run {tombstone.run}: {tombstone.reason}"
    )
    return VersionDeletedError(
        f"version {paths.version} of {paths.model!r} was deleted, and its number cannot be used again",
        expected="a version that has its files",
        found=found,
        remedy="release the model under a new number",
    )
