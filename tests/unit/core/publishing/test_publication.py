"""The decision about a version: its bytes, its places."""

from __future__ import annotations

import pytest

from slipway_core.bucket_layout import repository_paths
from slipway_core.errors import UserError
from slipway_core.publishing.manifest import FileEntry
from slipway_core.publishing.publication import (
    Origin,
    Publication,
    decision_key,
    origin_prefix,
    placed_files,
)
from tests.support.store.manifests import make_manifest


def test_bytes_bring_back_the_decision() -> None:
    """Written and read again, a decision is the same."""
    decision = Publication(
        manifest=make_manifest(),
        origins={
            "repository/digits/config.pbtxt": Origin(key="work/digits/2/publish/0", version_id="v"),
            "repository/digits/2/model.onnx": Origin(key="work/digits/2/publish/1"),
        },
    )
    assert Publication.from_bytes(decision.to_bytes()) == decision


def test_what_is_no_decision_is_named() -> None:
    """Whatever else lies under the key is an error that names it."""
    with pytest.raises(UserError, match="s3://b/k is not a publication"):
        Publication.from_bytes(b"{}", "s3://b/k")


def test_places() -> None:
    """Everything that lies below the version's prefix has its entry; the way there lies in work/."""
    golden = FileEntry.of(b"golden")
    files = placed_files(make_manifest(attachments={"golden.npz": golden}))
    assert set(files) == {"repository/digits/config.pbtxt", "repository/digits/2/model.onnx", "golden.npz"}
    assert files["golden.npz"] == golden
    paths = repository_paths("digits", 2)
    assert decision_key(paths) == "models/digits/2/publication.json"
    assert origin_prefix(paths) == "work/digits/2/publish/"
