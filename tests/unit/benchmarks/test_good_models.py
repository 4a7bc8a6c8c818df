"""The families of `good_models_refused`, and what their outcomes come to."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from benchmarks.figure import MeasureError
from benchmarks.good_models import suite
from benchmarks.good_models.families import chosen, families
from benchmarks.good_models.family import Family, Landed
from benchmarks.good_models.release import GATES, Release
from slipway_core.spec.release_file import parse_release_spec

_NAMES = ["forest", "network"]


def _row(model: str, version: int, refused_by: str = "") -> dict[str, Any]:
    return {"model": model, "version": version, "refused_by": refused_by}


def test_refused_versions_are_counted_and_named() -> None:
    """A family whose first version was refused has no second one, and the gate stands in the note."""
    rows = [_row("forest", 1, "convert"), _row("network", 1), _row("network", 2, "validate")]
    figure = suite.figure_of(rows, _NAMES)
    assert (figure.value, figure.unit) == (2.0, "versions")
    assert figure.note == "of 3 versions, 2 families of models: forest 1 by convert; network 2 by validate"


def test_none_refused_is_zero_only_where_every_version_was_released() -> None:
    """With all outcomes there the figure is 0."""
    rows = [_row(name, version) for name in _NAMES for version in (1, 2)]
    assert suite.figure_of(rows, _NAMES).value == 0.0


@pytest.mark.parametrize(
    "rows",
    [
        [],
        [_row("forest", 1), _row("forest", 2), _row("network", 1)],
        [_row("forest", 1), _row("network", 1), _row("network", 2)],
    ],
    ids=["nothing ran", "ended early", "one is missing"],
)
def test_a_version_without_an_outcome_is_no_good_sign(rows: list[dict[str, Any]]) -> None:
    """A run that ended early measures nothing, however few were refused by then."""
    with pytest.raises(MeasureError, match="has no outcome"):
        suite.figure_of(rows, _NAMES)


def test_there_are_more_than_twelve_families_each_with_a_release_file() -> None:
    """Names are told apart, every release file is valid, and the small batches 2 to 7 are all asked for."""
    found = families()
    specs = [parse_release_spec(one.text(), f"{one.name}.yaml") for one in found]
    assert len({one.name for one in found}) == len(found) > 12
    assert [one.model for one in specs] == [one.name for one in found]
    assert {one.serving.max_batch_size for one in specs} >= {2, 3, 4, 5, 6, 7}
    assert {one.source.format for one in specs} >= {
        "onnx",
        "sklearn",
        "xgboost",
        "lightgbm",
        "pytorch",
        "python",
    }


def test_an_unknown_family_is_named() -> None:
    """A slip releases nothing."""
    assert [one.name for one in chosen(["topics"])] == ["topics"]
    with pytest.raises(ValueError, match=r"no such family: topic$"):
        chosen(["topic"])


def test_the_two_versions_of_a_family_are_two_models(tmp_path: Path) -> None:
    """Same golden set, other weights: the second one is compared with the first on the same rows."""
    (family,) = chosen(["ten-documents"])
    first, second = family.land(tmp_path, 1), family.land(tmp_path, 2)
    assert first.files["model.onnx"] != second.files["model.onnx"]
    assert first.golden_file() == second.golden_file()


def test_a_family_is_given_its_name() -> None:
    """The release file names the model, as `slipway lint` asks."""
    family = Family("x", "", "\nsource: {format: onnx}\n", lambda folder, version: Landed({}, {}))
    assert family.text() == "model: x\nsource: {format: onnx}\n"


def test_a_release_has_a_step_for_every_gate() -> None:
    """No gate of the list is left out of a release."""
    assert all(callable(getattr(Release, f"_{name}")) for name in GATES)
