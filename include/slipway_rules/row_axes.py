"""Which axis of each tensor counts the golden rows, and the one way to take rows.

An axis is a number (0: the rows come first, as in a batch), `request` (the tensor has no axis for rows: each row is a
request of its own, and the golden set holds the tensors of all rows, rows first) or `none` (the tensor is the same in
every request, such as a sampling rate). What the release file does not say under `golden.row_axis` follows from the
model's shape and the number of rows. Axis 0 comes first: a model that takes batches is never taken for another.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]

RowAxis = int | Literal["request", "none"]
Shape = Sequence[int]
LAST_AXIS = 15
"""No tensor has more axes that could count rows."""


def row_axis_of(array: Shape, model: Shape, rows: int) -> RowAxis | None:
    """Return which axis of an input counts the rows, None if its shape does not tell.

    :param array: the shape of the golden set's array.
    :param model: the shape that the model takes, -1 where it varies.
    :param rows: how many rows the golden set has.
    """
    axes = [axis for axis in range(len(model)) if axis == 0 or model[axis] == -1]
    for axis in axes:
        if fits_axis(array, model, axis) and array[axis] == rows:
            return axis
    if fits_axis(array, model, "request") and array[0] == rows:
        return "request"
    is_one_number = all(size == 1 for size in (*array, *model))
    return "none" if is_one_number and fits_axis(array, model, "none") else None


def count_rows(
    arrays: Mapping[str, Shape], models: Mapping[str, Shape], said: Mapping[str, RowAxis]
) -> int | None:
    """Return how many rows a golden set has, by its inputs alone; None if their shapes do not tell.

    What the release file says counts first, then an axis that the model leaves free, as a fixed size may be anything.

    :param arrays: the shape of each input's array.
    :param models: the shape that the model takes, by input.
    :param said: `golden.row_axis`.
    """
    ways: list[tuple[str, RowAxis]] = [(name, axis) for name, axis in said.items() if name in arrays]
    ways += [(name, 0) for name in arrays if tuple(models[name][:1]) == (-1,)]
    ways += [(name, "request") for name in arrays]
    ways += [
        (name, axis) for name in arrays for axis in range(1, len(models[name])) if models[name][axis] == -1
    ]
    ways += [(name, 0) for name in arrays]
    for name, axis in ways:
        if axis == said.get(name, axis) and fits_axis(arrays[name], models[name], axis):
            rows = rows_along(arrays[name], axis)
            if rows:
                return rows
    return None


def fits_axis(array: Shape, model: Shape, axis: RowAxis) -> bool:
    """Return whether an array of that shape holds rows along the axis for a model that takes `model`."""
    if axis == "none":
        return _fits(array, model)
    if axis == "request":
        return len(array) > 0 and _fits(array[1:], model)
    if axis >= len(model) or len(array) != len(model):
        return False
    size = model[axis]
    others = (array[place] for place in range(len(array)) if place != axis)
    wanted = [model[place] for place in range(len(model)) if place != axis]
    return _fits(list(others), wanted) and (size in (-1, 0) or array[axis] % size == 0)


def rows_along(array: Shape, axis: RowAxis) -> int | None:
    """Return how many rows an array holds; None if it is the same in every request."""
    if axis == "none":
        return None
    return array[0] if axis == "request" else array[axis]


def take_rows(values: Array, axis: RowAxis, rows: slice | Sequence[int]) -> Array:
    """Return the part of an input that a request for these rows carries.

    :param rows: one row alone, where the axis is `request`.
    """
    import numpy as np

    if axis == "none":
        return values
    chosen = rows if isinstance(rows, slice) else list(rows)
    if axis == "request":
        (only,) = values[chosen]
        return np.asarray(only, dtype=values.dtype)
    return np.asarray(values[(*(slice(None),) * axis, chosen)])


def rows_first(answer: Array, model: Shape, axis: RowAxis | None, *, rows: int, one_by_one: bool) -> Array:
    """Return an answer with its rows as the first axis.

    :param model: the shape of the output, -1 where it varies.
    :param axis: what the release file says of the output; None: it follows from its shape.
    :param rows: how many rows the request had.
    :param one_by_one: each row is a request of its own.
    """
    import numpy as np

    if axis is None:
        axis = _output_axis(answer.shape, model, rows, one_by_one=one_by_one)
    if axis in ("request", "none"):
        return answer[np.newaxis]
    return np.moveaxis(answer, int(axis), 0) if answer.ndim > int(axis) else answer


def _output_axis(answer: Shape, model: Shape, rows: int, *, one_by_one: bool) -> RowAxis:
    if one_by_one:
        return 0 if tuple(model[:1]) == (1,) and len(model) > 1 and tuple(answer[:1]) == (1,) else "request"
    if tuple(answer[:1]) == (rows,) or not model or model[0] == -1:
        return 0
    free = (
        axis for axis in range(len(model)) if model[axis] == -1 and tuple(answer[axis : axis + 1]) == (rows,)
    )
    return next(free, 0)


def _fits(array: Shape, model: Shape) -> bool:
    """Return whether sizes are those of the model; a served model has [1] where its file has no dimension at all."""
    same = len(array) == len(model) and all(
        wanted in (-1, size) for wanted, size in zip(model, array, strict=True)
    )
    return same or (len(array) + 1 == len(model) and model[-1] == 1 and _fits(array, model[:-1]))
