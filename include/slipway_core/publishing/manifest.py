"""The manifest: what a published version consists of, and where it came from.

Written last, once; readers start here.
"""

from __future__ import annotations

import hashlib
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from slipway_core.errors import VersionConflictError
from slipway_core.publishing.engine import EngineBuild
from slipway_core.publishing.stored_document import parse_document
from slipway_core.tensors import ModelSignature
from slipway_core.tensors import differences as signature_differences
from slipway_core.value_types import Metadata, RelativePath, Sha256, UtcTime
from slipway_rules.text_forms import MODEL_NAME_LIMIT, VERSION_LIMIT, canonical_json, is_dns_label
from slipway_rules.version_manifest import FILES_LIMIT, MANIFEST_LIMIT_BYTES, SIZE_LIMIT_BYTES

GOLDEN_FILE = "golden.npz"


def _model_name(text: str) -> str:
    if not is_dns_label(text, MODEL_NAME_LIMIT):
        raise ValueError("must be a model name")
    return text


class FileEntry(BaseModel):
    """One file of the version."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    size_bytes: Annotated[int, Field(ge=0, le=SIZE_LIMIT_BYTES)]
    sha256: Sha256

    @classmethod
    def of(cls, content: bytes) -> FileEntry:
        """Return the entry of a file that holds `content`."""
        return cls(size_bytes=len(content), sha256=hashlib.sha256(content).hexdigest())


class HubSource(BaseModel):
    """A checkpoint of the Hugging Face hub: its name, and the commit that was fetched."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    revision: str


class Provenance(BaseModel):
    """Where the version came from, as training wrote it in ready.json, and the files it was made of."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    dataset_version: str | None = None
    accuracy: Annotated[float | None, Field(allow_inf_nan=False)] = None
    trained_at: UtcTime | None = None
    framework: str | None = None
    metadata: dict[str, Metadata] = {}
    files: Annotated[dict[RelativePath, FileEntry], Field(max_length=FILES_LIMIT)] = {}
    hub: HubSource | None = None
    """A checkpoint that came from the Hugging Face hub."""


class Manifest(BaseModel):
    """What is published as models/MODEL/VERSION/manifest.json; `files` are relative to its repository/.

    Schema 2 adds `attachments`, `engines` and `project_commit`; a manifest of schema 1 is read as one without.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", protected_namespaces=())

    schema_version: Literal[1, 2] = 2
    model: Annotated[str, AfterValidator(_model_name)]
    version: Annotated[int, Field(ge=1, le=VERSION_LIMIT, strict=True)]
    created_at: UtcTime
    files: Annotated[dict[RelativePath, FileEntry], Field(min_length=1, max_length=FILES_LIMIT)]
    attachments: Annotated[dict[RelativePath, FileEntry], Field(max_length=FILES_LIMIT)] = {}
    """What lies beside the repository: the golden set, the list of the image's packages, the signature."""
    config_sha256: Sha256
    signature: ModelSignature
    source: Provenance = Provenance()
    tools: dict[str, str] = {}
    engines: tuple[EngineBuild, ...] = ()
    """On what its engines were built, one for each kind of GPU; none for a model that any server can load."""
    project_version: str = ""
    project_commit: str = ""
    """The git commit of this project that published the version."""

    def to_bytes(self) -> bytes:
        """Return the manifest as UTF-8 JSON; equal manifests give equal bytes."""
        return canonical_json(self.model_dump(mode="json"), indent=2) + b"\n"

    @classmethod
    def from_bytes(cls, content: bytes, name: str = "manifest.json") -> Manifest:
        """Return the manifest in `content`.

        :param name: what the error calls it.
        :raises UserError: it is not a manifest, or too large.
        """
        return parse_document(
            cls,
            content,
            limit_bytes=MANIFEST_LIMIT_BYTES,
            what=f"{name} is not a manifest of this schema",
            expected="schema_version 1 or 2, model, version, created_at, files, config_sha256 and signature",
            remedy="Publish the version again under a new number; a manifest is never edited.",
        )

    def content_digest(self) -> str:
        """Return a SHA-256, in hex, of what is served: equal for equal bytes, whenever and however made."""
        content = self.model_dump(
            mode="json", include={"model", "version", "files", "config_sha256", "signature"}
        )
        return hashlib.sha256(canonical_json(content)).hexdigest()


def differences(published: Manifest, offered: Manifest) -> list[str]:
    """Say in words how the content of `offered` differs; empty when both serve the same.

    Times and tools do not count.
    """
    found = [
        f"{field} was {getattr(published, field)} and is {getattr(offered, field)}"
        for field in ("model", "version")
        if getattr(published, field) != getattr(offered, field)
    ]
    for path in sorted(published.files.keys() | offered.files.keys()):
        before, after = published.files.get(path), offered.files.get(path)
        if after is None:
            found.append(f"{path} is gone")
        elif before is None:
            found.append(f"{path} is new")
        elif before != after:
            found.append(f"{path} was {_file_text(before)} and is {_file_text(after)}")
    if published.config_sha256 != offered.config_sha256:
        found.append("the configuration differs")
    found.extend(signature_differences(published.signature, offered.signature))
    return found


def require_same_content(published: Manifest, offered: Manifest) -> None:
    """Raise VersionConflictError unless `offered` would publish exactly what is there already."""
    found = differences(published, offered)
    if found:
        raise VersionConflictError(
            f"{published.model} version {published.version} is already published with other content",
            expected="the same bytes, since a version never changes",
            found="; ".join(found),
            remedy=f"Publish under a new number, such as {published.version + 1}.",
        )


def attachment(manifest: Manifest, name: str) -> FileEntry | None:
    """Return the entry of a file beside the repository, or None if the version has none of this name.

    Schema 1 names the golden set only among the files that the version was made of.
    """
    elsewhere = manifest.source.files.get(name) if name == GOLDEN_FILE else None
    return manifest.attachments.get(name, elsewhere)


def check_file(manifest: Manifest, path: str, content: bytes) -> None:
    """Raise VersionConflictError unless `content` is what the manifest says of `path`."""
    entry = manifest.files.get(path)
    actual = FileEntry.of(content)
    if entry != actual:
        raise VersionConflictError(
            f"{path} of {manifest.model} version {manifest.version} has changed since it was published",
            expected=_file_text(entry) if entry else f"one of {', '.join(sorted(manifest.files))}",
            found=_file_text(actual),
            remedy="A published file was changed: restore it from the bucket's versions, or release again.",
        )


def _file_text(entry: FileEntry) -> str:
    return f"{entry.size_bytes} bytes, sha256 {entry.sha256[:12]}…"
