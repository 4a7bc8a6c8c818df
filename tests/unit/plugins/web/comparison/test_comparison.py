"""Two versions beside each other: what is the same is told as such, and what differs is found."""

from __future__ import annotations

from datetime import UTC, datetime

from slipway.web.comparison.comparison import FILES_SHOWN, Side, compare
from slipway.web.comparison.measured import Measured
from slipway_core.publishing.manifest import FileEntry, Manifest, Provenance
from slipway_core.tensors import ModelSignature, TensorSpec

AT = datetime(2026, 11, 22, 12, 0, tzinfo=UTC)


def side(version: int, config: str = 'name: "a"\n', files: int = 0, dims: int = 2, **source: object) -> Side:
    """A published version."""
    content = {f"a/{version}/weights.{number}": b"x" * version for number in range(files)}
    manifest = Manifest(
        model="a",
        version=version,
        created_at=AT,
        files={
            "a/config.pbtxt": FileEntry.of(config.encode()),
            f"a/{version}/model.onnx": FileEntry.of(b"m" * 100 * version),
            **{path: FileEntry.of(body) for path, body in content.items()},
        },
        config_sha256="0" * 64,
        signature=ModelSignature(
            inputs=(TensorSpec(name="x", datatype="FP32", shape=(-1, dims)),),
            outputs=(TensorSpec(name="y", datatype="FP32", shape=(-1, 2)),),
        ),
        source=Provenance.model_validate(source),
    )
    return Side(version, None, manifest, "", {"a": config}, {})


def test_a_file_is_the_same_file_in_the_folder_of_another_version() -> None:
    """Its own version's number in its path does not make it another one."""
    found = compare(side(1), side(2))
    assert [(row.path, row.kind) for row in found.files] == [("a/VERSION/model.onnx", "changed")]
    assert (found.files[0].before_bytes, found.files[0].after_bytes) == (100, 200)
    assert found.files_left_out == 1


def test_configurations_that_are_the_same_have_no_lines() -> None:
    """And of others there are the lines that differ, with those around them."""
    assert compare(side(1), side(2)).configs == {"a": ()}
    changed = compare(side(1, "one\ntwo\n"), side(2, "one\nthree\n")).configs["a"]
    assert [(line.kind, line.text) for line in changed] == [
        ("same", "one"),
        ("gone", "two"),
        ("new", "three"),
    ]


def test_other_tensors_and_other_data_are_named() -> None:
    """The signature in words, provenance as facts that differ."""
    found = compare(side(1, dataset_version="may"), side(2, dims=3, dataset_version="june"))
    assert found.tensors
    fact = next(row for row in found.facts if row.name == "dataset version")
    assert (fact.before, fact.after, fact.differs) == ("may", "june", True)


def test_of_very_many_files_some_are_shown() -> None:
    """And the number of the others."""
    found = compare(side(1, files=FILES_SHOWN + 50), side(2, files=FILES_SHOWN + 50))
    assert len(found.files) == FILES_SHOWN
    assert found.files_left_out == 52


def test_a_version_that_is_not_published_is_compared_with_nothing() -> None:
    """Its files are then all new in the other one."""
    absent = Side(1, None, None, "it was not published", {}, {"accuracy": Measured(0.9)})
    found = compare(absent, side(2))
    assert {row.kind for row in found.files} == {"new"}
    assert [(row.before, row.after) for row in found.figures] == [("0.9", "")]
