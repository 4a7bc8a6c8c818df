"""What belongs to a published version: where it lies, which files it may name, and which digest is signed.

A file's digest says which bytes it has, and nothing of the version that they belong to. Without these rules a signed
version that was copied to another model's or version's prefix would pass as that one.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

from slipway_rules.text_forms import MODEL_NAME_LIMIT, VERSION_LIMIT, canonical_json, is_dns_label

CONFIG_FILE = "config.pbtxt"
MANIFEST_FILE = "manifest.json"
SIGNATURE_FILE = "model.sig"

MANIFEST_LIMIT_BYTES = 16 * 2**20
"""A larger one is not read; a file's entry takes some 120 bytes."""
SIGNATURE_LIMIT_BYTES = 32 * 2**20
"""It lists the files too, in base64."""
FILES_LIMIT = 20_000
SIZE_LIMIT_BYTES = 2**46
"""S3 stores no larger object: 50 TB."""

_STORAGE_URI = re.compile(r"s3://[^/]+/models/(?P<model>[^/]+)/(?P<version>[1-9][0-9]{0,18})/repository")


def published_version(uri: str) -> tuple[str, int] | None:
    """Return model and version of a `storageUri`; None if no published version's repository can lie there."""
    found = _STORAGE_URI.fullmatch(uri.rstrip("/"))
    if found is None or not is_dns_label(found["model"], MODEL_NAME_LIMIT):
        return None
    version = int(found["version"])
    return (found["model"], version) if version <= VERSION_LIMIT else None


def config_files(files: Iterable[str]) -> dict[str, str]:
    """Return the path of each model's config.pbtxt by the model's name, among a repository's `files`."""
    parts = (path.split("/") for path in files)
    return {part[0]: "/".join(part) for part in parts if len(part) == 2 and part[1] == CONFIG_FILE}


def misplaced_files(files: Collection[str], model: str, version: int) -> Iterator[str]:
    """Yield in words what is wrong with the places of a version's files; nothing if they are its own."""
    models = config_files(files)
    if model not in models:
        yield f"no {model}/{CONFIG_FILE}"
    folders = {tuple(path.split("/")[:2]) for path in files if path.count("/") >= 2}
    if (model, str(version)) not in folders:
        yield f"no file below {model}/{version}/"
    for path in files:
        owner, _, inner = path.partition("/")
        folder, is_below, _ = inner.partition("/")
        # Triton takes every folder whose name is a number for a version.
        if owner not in models or (is_below and folder.isdecimal() and folder != str(version)):
            yield path


def signed_digest(manifest: Mapping[str, Any]) -> str:
    """Return the SHA-256, in hex, of what a signature covers of a manifest, given as JSON holds it.

    That is the whole of it but the entry of the signature itself, as canonical JSON. It does not depend on the
    schema, so it stays the same when that grows.

    :raises ValueError, KeyError, TypeError, AttributeError, RecursionError: it is no JSON object with `attachments`.
    """
    others = {path: entry for path, entry in manifest["attachments"].items() if path != SIGNATURE_FILE}
    return hashlib.sha256(canonical_json({**manifest, "attachments": others})).hexdigest()
