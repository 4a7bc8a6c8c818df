"""The identity of a manifest: its model, version and paths must fit where it lies; and the digest that is signed.

A file's digest says which bytes it has, and nothing of the version that they belong to. Without this a signed version
that was copied to another model's or version's prefix would pass as that one.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

from slipway_core.errors import UserError, VersionConflictError
from slipway_core.publishing.manifest import Manifest
from slipway_core.publishing.publication import DECISION_FILE
from slipway_rules.version_manifest import MANIFEST_FILE, misplaced_files, signed_digest

_RESERVED = frozenset({MANIFEST_FILE, DECISION_FILE})


def require_identity(manifest: Manifest, model: str, version: int, name: str = MANIFEST_FILE) -> None:
    """Return when the manifest is this model's and this version's, and so are the places of all its files.

    :param name: what the error calls the manifest.
    :raises VersionConflictError: it is another version's, or names files of another one.
    """
    if (manifest.model, manifest.version) != (model, version):
        raise VersionConflictError(
            f"{name} is the manifest of another version",
            expected=f"{model} version {version}",
            found=f"{manifest.model} version {manifest.version}",
            remedy="Find out who wrote it there; a version is published, never copied. Use a new number.",
        )
    wrong = next(_misplaced(manifest), None)
    if wrong is not None:
        raise VersionConflictError(
            f"{name} names files that do not belong to version {version} of {model!r}",
            expected=f"{model}/config.pbtxt, files below {model}/{version}/, those of models with a config.pbtxt of "
            "their own and of the same version, and beside them files without a folder",
            found=wrong,
            remedy="Find out who wrote it there; publish the model again under a new number.",
        )


def _misplaced(manifest: Manifest) -> Iterator[str]:
    """Return what is wrong with the places of the files, in words."""
    yield from misplaced_files(manifest.files, manifest.model, manifest.version)
    for path in manifest.attachments:
        if "/" in path or path in _RESERVED:
            yield f"{path} outside the repository"


def signed_sha256(document: bytes, name: str = MANIFEST_FILE) -> str:
    """Return the SHA-256, in hex, of what a signature covers of a manifest, given as it lies in the bucket.

    It is taken of the bytes and not of a `Manifest`, so that it stays the same when the schema grows.

    :raises UserError: it is not a JSON object.
    """
    try:
        return signed_digest(json.loads(document))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise UserError(
            f"{name} cannot be signed, nor can its signature be checked",
            expected="a JSON object with `attachments`",
            found=f"{type(error).__name__}: {str(error)[:200]}",
            remedy="Publish the version again under a new number; a manifest is never edited.",
        ) from None
