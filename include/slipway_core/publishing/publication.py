"""The publication: the decision which bytes a version consists of, made before its files are put in place.

A version's keys can be written by anyone who publishes it, and S3 writes one object at a time. So publishing
has an order that makes every interleaving harmless:

1. each file lies somewhere where it cannot change any more (its *origin*), and is known to be what the manifest says;
2. one object, written with If-None-Match and never again, decides for this version: this manifest, these origins;
3. the files are copied to their places, from the decided origins only;
4. the manifest is written with If-None-Match: the version exists.

If a publisher is stopped half-way, the next one finds the decision and finishes it: only the decided bytes are ever
written to a version's places. A publisher with other bytes reads the decision and gets an error.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from slipway_core.bucket_layout import RepositoryPaths
from slipway_core.publishing.manifest import FileEntry, Manifest
from slipway_core.publishing.stored_document import parse_document
from slipway_core.value_types import RelativePath
from slipway_rules.version_manifest import MANIFEST_LIMIT_BYTES

DECISION_FILE = "publication.json"
DECISION_LIMIT_BYTES = 4 * MANIFEST_LIMIT_BYTES
"""It holds the manifest and an origin of each file."""
_REPOSITORY = "repository/"


class PartsDigest(BaseModel):
    """How S3 knows an object that came in parts: by a digest of the parts' digests.

    `sha256` is the SHA-256 of the concatenated SHA-256 of the parts, in base64.
    https://docs.aws.amazon.com/AmazonS3/latest/userguide/checking-object-integrity-upload.html
    """

    model_config = ConfigDict(frozen=True, extra="ignore")

    size_bytes: Annotated[int, Field(ge=1)]
    """Of every part but the last."""
    sha256: Annotated[str, Field(pattern=r"^[A-Za-z0-9+/]{43}=$")]


class Origin(BaseModel):
    """Where a file's bytes lie and stay: a version of an object, or an object whose key is its SHA-256.

    `parts` is there where S3 knows them by that alone.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    key: Annotated[str, Field(min_length=1)]
    version_id: str | None = None
    parts: PartsDigest | None = None


class Publication(BaseModel):
    """The decision. `origins` are by the files' keys below models/MODEL/VERSION/."""

    model_config = ConfigDict(frozen=True, extra="forbid", protected_namespaces=())

    schema_version: Literal[1] = 1
    manifest: Manifest
    origins: dict[RelativePath, Origin]

    @model_validator(mode="after")
    def _every_file_has_its_origin(self) -> Publication:
        if self.origins.keys() != placed_files(self.manifest).keys():
            raise ValueError("`origins` must name the manifest's files and no others")
        return self

    def to_bytes(self) -> bytes:
        """Return the decision as UTF-8 JSON."""
        return self.model_dump_json(indent=2).encode() + b"\n"

    @classmethod
    def from_bytes(cls, content: bytes, name: str = DECISION_FILE) -> Publication:
        """Return the decision in `content`.

        :param name: what the error calls it.
        :raises UserError: it is not a decision, or too large.
        """
        return parse_document(
            cls,
            content,
            limit_bytes=DECISION_LIMIT_BYTES,
            what=f"{name} is not a publication of this schema",
            expected="schema_version 1, manifest and origins",
            remedy="Find out who wrote it; publish the model under a new number.",
        )


def decision_key(paths: RepositoryPaths) -> str:
    """Return where the decision about a version lies."""
    return f"{paths.root}{DECISION_FILE}"


def origin_prefix(paths: RepositoryPaths) -> str:
    """Return where files are laid that have no safe place of their own, each under its SHA-256."""
    return f"work/{paths.model}/{paths.version}/publish/"


def placed_files(manifest: Manifest) -> Mapping[str, FileEntry]:
    """Return every file of the version by its key below models/MODEL/VERSION/, the manifest itself left out."""
    repository = {f"{_REPOSITORY}{path}": entry for path, entry in manifest.files.items()}
    return repository | manifest.attachments
