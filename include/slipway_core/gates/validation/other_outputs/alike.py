"""Which rows of two answers are alike: numbers within tolerances, all else exactly."""

from __future__ import annotations

import numpy as np

from slipway_core.gates.validation.scores import Array

ABS_TOLERANCE, REL_TOLERANCE = 1e-3, 1e-2


def rows_alike(
    one: Array, other: Array, abs_tolerance: float = ABS_TOLERANCE, rel_tolerance: float = REL_TOLERANCE
) -> Array:
    """Return for each row of `other` whether it is as that of `one`: [rows] of truth values.

    A single number a row may be [rows] or [rows, 1]. Arrays of other sizes have no row alike.
    """
    mine, theirs = flat(one), flat(other)
    if mine.shape != theirs.shape:
        return np.zeros(len(other), dtype=bool)
    if mine.dtype.kind in "OSU" or theirs.dtype.kind in "OSU":
        pairs = zip(mine.tolist(), theirs.tolist(), strict=True)
        return np.asarray([[text(a) for a in x] == [text(b) for b in y] for x, y in pairs], dtype=bool)
    if mine.dtype.kind in "iub" and theirs.dtype.kind in "iub":
        return np.asarray((mine == theirs).all(axis=1))
    near = np.isclose(
        theirs.astype(np.float64), mine.astype(np.float64), rel_tolerance, abs_tolerance, equal_nan=True
    )
    return np.asarray(near.all(axis=1))


def flat(values: Array) -> Array:
    """Return values as [rows, numbers of a row]."""
    return values.reshape(len(values), -1)


def text(value: object) -> str:
    """Return a text that may be bytes."""
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)


def one_a_row(values: Array) -> bool:
    """Return whether each row has one value."""
    return values.ndim > 0 and len(values) > 0 and values.size == len(values)


def as_keys(values: Array) -> Array:
    """Return one value a row as whole numbers or texts that can be counted: [rows]."""
    if values.dtype.kind in "OSU":
        return np.asarray([text(one) for one in values.reshape(-1).tolist()])
    return values.reshape(-1)


def is_class_like(values: Array) -> bool:
    """Return whether each row has one value of a few: whole numbers, truth values or texts that come again."""
    if not one_a_row(values) or values.dtype.kind not in "iubOSU":
        return False
    return len(np.unique(as_keys(values))) <= max(2, len(values) // 2)
