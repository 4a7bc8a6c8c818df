"""Which files belong to a published version, and where it may lie."""

from __future__ import annotations

import pytest

from slipway_rules.version_manifest import config_files, misplaced_files, published_version

OWN = ("digits/config.pbtxt", "digits/2/model.onnx")


def test_each_models_configuration_is_found() -> None:
    """The config.pbtxt right below a model's folder is its configuration; any other file of that name is not."""
    files = ["a/config.pbtxt", "a/1/config.pbtxt", "b/config.pbtxt", "b/1/model.py", "config.pbtxt"]
    assert config_files(files) == {"a": "a/config.pbtxt", "b": "b/config.pbtxt"}


@pytest.mark.parametrize(
    "more",
    [
        (),
        ("digits/labels.txt", "digits/w/x"),
        ("scale/config.pbtxt", "scale/2/model.py"),
    ],
)
def test_files_of_a_version_are_its_own(more: tuple[str, ...]) -> None:
    """Beside the version's folder lie configurations, what they name, and an ensemble's members of this version."""
    assert list(misplaced_files((*OWN, *more), "digits", 2)) == []


@pytest.mark.parametrize(
    "path",
    [
        "digits/3/a",
        "digits/02/a",
        "digits/\N{ARABIC-INDIC DIGIT THREE}/x",
        "scale/2/model.py",
        "notes.txt",
        "../x",
        ".hidden",
        "a//b",
    ],
    ids=ascii,
)
def test_files_of_another_version_are_named(path: str) -> None:
    """A folder that Triton takes for a version, of whatever script its digits are, and files of no model here."""
    assert list(misplaced_files((*OWN, path), "digits", 2)) == [path]


def test_a_version_without_its_files_says_which() -> None:
    """Its own configuration and a file in its own folder must be there."""
    assert list(misplaced_files(("scale/config.pbtxt",), "digits", 2)) == [
        "no digits/config.pbtxt",
        "no file below digits/2/",
    ]


@pytest.mark.parametrize(
    "uri",
    [
        "",
        "s3://b/models/digits/2",
        "s3://b/models/digits/2/repository/x",
        "s3://b/models/../2/repository",
        "s3://b/models/digits-/2/repository",
        f"s3://b/models/{'d' * 51}/2/repository",
        "s3://b/models/digits/0/repository",
        "s3://b/models/digits/02/repository",
        f"s3://b/models/digits/{2**63}/repository",
        f"s3://b/models/digits/{'9' * 5000}/repository",
        "file:///models/digits/2/repository",
    ],
    ids=lambda uri: ascii(uri)[:60],
)
def test_an_address_of_no_version(uri: str) -> None:
    """Only the repository of a model and a number that can be published is the address of a version."""
    assert published_version(uri) is None
    assert published_version("s3://b/models/digits/2/repository/") == ("digits", 2)
    assert published_version(f"s3://b/models/digits/{2**63 - 1}/repository") == ("digits", 2**63 - 1)
