"""The manifest: its bytes, its digest, and what counts as another content."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slipway_core.errors import UserError, VersionConflictError
from slipway_core.publishing.manifest import (
    FileEntry,
    Manifest,
    Provenance,
    attachment,
    check_file,
    differences,
    require_same_content,
)
from slipway_core.tensors import ModelSignature
from tests.support.store.manifests import SIGNATURE, make_manifest

_PATHS = st.from_regex(r"[a-z0-9]{1,5}(/[a-z0-9]{1,5}){0,2}", fullmatch=True)
_MANIFESTS = st.builds(
    lambda version, files, at, tools: make_manifest(version=version, files=files, created_at=at, tools=tools),
    st.integers(1, 10**6),
    st.dictionaries(_PATHS, st.binary(max_size=4).map(FileEntry.of), min_size=1, max_size=4),
    st.datetimes(timezones=st.just(UTC)),
    st.dictionaries(st.text(max_size=5), st.text(max_size=5), max_size=2),
)


@given(_MANIFESTS)
def test_bytes_bring_back_the_same_manifest(manifest: Manifest) -> None:
    """Written and read again, a manifest is equal and gives the same bytes."""
    again = Manifest.from_bytes(manifest.to_bytes())
    assert again == manifest
    assert again.to_bytes() == manifest.to_bytes()


@given(_MANIFESTS, _MANIFESTS)
def test_the_digest_speaks_of_content_alone(one: Manifest, other: Manifest) -> None:
    """Two manifests have the same digest exactly when there is no difference to tell."""
    assert (one.content_digest() == other.content_digest()) == (differences(one, other) == [])


def test_time_tools_and_provenance_do_not_change_the_digest() -> None:
    """The same bytes made later by other tools are the same content: to publish them again is a no-op."""
    again = make_manifest(
        created_at=datetime(2027, 1, 1, tzinfo=UTC),
        tools={},
        project_version="9",
        source=Provenance(accuracy=0.5),
    )
    assert again.content_digest() == make_manifest().content_digest()
    require_same_content(make_manifest(), again)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"files": {"digits/config.pbtxt": FileEntry.of(b"config")}}, "digits/2/model.onnx is gone"),
        ({"config_sha256": "d" * 64}, "the configuration differs"),
        ({"signature": ModelSignature(inputs=(), outputs=SIGNATURE.outputs)}, "input `pixels` .* is gone"),
        (
            {"files": {**make_manifest().files, "digits/2/model.onnx": FileEntry.of(b"other")}},
            "digits/2/model.onnx was 5 bytes",
        ),
        (
            {"files": {**make_manifest().files, "digits/labels.txt": FileEntry.of(b"")}},
            "digits/labels.txt is new",
        ),
    ],
)
def test_other_content_under_the_same_version_is_refused(changes: dict[str, Any], words: str) -> None:
    """Other files, configuration or signature are named, and the remedy is the next number."""
    with pytest.raises(VersionConflictError, match=words) as caught:
        require_same_content(make_manifest(), make_manifest(**changes))
    assert caught.value.remedy == "Publish under a new number, such as 3."


def test_a_file_is_checked_before_it_is_used() -> None:
    """Bytes other than those that were published, and files that were not, are refused."""
    manifest = make_manifest()
    check_file(manifest, "digits/2/model.onnx", b"model")
    with pytest.raises(VersionConflictError, match="has changed since it was published"):
        check_file(manifest, "digits/2/model.onnx", b"mode")
    with pytest.raises(VersionConflictError, match=r"one of digits/2/model\.onnx"):
        check_file(manifest, "digits/3/model.onnx", b"model")


def test_times_are_kept_in_utc() -> None:
    """A time in another zone is kept as UTC, and a time without a zone is refused."""
    at = datetime(2026, 11, 21, 2, tzinfo=timezone(timedelta(hours=2)))
    assert make_manifest(created_at=at) == make_manifest()
    with pytest.raises(ValueError, match="time zone"):
        make_manifest(created_at=datetime(2026, 11, 21, tzinfo=UTC).replace(tzinfo=None))


@pytest.mark.parametrize(
    "path", ["../x", "/x", "a//b", "a/../b", ".hidden", "a/", "", "a\\b", "__pycache__/../x"]
)
def test_paths_stay_inside_the_repository(path: str) -> None:
    """A manifest cannot name a file outside its repository."""
    with pytest.raises(ValueError, match="relative path"):
        make_manifest(files={path: FileEntry.of(b"")})


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "at the whole"),
        (b"[]", "at the whole"),
        (make_manifest().to_bytes()[:-20], "at the whole"),
        (
            json.dumps({**json.loads(make_manifest().to_bytes()), "schema_version": 3}).encode(),
            "schema_version",
        ),
        (json.dumps({**json.loads(make_manifest().to_bytes()), "extra": 2}).encode(), "at extra"),
        (json.dumps({**json.loads(make_manifest().to_bytes()), "version": "2"}).encode(), "at version"),
        (
            json.dumps({**json.loads(make_manifest().to_bytes()), "config_sha256": "C" * 64}).encode(),
            "config_sha256",
        ),
    ],
)
def test_what_is_no_manifest_is_refused(content: bytes, words: str) -> None:
    """Cut short, of another schema or with wrong fields: the error names the manifest and the field."""
    with pytest.raises(UserError, match=words) as caught:
        Manifest.from_bytes(content, "models/digits/2/manifest.json")
    assert "models/digits/2/manifest.json" in caught.value.what


def test_manifest_of_schema_1_is_read() -> None:
    """A manifest from before schema 2 is read, its golden set found, and the same bytes now are no other content."""
    golden = FileEntry.of(b"golden")
    old = json.loads(make_manifest(source=Provenance(files={"golden.npz": golden})).to_bytes()) | {
        "schema_version": 1
    }
    for field in ("attachments", "engines", "project_commit"):
        del old[field]
    manifest = Manifest.from_bytes(json.dumps(old).encode())
    assert attachment(manifest, "golden.npz") == golden
    assert attachment(manifest, "model.sig") is None
    assert differences(manifest, make_manifest()) == []
