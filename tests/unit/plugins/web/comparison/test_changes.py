"""What changed since the stable version."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from slipway.web.comparison.changes import LINES_SHOWN, changes_between
from slipway.web.comparison.comparison import Side
from slipway.web.comparison.measured import Measured, is_better
from slipway_core.publishing.manifest import FileEntry, Manifest, Provenance
from slipway_core.tensors import ModelSignature, TensorSpec


def _side(version: int, config: str = "max_batch_size: 8\n", size: int = 100, **source: object) -> Side:
    manifest = Manifest(
        model="a",
        version=version,
        created_at=datetime(2026, 11, 22, 12, version, tzinfo=UTC),
        files={
            "a/config.pbtxt": FileEntry.of(config.encode()),
            f"a/{version}/model.onnx": FileEntry.of(b"m" * size),
        },
        config_sha256="0" * 64,
        signature=ModelSignature(
            inputs=(TensorSpec(name="x", datatype="FP32", shape=(-1, 2)),),
            outputs=(TensorSpec(name="y", datatype="FP32", shape=(-1, 2)),),
        ),
        source=Provenance.model_validate(source),
    )
    return Side(version, None, manifest, "", {"a": config})


def _figures(**values: float) -> Mapping[str, Measured]:
    return {name: Measured(value) for name, value in values.items()}


def test_two_versions_that_are_alike_have_no_changes() -> None:
    """Who released them and when differs always, and is no change."""
    assert changes_between(_side(1), _side(2)).is_nothing


def test_each_kind_of_change_is_named() -> None:
    """Configuration line by line, provenance, sizes with their difference."""
    found = changes_between(
        _side(1, dataset_version="may"),
        _side(2, "max_batch_size: 16\n", size=2148, dataset_version="june"),
    )
    assert found.config == ("− max_batch_size: 8", "+ max_batch_size: 16")
    assert [(one.name, one.before, one.after) for one in found.provenance] == [
        ("dataset version", "may", "june")
    ]
    assert ("a/VERSION/model.onnx", "+2.0 KiB") in [(one.name, one.by) for one in found.sizes]


def test_figures_say_whether_they_are_better() -> None:
    """A higher accuracy is better, a higher latency is worse, and of another figure it is not said."""
    before = replace(_side(1), figures=_figures(accuracy=0.90, p99=40.0, rows=200.0, same=1.0))
    after = replace(_side(2), figures=_figures(accuracy=0.95, p99=60.0, rows=300.0, same=1.0))
    found = {one.name: (one.by, one.effect) for one in changes_between(before, after).figures}
    assert found == {
        "accuracy": ("+0.05 (+5.6 %)", "better"),
        "p99": ("+20 (+50 %)", "worse"),
        "rows": ("+100 (+50 %)", ""),
    }


def test_what_was_measured_in_turns_is_compared_with_each_other() -> None:
    """Stable's figure of another day and another machine is not taken where the candidate's benchmark measured both."""
    before = replace(_side(1), figures=_figures(p99=10.0))
    after = replace(_side(2), figures=_figures(p99=40.0), stable_figures=_figures(p99=50.0))
    (change,) = changes_between(before, after).figures
    assert (change.before, change.effect) == ("50", "better")


def test_figures_in_other_units_are_not_compared() -> None:
    """Milliseconds and microseconds have no difference."""
    before = replace(_side(1), figures={"p99": Measured(1.0, "ms")})
    after = replace(_side(2), figures={"p99": Measured(900.0, "us")})
    assert changes_between(before, after).figures == ()


def test_a_version_that_is_not_published_says_so() -> None:
    """Before it is published nothing is said to be the same."""
    absent = Side(2, None, None, "it is not published", {})
    found = changes_between(_side(1), absent)
    assert not found.is_nothing
    assert found.absent == "it is not published"


def test_what_is_left_out_is_counted() -> None:
    """Of very many lines some are shown, with the number of the others."""
    one, other = ("".join(f"a{place}: {value}\n" for place in range(40)) for value in (1, 2))
    found = changes_between(_side(1, one), _side(2, other))
    assert len(found.config) == LINES_SHOWN
    assert found.more == 80 - LINES_SHOWN


@pytest.mark.parametrize(
    ("name", "better"),
    [
        ("validation: accuracy", True),
        ("benchmark: p99", False),
        ("validation: mae", False),
        ("benchmark: throughput", True),
        ("validation: rows", None),
        ("validation: score error", None),
    ],
)
def test_the_name_says_whether_more_is_better(name: str, better: bool | None) -> None:
    """By its words; where these contradict each other, or say nothing, nothing is said."""
    assert is_better(name, 1.0, 2.0) is better
    assert is_better(name, 1.0, 1.0) is None
