"""Do users send what the golden set holds? Two samples of each input, compared column by column.

The measure is the two-sample Kolmogorov-Smirnov statistic: the largest distance between the two shares of values below
any one value, 0 to 1. Its p-value must be small as well, so that few rows alone are no drift; with many rows any
difference has a small one, so the statistic has its own limit. Of texts the lengths are compared.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

LEAST_ROWS = 50
"""With fewer rows on either side, drift isn't judged."""
COLUMNS_LIMIT = 200
"""Of an input with more columns so many are compared, evenly spread."""
_P_MAX = 0.001


@dataclass(frozen=True)
class InputDrift:
    """How far one input's values are from the golden set's.

    :ivar statistic: of the column that is furthest away.
    :ivar column: which one that is; 0 where there is only one.
    :ivar is_drift: whether it is further away than the limit, and not by chance.
    """

    name: str
    statistic: float
    column: int
    is_drift: bool


def input_drift(golden: Mapping[str, Array], recorded: Mapping[str, Array], limit: float) -> list[InputDrift]:
    """Return how each input that both have compares, in the order of their names.

    :param golden: an array for each input, rows first.
    :param recorded: the same of the requests that users sent.
    :param limit: for the statistic.
    """
    return [
        _of_input(name, _columns(golden[name]), _columns(recorded[name]), limit)
        for name in sorted(golden.keys() & recorded.keys())
    ]


def rows_of(arrays: Mapping[str, Array]) -> int:
    """Return how many rows every array has."""
    return min((array.shape[0] if array.ndim else 0 for array in arrays.values()), default=0)


def _of_input(name: str, golden: Sequence[Array], recorded: Sequence[Array], limit: float) -> InputDrift:
    from scipy.stats import ks_2samp  # half a second, which only the task that compares shall pay

    if len(golden) != len(recorded):
        return InputDrift(name, 1.0, 0, is_drift=True)
    worst = InputDrift(name, 0.0, 0, is_drift=False)
    # By chance alone one column of many is far away: Bonferroni's correction.
    p_max = _P_MAX / max(1, len(golden))
    for column, (mine, theirs) in enumerate(zip(golden, recorded, strict=True)):
        found = ks_2samp(mine, theirs, method="asymp")
        is_drift = float(found.statistic) > limit and float(found.pvalue) < p_max
        if (is_drift, float(found.statistic)) > (worst.is_drift, worst.statistic):
            worst = InputDrift(name, float(found.statistic), column, is_drift)
    return worst


def _columns(values: Array) -> list[Array]:
    """Return the columns of numbers that an input has; a value that isn't a number counts as 0."""
    flat = values.reshape(values.shape[0], -1)
    if flat.dtype.kind in "OSU":
        flat = np.vectorize(len, otypes=[np.int64])(flat) if flat.size else flat.astype(np.int64)
    numbers = np.nan_to_num(flat.astype(np.float64))
    step = max(1, -(-numbers.shape[1] // COLUMNS_LIMIT))
    return [numbers[:, column] for column in range(0, numbers.shape[1], step)]
