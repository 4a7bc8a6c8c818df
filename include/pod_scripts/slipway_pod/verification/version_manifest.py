"""The manifest of a published version, as far as a pod needs it, read without trust in who wrote it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, NoReturn

from slipway_pod.errors import PodError
from slipway_rules.text_forms import is_relative_path, is_sha256
from slipway_rules.version_manifest import (
    FILES_LIMIT,
    MANIFEST_FILE,
    SIGNATURE_FILE,
    SIZE_LIMIT_BYTES,
    misplaced_files,
    published_version,
    signed_digest,
)

REMEDY = "find out who wrote to this prefix; release the model under a new version"


@dataclass(frozen=True)
class FileEntry:
    """Size and SHA-256, in hexadecimal, of one file."""

    size_bytes: int
    sha256: str


@dataclass(frozen=True)
class Version:
    """A published version by its repository's address, and where its manifest lies."""

    source: str
    model: str
    number: int

    @property
    def root(self) -> str:
        """Return the address of the folder that holds the repository and the manifest, without a slash at its end."""
        return self.source.removesuffix("/repository")

    def __str__(self) -> str:
        return f"{self.model} version {self.number}"


@dataclass(frozen=True)
class Manifest:
    """`files` are relative to the repository; `signature` is None if the version was published without."""

    files: dict[str, FileEntry]
    signature: FileEntry | None
    signed_sha256: str
    """The digest of all of it but the signature's own entry."""


def parse_source(source: str) -> Version:
    """Return the version that an address names.

    :raises PodError: for anything but a version's repository.
    """
    found = published_version(source)
    if found is None:
        what = f"{source[:200]!r} is not a published version"
        expected = "s3://BUCKET/models/MODEL/VERSION/repository"
        remedy = "correct storageUri, or let another storage initializer take this address"
        raise PodError("UserError", what, expected=expected, remedy=remedy)
    return Version(source.rstrip("/"), *found)


def parse_manifest(document: bytes, version: Version) -> Manifest:
    """Return the manifest of a version, as it lies there.

    :raises PodError: it is not a manifest, or it is another version's.
    """
    try:
        value = {"attachments": {}, **json.loads(document)}
        signature = _entries(value["attachments"]).get(SIGNATURE_FILE)
        manifest = Manifest(_entries(value["files"]), signature, signed_digest(value))
        model, number = value["model"], value["version"]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        _refuse(version, "a manifest", f"{type(error).__name__}: {str(error)[:200]}")
    if (model, number) != (version.model, version.number) or type(number) is not int:
        _refuse(version, f"the manifest of {version}", f"that of {model!r:.60} version {number!r:.30}")
    wrong = next(misplaced_files(manifest.files, version.model, version.number), None)
    if wrong is not None:
        _refuse(version, f"files of {version} alone", wrong[:200])
    return manifest


def _refuse(version: Version, expected: str, found: str) -> NoReturn:
    what = f"{version.root}/{MANIFEST_FILE} is not this version's manifest"
    raise PodError("VersionConflictError", what, expected=expected, found=found, remedy=REMEDY)


def _entries(listed: Any) -> dict[str, FileEntry]:
    """Return the entries of a manifest; raise ValueError, KeyError, TypeError or AttributeError for anything else."""
    if len(listed) > FILES_LIMIT:
        raise ValueError(f"more than {FILES_LIMIT} files")
    found = {}
    for path, entry in listed.items():
        size_bytes, sha256 = entry["size_bytes"], entry["sha256"]
        if not is_relative_path(path) or not is_sha256(sha256):
            raise ValueError(f"{path[:100]!r} is not a plain path, or has no SHA-256")
        if type(size_bytes) is not int or not 0 <= size_bytes <= SIZE_LIMIT_BYTES:
            raise ValueError(f"{path[:100]!r} has no size")
        found[path] = FileEntry(size_bytes, sha256)
    return found
