"""What a signature of a version says, compared with the version's manifest: its files, and the manifest itself."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from slipway_core.publishing.manifest import Manifest
from slipway_core.publishing.manifest_identity import signed_sha256
from slipway_rules.signature import MANIFEST_PROPERTY, is_of_a_model, statement_of
from slipway_rules.signature import manifest_property as property_of


def subject_name(manifest: Manifest) -> str:
    """Return what a signature is of, for people who read it; the standard's verifier does not compare it."""
    return f"{manifest.model}/{manifest.version}"


def manifest_property(document: bytes) -> dict[str, str]:
    """Return what a statement says of a manifest, given as it lies in the bucket.

    :raises UserError: it is not a manifest.
    """
    manifest = Manifest.from_bytes(document)
    return property_of(manifest.model, manifest.version, signed_sha256(document))


def covers_manifest(payload: bytes) -> bool:
    """Return whether a statement, whose signature is valid, says anything of a manifest; older ones do not."""
    return MANIFEST_PROPERTY in _predicate(statement_of(payload))


def statement_differences(payload: bytes, document: bytes) -> Iterator[str]:
    """Say in words how a statement, whose signature is valid, differs from the manifest as it lies in the bucket.

    Nothing where it is of these files and, if it speaks of a manifest, of this one.
    """
    statement = statement_of(payload)
    if not is_of_a_model(statement):
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


def _predicate(statement: Mapping[str, Any]) -> Mapping[str, Any]:
    predicate = statement.get("predicate")
    return predicate if isinstance(predicate, dict) else {}


def _signed_files(predicate: Mapping[str, Any]) -> dict[str, str] | None:
    """SHA-256 by path of what the statement lists; None if it is no list of files with theirs."""
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
