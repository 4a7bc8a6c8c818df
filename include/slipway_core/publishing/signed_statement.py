"""What a signature of a version says: OpenSSF's statement of its files, and beside them a digest of its manifest.

The standard's predicate lists the files of `repository/` with their SHA-256, and lets others add properties, which its
own verifier passes over. The property here names the manifest and the digest of what it holds, the entry of the
signature itself left out: so the manifest can name the signature and is signed all the same.
https://github.com/ossf/model-signing-spec
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from slipway_core.bucket_layout import repository_paths
from slipway_core.publishing.manifest import Manifest
from slipway_core.publishing.manifest_identity import signed_sha256

PAYLOAD_TYPE = "application/vnd.in-toto+json"
STATEMENT_TYPE = "https://in-toto.io/Statement/v1"
PREDICATE_TYPE = "https://model_signing/signature/v1.0"
MANIFEST_PROPERTY = "slipway_manifest"


def subject_name(manifest: Manifest) -> str:
    """Return what a signature is of, for people who read it; the standard's verifier does not compare it."""
    return f"{manifest.model}/{manifest.version}"


def manifest_property(document: bytes) -> dict[str, str]:
    """Return what a statement says of a manifest, given as it lies in the bucket.

    :raises UserError: it is not a manifest.
    """
    manifest = Manifest.from_bytes(document)
    return {
        "name": repository_paths(manifest.model, manifest.version).manifest,
        "algorithm": "sha256",
        "digest": signed_sha256(document),
    }


def covers_manifest(payload: bytes) -> bool:
    """Return whether a statement, whose signature is valid, says anything of a manifest; older ones do not."""
    return MANIFEST_PROPERTY in _predicate(_statement(payload))


def statement_differences(payload: bytes, document: bytes) -> Iterator[str]:
    """Say in words how a statement, whose signature is valid, differs from the manifest as it lies in the bucket.

    Nothing where it is of these files and, if it speaks of a manifest, of this one.
    """
    statement = _statement(payload)
    kinds = (statement.get("_type"), statement.get("predicateType"))
    if kinds != (STATEMENT_TYPE, PREDICATE_TYPE):
        yield "the statement is of another kind"
        return
    predicate = _predicate(statement)
    signed = _signed_files(predicate)
    if signed is None:
        yield "the statement lists no files"
        return
    files = {path: entry.sha256 for path, entry in Manifest.from_bytes(document).files.items()}
    for path in sorted(signed.keys() ^ files.keys()):
        yield f"{path} is {'not in the manifest' if path in signed else 'not signed'}"
    for path in sorted(signed.keys() & files.keys()):
        if signed[path] != files[path]:
            yield f"{path} was signed with other bytes"
    if MANIFEST_PROPERTY in predicate and predicate[MANIFEST_PROPERTY] != manifest_property(document):
        yield "another manifest was signed"


def _statement(payload: bytes) -> Mapping[str, Any]:
    try:
        statement = json.loads(payload)
    except (ValueError, RecursionError):
        return {}
    return statement if isinstance(statement, dict) else {}


def _predicate(statement: Mapping[str, Any]) -> Mapping[str, Any]:
    predicate = statement.get("predicate")
    return predicate if isinstance(predicate, dict) else {}


def _signed_files(predicate: Mapping[str, Any]) -> dict[str, str] | None:
    """SHA-256 by path of what the statement lists; None where it is no list of files with theirs."""
    listed = predicate.get("resources")
    if not isinstance(listed, list):
        return None
    found = {}
    for one in listed:
        if not isinstance(one, dict) or one.get("algorithm") != "sha256":
            return None
        path, digest = one.get("name"), one.get("digest")
        if not isinstance(path, str) or not isinstance(digest, str) or path in found:
            return None
        found[path] = digest
    return found
