"""Where things lie in the bucket and in a model repository."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slipway_core.bucket_layout import (
    incoming_prefix,
    is_source_file,
    parse_storage_uri,
    repository_paths,
    s3_uri,
    split_s3_uri,
    staged_key,
    staged_name,
    staged_prefixes,
)
from slipway_core.errors import ForeignChangeError, UnknownModelError, VersionInvalidError
from slipway_core.identifiers import validate_model_name

_NAMES = st.from_regex(r"[a-z0-9]([-a-z0-9]{0,20}[a-z0-9])?", fullmatch=True)
_VERSIONS = st.integers(1, 10**9)


def test_the_layout_is_as_designed() -> None:
    """The keys of a version are those that the design names."""
    paths = repository_paths("digits", 2)
    assert paths.ready == "incoming/digits/2/ready.json"
    assert paths.work == "work/digits/2/convert/"
    assert paths.repository == "models/digits/2/repository/"
    assert paths.manifest == "models/digits/2/manifest.json"
    assert paths.evidence == "models/digits/2/evidence/"
    assert paths.records == "records/digits/2/"
    assert paths.config_file == "digits/config.pbtxt"
    assert paths.model_file == "digits/2/model.onnx"
    assert paths.storage_uri("slipway") == "s3://slipway/models/digits/2/repository"
    assert paths.ready.startswith(incoming_prefix("digits"))


@given(_NAMES, _VERSIONS, _NAMES, _VERSIONS)
def test_two_versions_never_share_a_prefix(model: str, version: int, other: str, other_version: int) -> None:
    """No version's root is inside another's, so deleting or listing one never touches the other."""
    if (model, version) == (other, other_version):
        return
    one, two = repository_paths(model, version), repository_paths(other, other_version)
    assert not one.root.startswith(two.root)
    assert not one.records.startswith(two.records)


@pytest.mark.parametrize("name", ["a/b", "..", "A", "", "a_b"])
def test_a_bad_name_makes_no_path(name: str) -> None:
    """A name that could leave its folder is refused before it becomes a key."""
    with pytest.raises(UnknownModelError):
        repository_paths(name, 1)
    with pytest.raises(UnknownModelError):
        incoming_prefix(name)


def test_a_bad_version_makes_no_path() -> None:
    """Version 0 is refused before it becomes a key."""
    with pytest.raises(VersionInvalidError):
        repository_paths("digits", 0)


@given(_NAMES)
def test_the_staged_baseline_can_be_no_other_model(model: str) -> None:
    """The candidate keeps its name on staging, and the baseline's name is one that no model can have."""
    assert staged_name(model, "candidate") == model
    with pytest.raises(UnknownModelError):
        validate_model_name(staged_name(model, "stable"))


def test_staging_keeps_the_inside_of_a_repository() -> None:
    """Repository files move under staging/NAME with the rest of their path."""
    assert staged_key("digits/2/model.onnx", "digits_baseline") == "staging/digits_baseline/2/model.onnx"
    assert staged_key("prices/2/members.json", "prices_baseline", "prices").startswith(
        "staging/prices_baseline/"
    )
    member = staged_key("scale/2/model.py", "prices_baseline", "prices")
    assert member == "staging/prices_baseline__scale/2/model.py"
    assert staged_prefixes("prices_baseline") == ("staging/prices_baseline/", "staging/prices_baseline__")
    assert not staged_key("scale/2/x", "prices", "prices").startswith(staged_prefixes("prices_baseline"))
    for wrong in ("model.onnx", "digits/", "digits/../x", ""):
        with pytest.raises(ValueError, match="not a file inside"):
            staged_key(wrong, "digits")


@given(_NAMES, st.text(max_size=20))
def test_uris_split_into_what_they_were_joined_from(bucket: str, key: str) -> None:
    """Joining bucket and key and splitting the URI gives them back."""
    assert split_s3_uri(s3_uri(bucket, key)) == (bucket, key)


@pytest.mark.parametrize("uri", ["", "digits", "http://a/b", "s3://", "s3:///key"])
def test_other_uris_are_refused(uri: str) -> None:
    """Only s3:// with a bucket is an S3 URI."""
    with pytest.raises(ValueError, match="s3://BUCKET/KEY"):
        split_s3_uri(uri)


@given(_NAMES, _NAMES, _VERSIONS)
def test_a_storage_uri_tells_model_and_version(bucket: str, model: str, version: int) -> None:
    """The storageUri of a published version is read back to its model and number, with or without a slash."""
    uri = repository_paths(model, version).storage_uri(bucket)
    assert parse_storage_uri(uri) == parse_storage_uri(f"{uri}/") == (model, version)


@pytest.mark.parametrize(
    "uri",
    [
        "",
        "gs://b/models/m/1/repository",
        "s3://b/other/m/1",
        "s3://b/models/m/x/repository",
        "s3://b/models/../1/repository",
        "s3://b/models/m/9999999999999999999/repository",
    ],
)
def test_a_foreign_storage_uri_is_refused(uri: str) -> None:
    """What no release of ours made is told as somebody else's change, with the form that was expected."""
    with pytest.raises(ForeignChangeError, match="s3://BUCKET/models/MODEL/VERSION/repository"):
        parse_storage_uri(uri)


def test_what_lies_beside_the_source_is_not_part_of_it() -> None:
    """Hidden files, compiled Python, folder markers and ready.json are no part of what training made."""
    dropped = ["ready.json", ".gitkeep", "a/.DS_Store", "a/__pycache__/m.pyc", "a/", ""]
    assert [name for name in dropped if is_source_file(name)] == []
    assert is_source_file("a/1/model.py")
