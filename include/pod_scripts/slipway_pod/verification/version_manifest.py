"""The manifest of a published version, read without trust in who wrote it.

The rules of `include/slipway_core/publishing/manifest_identity.py`, with Python alone: a test holds the two alike.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NoReturn

from slipway_pod.errors import PodError

MANIFEST_FILE = "manifest.json"
SIGNATURE_FILE = "model.sig"
CONFIG_FILE = "config.pbtxt"
MANIFEST_LIMIT_BYTES = 16 * 2**20
SIGNATURE_LIMIT_BYTES = 32 * 2**20
FILES_LIMIT = 20_000
SIZE_LIMIT_BYTES = 2**46
PATH_LIMIT = 900
PATH_PART = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._@+-]*")
DIGEST = re.compile(r"[0-9a-f]{64}")
SOURCE = re.compile(
    r"s3://[^/]+/models/(?P<model>[a-z0-9][a-z0-9-]{0,49})/(?P<version>[1-9][0-9]{0,18})/repository/?"
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
    """`files` are relative to the repository; `signature` is None where the version was published without."""

    files: dict[str, FileEntry]
    signature: FileEntry | None
    signed_sha256: str
    """The digest of all of it but the signature's own entry."""


def parse_source(source: str) -> Version:
    """Return the version that an address names.

    :raises PodError: for anything but a version's repository.
    """
    found = SOURCE.fullmatch(source)
    if found is None:
        what = f"{source[:200]!r} is no published version"
        expected = "s3://BUCKET/models/MODEL/VERSION/repository"
        remedy = "correct storageUri, or let another storage initializer take this address"
        raise PodError("UserError", what, expected=expected, remedy=remedy)
    return Version(source.rstrip("/"), found["model"], int(found["version"]))


def parse_manifest(document: bytes, version: Version) -> Manifest:
    """Return the manifest of a version, as it lies there.

    :raises PodError: it is not a manifest, or it is another version's.
    """
    try:
        value = json.loads(document)
        attachments = value.get("attachments", {})
        signed = {**value, "attachments": {k: v for k, v in attachments.items() if k != SIGNATURE_FILE}}
        digest = hashlib.sha256(canonical_json(signed)).hexdigest()
        manifest = Manifest(_entries(value["files"]), _entries(attachments).get(SIGNATURE_FILE), digest)
        model, number = value["model"], value["version"]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        _refuse(version, "a manifest", f"{type(error).__name__}: {str(error)[:200]}")
    if (model, number) != (version.model, version.number) or type(number) is not int:
        _refuse(version, f"the manifest of {version}", f"that of {model!r:.60} version {number!r:.30}")
    wrong = next(_misplaced(manifest.files, version), None)
    if wrong is not None:
        _refuse(version, f"files of {version} alone", wrong[:200])
    return manifest


def canonical_json(value: Any) -> bytes:
    """Return a value as UTF-8 JSON; equal values give equal bytes.

    :raises ValueError: for what JSON does not have.
    """
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return text.encode()


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
        is_plain = len(path) <= PATH_LIMIT and all(
            PATH_PART.fullmatch(part) and ".." not in part for part in path.split("/")
        )
        if not is_plain or not DIGEST.fullmatch(sha256):
            raise ValueError(f"{path[:100]!r} is no plain path, or has no SHA-256")
        if type(size_bytes) is not int or not 0 <= size_bytes <= SIZE_LIMIT_BYTES:
            raise ValueError(f"{path[:100]!r} has no size")
        found[path] = FileEntry(size_bytes, sha256)
    return found


def _misplaced(files: dict[str, FileEntry], version: Version) -> Iterator[str]:
    """Return what is wrong with the places of the files, in words."""
    parts = [path.split("/") for path in files]
    models = {part[0] for part in parts if len(part) == 2 and part[1] == CONFIG_FILE}
    number = str(version.number)
    if version.model not in models:
        yield f"no {version.model}/{CONFIG_FILE}"
    if not any(part[:2] == [version.model, number] and len(part) > 2 for part in parts):
        yield f"no file below {version.model}/{number}/"
    for part in parts:
        # Triton takes every folder whose name is a number for a version.
        is_other = len(part) > 2 and part[1].isdecimal() and part[1] != number
        if part[0] not in models or is_other or len(part) < 2:
            yield "/".join(part)
