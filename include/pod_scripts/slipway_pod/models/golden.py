"""The golden set: rows for each input of a model, as a NumPy archive."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from slipway_pod.errors import PodError
from slipway_pod.models.batch_tensors import BatchTensors
from slipway_pod.models.rows import GoldenRows
from slipway_pod.models.tensors import Tensor, numpy_name
from slipway_rules.errors import RuleError
from slipway_rules.npz import SIZE_LIMIT_BYTES, read_npz
from slipway_rules.row_axes import RowAxis, count_rows, fits_axis, row_axis_of, rows_along


def read_arrays(path: Path, name: str, limit_bytes: int = SIZE_LIMIT_BYTES) -> dict[str, Any]:
    """Return the arrays of a NumPy archive by name, `limit_bytes` of them in all.

    :raises PodError: of kind GoldenSetError.
    """
    try:
        return read_npz(path, name, limit_bytes)
    except RuleError as error:
        found = f"a file of {path.stat().st_size} bytes: {error.details['found']}"
        raise PodError("GoldenSetError", error.what, **{**error.details, "found": found}) from error


def read_golden(
    path: Path,
    name: str,
    inputs: tuple[Tensor, ...],
    row_axes: Sequence[tuple[str, RowAxis]] = (),
    batch: BatchTensors | None = None,
) -> GoldenRows:
    """Return the golden set's array for each input, and how its rows are taken; an optional one may be missing.

    :param row_axes: which axis counts the rows, of inputs and outputs for which it is said.
    :param batch: what Triton makes of a batch, where `inputs` are the model's own.
    :raises PodError: of kind GoldenSetError.
    """
    arrays = read_arrays(path, name)
    inputs = inputs if batch is None else batch.sent(inputs)
    inputs = tuple(tensor for tensor in inputs if tensor.name in arrays or not tensor.optional)
    require_columns(name, arrays, [tensor.name for tensor in inputs])
    columns, said = {tensor.name: arrays[tensor.name] for tensor in inputs}, dict(row_axes)
    count = count_rows(
        {column: array.shape for column, array in columns.items()},
        {tensor.name: model_shape(columns[tensor.name], tensor, said) for tensor in inputs},
        said,
    )
    axes = {tensor.name: axis_of(columns[tensor.name], tensor, count or 0, said) for tensor in inputs}
    for tensor in inputs:
        require_column_fits(name, arrays[tensor.name], tensor, axes[tensor.name])
    rows = {column: rows_along(array.shape, axes[column]) for column, array in columns.items()}
    counted = {number for number in rows.values() if number is not None}
    if len(counted) != 1 or 0 in counted:
        what = f"{name} has no rows, or not the same number in each column"
        found = ", ".join(
            f"{column}: {'any' if number is None else number}" for column, number in rows.items()
        )
        remedy = (
            "write the golden set again from whole rows, or say in golden.row_axis which axis counts them"
        )
        raise PodError("GoldenSetError", what, found=found, remedy=remedy)
    ranks = {tensor.name: len(tensor.shape) for tensor in inputs if tensor.shape}
    return GoldenRows(columns, said | axes, counted.pop(), ranks, batch)


def axis_of(array: Any, tensor: Tensor, rows: int, said: Mapping[str, RowAxis]) -> RowAxis:
    """Return which axis of an input's array counts the rows: as it is said, else by its shape, else the first."""
    found = said.get(tensor.name, row_axis_of(array.shape, model_shape(array, tensor, said), rows))
    return 0 if found is None else found


def model_shape(array: Any, tensor: Tensor, said: Mapping[str, RowAxis]) -> tuple[int, ...]:
    """Return the shape that an input takes; of one without sizes or of unknown rank, as the array has it."""
    if tensor.shape:
        return tensor.shape
    axis = said.get(tensor.name, "none" if array.ndim == 0 else 0)
    if axis == "none":
        return tuple(array.shape)
    return tuple(array.shape[1:]) if axis == "request" else (-1, *array.shape[1:])


def require_columns(name: str, arrays: Mapping[str, Any], columns: Sequence[str]) -> None:
    """Raise PodError (GoldenSetError) unless there is an array for each column."""
    missing = [column for column in columns if column not in arrays]
    if not missing:
        return
    near = {column: difflib.get_close_matches(column, list(arrays), n=1) for column in missing}
    hints = [f"; {match[0]!r} looks like {column!r}" for column, match in near.items() if match]
    what = f"{name} lacks the column{'s' if len(missing) > 1 else ''} {', '.join(missing)}"
    expected, found = f"one array for each of {', '.join(columns)}", ", ".join(sorted(arrays)) or "no array"
    remedy = f"name the arrays after the model's inputs{''.join(hints)}"
    raise PodError("GoldenSetError", what, expected=expected, found=found, remedy=remedy)


def require_column_fits(name: str, array: Any, tensor: Tensor, axis: RowAxis = 0) -> None:
    """Raise PodError (GoldenSetError) unless type and shape are the input's."""
    wanted = numpy_name(tensor.datatype)
    fits = array.dtype.kind in "US" if wanted == "str" else array.dtype.name == wanted
    shape = model_shape(array, tensor, {tensor.name: axis})
    # A model that fixes the size of the rows' axis is fed that many rows at a time; the last request is filled up.
    free = tuple(-1 if place == axis else size for place, size in enumerate(shape))
    if fits and fits_axis(array.shape, free, axis):
        return
    what = f"Column {tensor.name!r} of {name} does not fit the model's input"
    expected = f"{wanted} of shape {in_words(shape, axis)} (-1: any size)"
    found = f"{array.dtype.name} of shape {list(array.shape)}"
    remedy = "write the golden set with the type and shape that the model takes"
    raise PodError("GoldenSetError", what, expected=expected, found=found, remedy=remedy)


def in_words(shape: Sequence[int], axis: RowAxis) -> list[int | str]:
    """Return a shape with the word `rows` where the golden set's rows are counted."""
    if axis == "none":
        return list(shape)
    return (
        ["rows", *shape]
        if axis == "request"
        else ["rows" if place == axis else size for place, size in enumerate(shape)]
    )
