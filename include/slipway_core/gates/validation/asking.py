"""One version's answers to the golden set, out of the answers to its requests: rows first, one array."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from slipway_core.errors import ValidationRefusedError
from slipway_core.gates.validation.golden_set import GoldenSet
from slipway_core.gates.validation.kind import kind_of
from slipway_core.gates.validation.scores import Array
from slipway_core.spec.validation import Validation


def answer_of(golden: GoldenSet, validation: Validation, arrays: Mapping[str, Array], rows: int) -> Array:
    """Return what a request of so many rows was answered with, as the scores take it.

    :param arrays: an array for each output that was asked for.
    """
    first = {name: golden.rows_first(name, array, rows) for name, array in arrays.items()}
    return kind_of(validation).answer(first)


def joined(parts: Sequence[Array]) -> Array:
    """Return the answers to all requests, one after the other; lists of boxes are filled up with NaN.

    :raises ValidationRefusedError: they are of different sizes and no lists.
    """
    if len({part.shape[1:] for part in parts}) <= 1:
        return np.concatenate(parts)
    if any(part.ndim < 2 or part.dtype.kind != "f" or part.shape[2:] != parts[0].shape[2:] for part in parts):
        raise ValidationRefusedError(
            "the answers to the golden rows are of different sizes",
            expected="one size for all rows",
            found=", ".join(sorted({str(list(part.shape[1:])) for part in parts})[:5]),
            remedy="Name another output under `validation.output`, or say which axis counts rows, "
            "under `golden.row_axis`.",
        )
    longest = max(part.shape[1] for part in parts)
    filled = []
    for part in parts:
        whole = np.full((part.shape[0], longest, *part.shape[2:]), np.nan)
        whole[:, : part.shape[1]] = part
        filled.append(whole)
    return np.concatenate(filled)
