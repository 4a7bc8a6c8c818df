"""What MLflow's registry answers: read typed and bounded, whatever it holds."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slipway_core.errors import ArrivalRefusedError, UserError
from slipway_core.operations.registry_answers import (
    DEPTH_LIMIT,
    FILE_LIMIT_BYTES,
    FILES_LIMIT,
    FOLDERS_LIMIT,
    BucketFolder,
    FileTally,
    FolderEntry,
    ServedFolder,
    artifact_folder,
    parse_folder,
    parse_registered_model,
    parse_registry_version,
    parse_registry_versions,
    parse_text,
)

VERSION: dict[str, Any] = {
    "name": "digits",
    "version": "3",
    "creation_timestamp": "1795348271788",
    "status": "READY",
    "source": "mlflow-artifacts:/0/a/artifacts/model",
    "run_id": "a",
    "tags": [{"key": "slipway.outcome", "value": "promoted"}, {"key": 5}],
}
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: (
        st.lists(inner) | st.dictionaries(st.sampled_from([*VERSION, "model_version", "files"]), inner)
    ),
)


def test_a_version_is_read() -> None:
    """Numbers as MLflow writes them, as text or not; a tag that is none is left out."""
    for value in (VERSION, {**VERSION, "creation_timestamp": 1795348271788}):
        version = parse_registry_version({"model_version": value})
        assert (version.number, version.status, version.run_id) == (3, "READY", "a")
        assert version.created_at_ms == 1795348271788
        assert version.tags == {"slipway.outcome": "promoted"}
        assert parse_registry_versions({"model_versions": [value]}) == [version]
    assert parse_registry_versions({}) == []


def test_a_registered_model_is_read() -> None:
    """Which version carries which alias; none does where the answer names none."""
    told = {"registered_model": {"name": "digits", "aliases": [{"alias": "live", "version": "2"}]}}
    assert parse_registered_model(told).aliases == {"live": 2}
    assert parse_registered_model({"registered_model": {"name": "digits"}}).aliases == {}


@pytest.mark.parametrize(
    "changed",
    [
        {"version": "0"},
        {"version": "1.5"},
        {"version": "../2"},
        {"version": None},
        {"source": 5},
        {"source": "x" * 2000},
        {"tags": {}},
        {"creation_timestamp": "yesterday"},
    ],
    ids=str,
)
def test_a_version_of_another_form(changed: dict[str, Any]) -> None:
    """It is an error, not a guess."""
    with pytest.raises(UserError):
        parse_registry_version({"model_version": {**VERSION, **changed}})


@given(answer=ANYTHING)
def test_any_answer_is_read_or_refused(answer: object) -> None:
    """Never another error than the project's own."""
    for parse in (parse_registry_version, parse_registry_versions, parse_registered_model):
        try:
            parse(answer)
        except UserError:
            continue
    try:
        list(parse_folder(answer))
        parse_text(answer, "run", "info")
    except UserError:
        return


def test_a_folder_is_read() -> None:
    """Files with their sizes, and folders."""
    told = {"files": [{"path": "a.onnx", "is_dir": False, "file_size": "5"}, {"path": "sub", "is_dir": True}]}
    assert list(parse_folder(told)) == [FolderEntry("a.onnx", False, 5), FolderEntry("sub", True, 0)]


@pytest.mark.parametrize(
    "name", ["..", "a/b", "/etc", ".hidden", "a\nb", "a b", "", "%2e%2e", None, "ü", "a..b"]
)
def test_names_that_no_file_may_have(name: object) -> None:
    """Whatever could lead elsewhere, or needs quoting."""
    with pytest.raises(ArrivalRefusedError, match="name cannot be used"):
        list(parse_folder({"files": [{"path": name}]}))


@pytest.mark.parametrize(
    ("uri", "inside", "folder"),
    [
        ("mlflow-artifacts:/0/a/artifacts/model", "", ServedFolder("0/a/artifacts/model")),
        ("mlflow-artifacts:/0/a/artifacts/", "eval", ServedFolder("0/a/artifacts/eval")),
        ("s3://mlflow/1/a/model", "", BucketFolder("mlflow", "1/a/model/")),
    ],
)
def test_where_artifacts_are_read_from(uri: str, inside: str, folder: object) -> None:
    """From MLflow's server, and from S3 below a root that was named."""
    assert artifact_folder(uri, ["s3://mlflow/1/"], inside) == folder


@pytest.mark.parametrize(
    "uri",
    [
        "",
        "file:///etc",
        "/etc/passwd",
        "http://169.254.169.254/latest",
        "models:/digits/1",
        "mlflow-artifacts://elsewhere:80/0/a",
        "mlflow-artifacts:/",
        "mlflow-artifacts:/0/../../etc",
        "mlflow-artifacts:/0/a?path=/etc",
        "mlflow-artifacts:/0/%2e%2e/a",
        "s3://mlflow/2/a",
        "s3://mlflow/1/../2/a",
        "s3://mlflow/10/a",
        "S3://mlflow/1/a",
    ],
)
def test_other_addresses_are_not_read(uri: str) -> None:
    """Anybody who may register a version may write any address."""
    with pytest.raises(ArrivalRefusedError, match="in a place that is not read"):
        artifact_folder(uri, ["s3://mlflow/1/"])


def test_what_a_version_may_have_is_bounded() -> None:
    """Files, folders, depth, bytes of one file and of all; each limit itself is allowed."""
    tally = FileTally(10)
    tally.file("a", 10)
    with pytest.raises(ArrivalRefusedError, match="bytes"):
        tally.file("b", 1)
    with pytest.raises(ArrivalRefusedError, match="bytes in 'a'"):
        FileTally(2**50).file("a", FILE_LIMIT_BYTES + 1)
    tally = FileTally(10)
    for number in range(FILES_LIMIT):
        tally.file(f"f{number}", 0)
    with pytest.raises(ArrivalRefusedError, match="too many files"):
        tally.file("more", 0)
    tally = FileTally(10)
    for number in range(FOLDERS_LIMIT):
        tally.folder(f"f{number}")
    with pytest.raises(ArrivalRefusedError, match="too many folders"):
        tally.folder("more")
    FileTally(10).folder("/".join("a" * DEPTH_LIMIT))
    with pytest.raises(ArrivalRefusedError, match="too many folders"):
        FileTally(10).folder("/".join("a" * (DEPTH_LIMIT + 1)))


@pytest.mark.parametrize("name", ["ready.json", "../a", "a/../b", "a//b", "/a"])
def test_files_that_no_version_may_have(name: str) -> None:
    """Least of all the file that announces it."""
    with pytest.raises(ArrivalRefusedError):
        FileTally(10).file(name, 1)


def test_a_file_that_comes_twice() -> None:
    """One of the version and one of its run under the same name: which one is meant is not known."""
    tally = FileTally(10)
    tally.file("golden.npz", 1)
    with pytest.raises(ArrivalRefusedError, match="twice"):
        tally.file("golden.npz", 1)
