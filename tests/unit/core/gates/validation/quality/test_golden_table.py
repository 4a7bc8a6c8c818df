"""The golden set as a table: its columns, and what is expected of every golden set."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from slipway_core.errors import GoldenSetError
from slipway_core.gates.validation.golden_set import GoldenSet, golden_from_arrays
from slipway_core.gates.validation.kinds.classification import ClassificationValidation
from slipway_core.gates.validation.kinds.vectors import VectorsValidation
from slipway_core.gates.validation.quality.golden_table import default_golden_suite, golden_table
from slipway_core.tensors import ModelSignature

SIGNATURE = ModelSignature.model_validate(
    {
        "inputs": [{"name": "x", "datatype": "FP32", "shape": (-1, 2)}],
        "outputs": [{"name": "y", "datatype": "FP32", "shape": (-1, 3)}],
    }
)
INPUTS = np.array([[0, 1], [2, 3], [0, 1], [0, 1]], dtype=np.float32)


def golden(**arrays: Any) -> GoldenSet:
    """Return a golden set of four rows, of which three have the same inputs."""
    return golden_from_arrays(
        {"x": INPUTS, "label": np.array([0, 1, 0, 1]), **arrays},
        SIGNATURE,
        "label",
        slices=[name for name in arrays if name != "label"],
    )


def test_repeated_rows_and_contradictions_are_marked() -> None:
    """A row with the inputs of an earlier one is a duplicate; with another label it is a conflict besides."""
    table = golden_table(golden(site=np.array(["north", "south", "north", "south"])))
    assert table["duplicate"] == [0, 0, 1, 1]
    assert table["conflict"] == [0, 0, 0, 1]
    assert table["class_share"] == [0.5] * 4
    assert table["slice.site"] == ["north", "south", "north", "south"]
    assert (table["x.min"], table["x.max"], table["x.mean"]) == (
        [0, 2, 0, 0],
        [1, 3, 1, 1],
        [0.5, 2.5, 0.5, 0.5],
    )
    assert table["x.zero_share"] == [0.5, 0, 0.5, 0.5]


def test_texts_have_a_length() -> None:
    """Of texts the characters are counted, not the bytes."""
    texts = np.array([["née".encode()], [b"a"]], dtype=object)
    table = golden_table(GoldenSet({"t": texts}, np.array([1.5, 2.5])))
    assert (table["t.length"], table["label"], table["duplicate"]) == ([3, 1], [1.5, 2.5], [0, 0])
    assert "class_share" not in table


def test_texts_are_not_taken_for_one_another() -> None:
    """Two pairs of texts that would be equal when written one after the other are different rows."""
    texts = np.array([[b"ab", b"c"], [b"a", b"bc"]], dtype=object)
    assert golden_table(GoldenSet({"t": texts}, np.array([0, 0])))["duplicate"] == [0, 0]


def test_what_is_expected_of_every_set_only_warns() -> None:
    """The default finds duplicates, contradictions and a single class; none of them fails a version."""
    found = default_golden_suite(golden_table(golden()), ClassificationValidation())
    assert {one["policy"] for one in found} == {"warn"}
    assert [one["kwargs"]["column"] for one in found] == ["duplicate", "conflict", "label"]
    assert len(default_golden_suite(golden_table(golden()), VectorsValidation())) == 1


@pytest.mark.parametrize(
    ("site", "told"),
    [
        (np.array(["a", "b"]), r"have shape \[2\], not \[rows\]"),
        (np.zeros(4), "hold float64, not whole numbers or texts"),
    ],
)
def test_slices_must_name_a_part_for_each_row(site: Any, told: str) -> None:
    """Slices of another length, or of numbers with a fraction, are refused with the golden set."""
    with pytest.raises(GoldenSetError, match=told):
        golden(site=site)


def test_slices_that_are_missing_or_too_many_are_refused() -> None:
    """An array that is not there, and one with a part for each row of many, are no slices."""
    arrays = {"x": np.zeros((300, 2), np.float32), "label": np.zeros(300, int), "site": np.arange(300)}
    with pytest.raises(GoldenSetError, match="`site` have more than 200 parts"):
        golden_from_arrays(arrays, SIGNATURE, "label", slices=["site"])
    with pytest.raises(GoldenSetError, match="`place` is missing"):
        golden_from_arrays(arrays, SIGNATURE, "label", slices=["site", "place"])
