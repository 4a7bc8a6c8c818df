"""Which axis counts the rows: guessed from shapes, or said in the release file."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slipway_rules.row_axes import count_rows, fits_axis, row_axis_of, rows_along, rows_first, take_rows

_SIZES = st.lists(st.sampled_from([-1, 0, 1, 2, 3, 6]), max_size=4)
_ARRAYS = st.lists(st.sampled_from([1, 2, 3, 6]), max_size=5)


@pytest.mark.parametrize(
    ("array", "model", "rows", "axis"),
    [
        ((6, 4), (-1, 4), 6, 0),
        ((6, 4), (2, 4), 6, 0),
        ((2, 6, 128), (2, -1, 128), 6, 1),
        ((), (1,), 6, "none"),
        ((1,), (1,), 6, "none"),
        ((6, 3, 8, 8), (3, 8, 8), 6, "request"),
        ((6,), (1,), 6, 0),
        ((6,), (-1, 1), 6, 0),
        ((5, 4), (-1, 4), 6, None),
        ((1, 4), (1, 4), 6, None),
    ],
)
def test_the_axis_follows_from_the_shapes(
    array: tuple[int, ...], model: tuple[int, ...], rows: int, axis: Any
) -> None:
    """The first axis counts rows where it can; else one that the model leaves free; else each row is a request."""
    if axis == 0 and len(array) + 1 == len(model):
        assert row_axis_of((*array, 1), model, rows) == axis
    else:
        assert row_axis_of(array, model, rows) == axis


def test_rows_are_taken_along_their_axis() -> None:
    """A slice of a batch, of a second axis, of nothing at all, and one row as a request of its own."""
    values = np.arange(24).reshape(2, 3, 4)
    assert take_rows(values, 0, slice(0, 1)).shape == (1, 3, 4)
    assert take_rows(values, 1, [2, 0]).tolist() == values[:, [2, 0]].tolist()
    assert take_rows(values, "none", slice(0, 1)) is values
    assert take_rows(values, "request", slice(1, 2)).tolist() == values[1].tolist()


@pytest.mark.parametrize(
    ("shape", "model", "axis", "options", "found"),
    [
        ((6, 3), (-1, 3), None, {"rows": 6, "one_by_one": False}, (6, 3)),
        ((2, 6, 3), (2, -1, 3), None, {"rows": 6, "one_by_one": False}, (6, 2, 3)),
        ((10,), (10,), None, {"rows": 1, "one_by_one": True}, (1, 10)),
        ((1, 10), (1, 10), None, {"rows": 1, "one_by_one": True}, (1, 10)),
        ((7, 6), (-1, 6), None, {"rows": 1, "one_by_one": True}, (1, 7, 6)),
        ((3, 6), (3, -1), 1, {"rows": 6, "one_by_one": False}, (6, 3)),
        ((7, 6), (-1, 6), "request", {"rows": 1, "one_by_one": False}, (1, 7, 6)),
    ],
)
def test_answers_have_their_rows_first(
    shape: tuple[int, ...], model: tuple[int, ...], axis: Any, options: Any, found: tuple[int, ...]
) -> None:
    """Whatever axis an output counts rows on, what is scored has them first."""
    assert rows_first(np.zeros(shape), model, axis, **options).shape == found


@given(_ARRAYS, _SIZES, st.sampled_from([1, 2, 3, 6]))
def test_an_axis_that_was_found_holds_the_rows(array: list[int], model: list[int], rows: int) -> None:
    """Whatever the shapes are: what is found fits the model, lists and tuples alike, and is what the count goes by."""
    axis = row_axis_of(array, model, rows)
    assert axis == row_axis_of(tuple(array), tuple(model), rows)
    if axis is not None:
        assert fits_axis(array, model, axis)
        assert rows_along(array, axis) in (rows, None)
    counted = count_rows({"x": array}, {"x": model}, {})
    assert counted == count_rows({"x": tuple(array)}, {"x": tuple(model)}, {})
    assert counted is None or counted > 0
    if axis not in (None, "none"):
        assert counted is not None
    for one_by_one in (True, False):
        options: Any = {"rows": rows, "one_by_one": one_by_one}
        found = rows_first(np.zeros(array), model, None, **options)
        assert found.shape == rows_first(np.zeros(array), tuple(model), None, **options).shape
