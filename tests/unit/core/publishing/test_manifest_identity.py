"""Whose manifest it is, what of it is signed, and that no document is too hostile to be refused in good order."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slipway_core.errors import UserError, VersionConflictError
from slipway_core.publishing.manifest import FileEntry, Manifest
from slipway_core.publishing.manifest_identity import require_identity, signed_sha256
from slipway_core.publishing.publication import Publication
from tests.support.store.manifests import DOCUMENT, ENTRY, HOSTILE, OWN, make_manifest


@pytest.mark.parametrize(("model", "version"), [("digits", 9), ("fraud", 2)])
def test_manifest_of_another_version_is_refused(model: str, version: int) -> None:
    """A manifest that lies in another model's or version's place says so itself, and is refused."""
    require_identity(make_manifest(), "digits", 2)
    with pytest.raises(VersionConflictError, match="is the manifest of another version") as caught:
        require_identity(make_manifest(), model, version, "s3://b/models/manifest.json")
    assert (caught.value.expected, caught.value.found) == (f"{model} version {version}", "digits version 2")


@pytest.mark.parametrize(
    "files",
    [
        OWN,
        {**OWN, "digits/labels.txt": ENTRY, "digits/warmup/x": ENTRY},
        {**OWN, "scale/config.pbtxt": ENTRY, "scale/2/model.py": ENTRY},
    ],
)
def test_files_of_a_version_are_its_own(files: dict[str, FileEntry]) -> None:
    """Beside the version's folder lie configurations, what they name, and an ensemble's members of this version."""
    require_identity(make_manifest(files=files), "digits", 2)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"files": {"digits/2/model.onnx": ENTRY}}, r"no digits/config\.pbtxt"),
        ({"files": {"digits/config.pbtxt": ENTRY}}, "no file below digits/2/"),
        ({"files": {**OWN, "digits/3/model.onnx": ENTRY}}, r"digits/3/model\.onnx"),
        ({"files": {**OWN, "digits/02/model.onnx": ENTRY}}, r"digits/02/model\.onnx"),
        ({"files": {**OWN, "fraud/2/model.onnx": ENTRY}}, r"fraud/2/model\.onnx"),
        ({"files": {**OWN, "scale/config.pbtxt": ENTRY, "scale/1/model.py": ENTRY}}, r"scale/1/model\.py"),
        ({"files": {**OWN, "notes.txt": ENTRY}}, r"notes\.txt"),
        ({"attachments": {"repository/digits/2/model.onnx": ENTRY}}, "outside the repository"),
        ({"attachments": {"manifest.json": ENTRY}}, "outside the repository"),
        ({"version": 3}, r"no file below digits/3/"),
        ({"model": "fraud"}, r"no fraud/config\.pbtxt"),
    ],
)
def test_files_of_another_version_are_refused(changes: dict[str, Any], words: str) -> None:
    """A manifest whose name was changed, or that names another version's files, does not pass as this version's."""
    manifest = make_manifest(**changes)
    with pytest.raises(VersionConflictError, match=words):
        require_identity(manifest, manifest.model, manifest.version)


def test_everything_but_the_signatures_entry_is_signed() -> None:
    """The digest changes with each field and each attachment, and not with the signature, which cannot sign itself."""
    digests = {signed_sha256(json.dumps(DOCUMENT).encode())}
    for field in DOCUMENT:
        digests.add(signed_sha256(json.dumps({**DOCUMENT, field: {"other": 1}}).encode()))
    assert len(digests) == len(DOCUMENT) + 1
    signed = {**DOCUMENT["attachments"], "model.sig": ENTRY.model_dump()}
    assert signed_sha256(json.dumps({**DOCUMENT, "attachments": signed}).encode()) in digests
    again = json.dumps(DOCUMENT, indent=7, sort_keys=True).encode()
    assert signed_sha256(again) in digests, "how it is laid out does not count"
    later = {**DOCUMENT, "a_field_of_a_later_schema": None}
    assert signed_sha256(json.dumps(later).encode()) not in digests, "nor is anything left out unseen"


@pytest.mark.parametrize("read", [Manifest.from_bytes, Publication.from_bytes], ids=["manifest", "decision"])
@pytest.mark.parametrize("content", HOSTILE.values(), ids=HOSTILE)
def test_hostile_document_is_refused_soon(content: bytes, read: Any) -> None:
    """Whatever lies under the key is refused with a short error of the project's own, within seconds."""
    if read == Publication.from_bytes:
        content = b'{"schema_version": 1, "origins": {}, "manifest": ' + content + b"}"
    began = time.monotonic()
    with pytest.raises(UserError, match=r"is not a (manifest|publication) of this schema") as caught:
        read(content)
    assert time.monotonic() - began < 10
    assert len(str(caught.value)) < 1000
    assert caught.value.__cause__ is None, "a traceback does not print ten thousand lines"


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.sampled_from(sorted(DOCUMENT)), JSON, min_size=1, max_size=3))
def test_whatever_a_field_holds_the_error_is_typed(changes: dict[str, Any]) -> None:
    """A field of another type or with another value is refused, or the manifest can be written and signed again."""
    content = json.dumps({**DOCUMENT, **changes}).encode()
    try:
        manifest = Manifest.from_bytes(content)
        require_identity(manifest, manifest.model, manifest.version)
    except UserError:
        return
    assert Manifest.from_bytes(manifest.to_bytes()) == manifest
    assert signed_sha256(manifest.to_bytes())


@given(st.binary(max_size=200) | JSON.map(lambda value: json.dumps(value).encode()))
def test_what_is_no_manifest_is_not_signed(content: bytes) -> None:
    """To sign, or to check a signature of, what is no JSON object is a person's error and nothing else."""
    with pytest.raises(UserError, match="cannot be signed"):
        signed_sha256(content)
