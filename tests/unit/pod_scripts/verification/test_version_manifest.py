"""The pods' reading of manifests: whose it is, what is signed, and that no document is too hostile to be refused."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slipway_core.publishing.manifest import FileEntry
from slipway_core.publishing.manifest_identity import signed_sha256
from slipway_pod.errors import PodError
from slipway_pod.verification.version_manifest import Version, parse_manifest, parse_source
from slipway_rules.version_manifest import SIGNATURE_FILE
from tests.support.store.manifests import DOCUMENT, ENTRY, HOSTILE, OWN, make_manifest

VERSION = Version("s3://b/models/digits/2/repository", "digits", 2)
REFUSED = (
    "not UTF-8",
    "deep",
    "deep metadata",
    "half a character",
    "path upwards",
    "long path",
    "30,000 files",
)
FIELDS = st.dictionaries(st.sampled_from(["files", "model"]), st.integers() | st.lists(st.text()))


def refusal(document: bytes) -> PodError | None:
    """Why the pods' package refuses a document; None where it does not."""
    try:
        parse_manifest(document, VERSION)
    except PodError as error:
        return error
    return None


def test_a_manifest_is_read() -> None:
    """The version's own manifest is taken, with the entry of each file; one of schema 1 has no attachments."""
    document = {name: value for name, value in DOCUMENT.items() if name != "attachments"}
    manifest = parse_manifest(json.dumps({**document, "schema_version": 1}).encode(), VERSION)
    assert manifest.files.keys() == DOCUMENT["files"].keys()
    assert manifest.signature is None


@pytest.mark.parametrize(
    "changes",
    [
        {"model": "fraud"},
        {"version": 3},
        {"version": True},
        {"version": 2.0},
        {"files": {**DOCUMENT["files"], "digits/3/a": ENTRY.model_dump()}},
        {"files": {}},
    ],
)
def test_a_manifest_of_another_version_is_refused(changes: dict[str, Any]) -> None:
    """Another model or number, a number of another kind, and files that do not belong to the version."""
    error = refusal(json.dumps({**DOCUMENT, **changes}).encode())
    assert error is not None
    assert error.kind == "VersionConflictError"


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_document_is_judged_soon(name: str) -> None:
    """What is wrong with JSON, paths and sizes is refused; all is told shortly, and nothing takes long."""
    began = time.monotonic()
    error = refusal(HOSTILE[name])
    assert time.monotonic() - began < 10
    assert error is not None or name not in REFUSED
    assert error is None or len(str(error)) < 1000


@given(st.binary(max_size=100) | FIELDS.map(lambda value: json.dumps({**DOCUMENT, **value}).encode()))
def test_error_is_typed(content: bytes) -> None:
    """Whatever the document holds, the error is the pods' own."""
    error = refusal(content)
    assert error is None or error.exit_code == 3


def test_what_a_worker_signed_is_what_a_pod_checks() -> None:
    """A signature covers the same digest, whatever the layout and whether the manifest names the signature."""
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
    with pytest.raises(PodError, match="is not a published version"):
        parse_source(source)
    assert parse_source("s3://b/models/digits/2/repository/") == VERSION
