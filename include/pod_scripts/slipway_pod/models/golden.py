"""The golden set: rows for each input of a model, as a NumPy archive."""

from __future__ import annotations

import difflib
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from slipway_pod.errors import PodError, first_line
from slipway_pod.models.npz import SIZE_LIMIT_BYTES, read_npz
from slipway_pod.models.tensors import Tensor, numpy_name


def read_arrays(path: Path, name: str, limit_bytes: int = SIZE_LIMIT_BYTES) -> dict[str, Any]:
    """Return the arrays of a NumPy archive by name, `limit_bytes` of them in all.

    :raises PodError: of kind GoldenSetError.
    """
    try:
        return read_npz(path, limit_bytes)
    except (zipfile.BadZipFile, zlib.error, ValueError, RuntimeError, EOFError, OSError, KeyError) as error:
        what = f"{name} is no NumPy .npz archive without pickled objects"
        found = f"{path.stat().st_size} bytes, {first_line(error)}"
        remedy = "write it with numpy.savez(path, INPUT=…, LABEL=…) from arrays of numbers or strings"
        raise PodError("GoldenSetError", what, found=found, remedy=remedy) from error


def read_golden(path: Path, name: str, inputs: tuple[Tensor, ...]) -> dict[str, Any]:
    """Return the golden set's array for each input, first dimension rows; an optional one may be missing.

    :raises PodError: of kind GoldenSetError.
    """
    arrays = read_arrays(path, name)
    inputs = tuple(tensor for tensor in inputs if tensor.name in arrays or not tensor.optional)
    require_columns(name, arrays, [tensor.name for tensor in inputs])
    for tensor in inputs:
        require_column_fits(name, arrays[tensor.name], tensor)
    rows = {tensor.name: len(arrays[tensor.name]) for tensor in inputs}
    if len(set(rows.values())) != 1 or 0 in rows.values():
        what = f"{name} has no rows, or not the same number in each column"
        found = ", ".join(f"{column}: {count}" for column, count in rows.items())
        remedy = "write the golden set again from whole rows"
        raise PodError("GoldenSetError", what, found=found, remedy=remedy)
    return {tensor.name: arrays[tensor.name] for tensor in inputs}


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


def require_column_fits(name: str, array: Any, tensor: Tensor) -> None:
    """Raise PodError (GoldenSetError) unless type and shape are the input's."""
    wanted = numpy_name(tensor.datatype)
    fits = array.dtype.kind in "US" if wanted == "str" else array.dtype.name == wanted
    shape = tensor.shape or (-1, *array.shape[1:])
    # The first dimension is the batch: a model that fixes it is fed that many rows at a time.
    pairs = zip(shape[1:], array.shape[1:], strict=False)
    if fits and array.ndim == len(shape) and all(size in (-1, actual) for size, actual in pairs):
        return
    what = f"Column {tensor.name!r} of {name} does not fit the model's input"
    expected = f"{wanted} of shape {['rows', *shape[1:]]} (-1: any size)"
    found = f"{array.dtype.name} of shape {list(array.shape)}"
    remedy = "write the golden set with the type and shape that the model takes"
    raise PodError("GoldenSetError", what, expected=expected, found=found, remedy=remedy)
