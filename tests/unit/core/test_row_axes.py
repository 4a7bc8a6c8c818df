"""Which axis counts the rows: guessed from shapes, said in the release file, the same in the pods as in the gates."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slipway_core import row_axes
from slipway_core.row_axes import RowAxes, row_axis_of, rows_first, take_rows
from slipway_pod.models import rows as pods

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
def test_pods_reckon_as_the_gates_do(array: list[int], model: list[int], rows: int) -> None:
    """The pods' package may import nothing of the domain, so it has the same rules once more."""
    assert pods.row_axis_of(array, model, rows) == row_axis_of(array, model, rows)
    said: dict[str, Any] = {}
    assert pods.count_rows({"x": array}, {"x": model}, said) == row_axes.count_rows(
        {"x": array}, {"x": model}, said
    )
    for one_by_one in (True, False):
        answer = np.zeros(array)
        mine = rows_first(answer, model, None, rows=rows, one_by_one=one_by_one).shape
        assert pods.rows_first(answer, model, None, rows=rows, one_by_one=one_by_one).shape == mine


def test_what_was_guessed_is_said() -> None:
    """The log tells for each input how its rows are taken, and which of that nobody has written."""
    axes = RowAxes({"state": 1, "rate": "none", "image": "request"}, guessed=frozenset({"state"}))
    assert axes.told() == (
        "`state`: axis 1 (guessed), `rate`: the same in every request, `image`: a request for each row"
    )
