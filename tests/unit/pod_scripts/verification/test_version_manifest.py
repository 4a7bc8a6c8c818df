"""The pods' reading of manifests and signatures: the same verdicts as the project's own."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slipway_core.errors import UserError
from slipway_core.publishing.manifest import SIGNATURE_FILE, FileEntry, Manifest
from slipway_core.publishing.manifest_identity import require_identity, signed_sha256
from slipway_pod.errors import PodError
from slipway_pod.verification.version_manifest import Version, parse_manifest, parse_source
from tests.support.store.manifests import DOCUMENT, ENTRY, HOSTILE, OWN, make_manifest

VERSION = Version("s3://b/models/digits/2/repository", "digits", 2)
PATHS = st.sampled_from(
    [
        *(
            "digits/2/model.onnx",
            "digits/3/a",
            "digits/02/a",
            "digits/labels.txt",
            "digits/w/x",
            "digits/٣/x",
        ),
        *("scale/config.pbtxt", "scale/2/model.py", "scale/1/model.py", "fraud/2/a"),
        *("notes.txt", "../x", ".hidden", "a//b"),
    ]
)
SAME_RULES = (
    "not UTF-8",
    "deep",
    "deep metadata",
    "half a character",
    "path upwards",
    "long path",
    "30,000 files",
)
FIELDS = st.dictionaries(st.sampled_from(["files", "model"]), st.integers() | st.lists(st.text()))


def is_accepted_there(document: bytes) -> bool:
    """The verdict of `include/slipway_core`."""
    try:
        require_identity(Manifest.from_bytes(document), "digits", 2)
    except UserError:
        return False
    return True


def refusal(document: bytes) -> PodError | None:
    """Why the pods' package refuses a document; None where it does not."""
    try:
        parse_manifest(document, VERSION)
    except PodError as error:
        return error
    return None


@given(st.sets(PATHS, max_size=4))
def test_places_of_files_are_judged_alike(paths: set[str]) -> None:
    """Whichever files a manifest names, both say the same of it."""
    files = {path: ENTRY.model_dump() for path in {*paths, "digits/config.pbtxt"}}
    document = json.dumps({**DOCUMENT, "files": files}).encode()
    assert (refusal(document) is None) == is_accepted_there(document)


@pytest.mark.parametrize(
    "changes", [{}, {"model": "fraud"}, {"version": 3}, {"version": True}, {"version": 2.0}]
)
def test_identity_is_judged_alike(changes: dict[str, Any]) -> None:
    """Another model or number, or a number of another kind, is refused by both."""
    document = json.dumps({**DOCUMENT, **changes}).encode()
    assert (refusal(document) is None) == is_accepted_there(document) == (changes == {})


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_document_is_judged_soon(name: str) -> None:
    """What is wrong with JSON, paths and sizes is refused here too; all is told shortly, and nothing takes long."""
    began = time.monotonic()
    error = refusal(HOSTILE[name])
    assert time.monotonic() - began < 10
    assert error is not None or name not in SAME_RULES
    assert error is None or len(str(error)) < 1000


@given(st.binary(max_size=100) | FIELDS.map(lambda value: json.dumps({**DOCUMENT, **value}).encode()))
def test_error_is_typed(content: bytes) -> None:
    """Whatever the document holds, the error is the pods' own."""
    error = refusal(content)
    assert error is None or error.exit_code == 3


def test_the_same_is_signed() -> None:
    """What a signature covers is the same digest here and there, whatever the layout."""
    signed = make_manifest(files=OWN, attachments={"golden.npz": ENTRY, SIGNATURE_FILE: FileEntry.of(b"sig")})
    for document in (signed.to_bytes(), json.dumps(json.loads(signed.to_bytes())).encode()):
        manifest = parse_manifest(document, VERSION)
        assert manifest.signed_sha256 == signed_sha256(document)
        assert manifest.signature is not None
        assert manifest.signature.size_bytes == 3
    without = parse_manifest(make_manifest(files=OWN, attachments={"golden.npz": ENTRY}).to_bytes(), VERSION)
    assert without.signed_sha256 == manifest.signed_sha256


@pytest.mark.parametrize(
    "source",
    [
        *(
            "",
            "s3://b/models/digits/2",
            "s3://b/models/digits/2/repository/x",
            "s3://b/models/../2/repository",
        ),
        *("s3://b/models/digits/0/repository", "s3://b/models/digits/02/repository"),
        "file:///models/digits/2/repository",
    ],
)
def test_address_of_no_version(source: str) -> None:
    """Only a version's repository is an address."""
    with pytest.raises(PodError, match="is no published version"):
        parse_source(source)
    assert parse_source("s3://b/models/digits/2/repository/") == VERSION
