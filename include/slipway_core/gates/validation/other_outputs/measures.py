"""How far an output may be from stable's where nothing ties it to another one.

A version that was trained again has other numbers and some other classes; an embedding may even be turned as a whole.
So these measures ask for less than equality: the output must still be related to stable's output for the same rows, at
nearly the same scale.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np

from slipway_core.gates.validation.intervals import mean_interval, share_interval
from slipway_core.gates.validation.other_outputs.alike import as_keys, flat, rows_alike, text
from slipway_core.gates.validation.scores import Array
from slipway_core.gates.validation.text_similarity import similarity
from slipway_core.written_numbers import number

LEAST_ROWS = 8
_CONFIDENCE = 0.95
# Of agreement beyond chance (Cohen's kappa, a correlation): what clearly lies below has nothing to do with stable's.
_RELATED, _RELATED_TEXTS = 0.3, 0.1
_SIZE_OF_ONE, _SIZE_OF_MANY, _SIZE_NEAR = 2.0, 4.0, 1.5
_SHIFT_OF_ONE, _SHIFT_OF_MANY, _SHIFT_NEAR = 1.5, 3.0, 0.75
_COLUMNS, _PERMUTATIONS, _ALIGNED_ROWS = 512, 99, 512
# The same of the alignment of two kernels, which is lower for vectors that are related.
_ALIGNED = 0.05
_SEED = 7


@dataclass(frozen=True)
class Measured:
    """A measure of one output: what it is called, its verdict, and what was seen."""

    measure: str
    status: Literal["pass", "warn", "fail"]
    summary: str


def measure_classes(stable: Array, candidate: Array, agreement_min: float) -> Measured:
    """Compare one class a row: whole numbers, truth values or texts of a few."""
    mine, theirs = as_keys(candidate).astype(str), as_keys(stable).astype(str)
    agree = mine == theirs
    found = share_interval(int(agree.sum()), len(agree), _CONFIDENCE)
    values = np.unique([*mine, *theirs])
    chance = float(sum((mine == one).mean() * (theirs == one).mean() for one in values))
    summary = f"{agree.mean():.1%} of the rows have stable's value"
    varies = len(np.unique(theirs)) > 1
    beyond = 1.0 if chance >= 1 else (found.high - chance) / (1 - chance)
    if (varies and beyond < _RELATED) or found.high < min(agreement_min, 1 - _RELATED) * (not varies):
        return Measured("agreement", "fail", f"{summary}; {chance:.1%} would by chance")
    if found.high < agreement_min:
        return Measured("agreement", "warn", f"{summary}; {agreement_min:.1%} is required")
    return Measured("agreement", "pass", summary)


def measure_texts(stable: Array, candidate: Array, agreement_min: float) -> Measured:
    """Compare one text a row by the F1 score of the words, and with the texts of other rows."""
    mine, theirs = ([text(one) for one in values.reshape(-1).tolist()] for values in (candidate, stable))
    scores = [similarity(a, b, "token_f1") for a, b in zip(theirs, mine, strict=True)]
    others = [similarity(a, b, "token_f1") for a, b in zip(theirs, [*mine[1:], mine[0]], strict=True)]
    gain = mean_interval([a - b for a, b in zip(scores, others, strict=True)], _CONFIDENCE)
    summary = f"the texts match stable's by {np.mean(scores):.1%} (F1 score of the words)"
    varies = len(set(theirs)) > 1
    if (varies and (gain is None or gain.high < _RELATED_TEXTS * (1 - np.mean(others)))) or max(scores) == 0:
        return Measured(
            "text", "fail", f"{summary}, no more than those of other rows ({np.mean(others):.1%})"
        )
    return Measured("text", "warn" if np.mean(scores) < agreement_min else "pass", summary)


def measure_numbers(stable: Array, candidate: Array, agreement_min: float) -> Measured:
    """Compare numbers of any shape: their size, where they lie, and whether they go with stable's from row to row."""
    mine, theirs = _columns(candidate), _columns(stable)
    one = theirs.shape[1] == 1
    varies = theirs.std(axis=0) > 1e-9 * (1 + np.abs(theirs).max(axis=0))
    if not varies.any():
        same = rows_alike(stable, candidate)
        summary = f"{same.mean():.1%} of the rows have stable's numbers, which are the same in every row"
        high = share_interval(int(same.sum()), len(same), _CONFIDENCE).high
        return Measured("numbers", "warn" if high < agreement_min else "pass", summary)
    mine, theirs = mine[:, varies], theirs[:, varies]
    if not (mine.std(axis=0) > 0).any():
        return Measured(
            "numbers", "fail", "all rows have the same numbers, and stable's have others in each row"
        )
    size = float(np.median(mine.std(axis=0) / theirs.std(axis=0)))
    shift = float(np.median(np.abs(np.median(mine, axis=0) - np.median(theirs, axis=0)) / theirs.std(axis=0)))
    together, related = _related(theirs, mine)
    summary = (
        f"{together}; the spread is {number(size, 2)} times stable's, "
        f"the middle {number(shift, 2)} of its spreads away"
    )
    most = _SIZE_OF_ONE if one else _SIZE_OF_MANY
    if not related or not 1 / most <= size <= most or shift > (_SHIFT_OF_ONE if one else _SHIFT_OF_MANY):
        return Measured("numbers", "fail", summary)
    is_near = 1 / _SIZE_NEAR <= size <= _SIZE_NEAR and shift <= _SHIFT_NEAR
    return Measured("numbers", "pass" if is_near else "warn", summary)


def _columns(values: Array) -> Array:
    rows = flat(values).astype(np.float64)
    if rows.shape[1] > _COLUMNS:
        rows = rows[:, np.linspace(0, rows.shape[1] - 1, _COLUMNS).astype(int)]
    return rows


def _related(stable: Array, candidate: Array) -> tuple[str, bool]:
    """Say whether two versions' numbers go together from row to row, also where a whole vector is turned."""
    if stable.shape[1] == 1:
        found = _correlation(_ranks(stable[:, 0]), _ranks(candidate[:, 0]))
        high = np.tanh(np.arctanh(min(found, 0.999999)) + 1.96 / np.sqrt(max(len(stable) - 3, 1)))
        return f"the order of the rows matches stable's by {found:.2f} (rank correlation)", bool(
            high >= _RELATED
        )
    one, other = _kernel(stable[:_ALIGNED_ROWS]), _kernel(candidate[:_ALIGNED_ROWS])
    size = float(np.linalg.norm(one) * np.linalg.norm(other))
    if not size:
        return "the rows' mutual similarities are all zero", False
    numbers = np.random.default_rng(_SEED)
    orders = [numbers.permutation(len(one)) for _ in range(_PERMUTATIONS)]
    by_chance = [float((one * other[np.ix_(order, order)]).sum()) / size for order in orders]
    found, chance = float((one * other).sum()) / size, float(np.mean(by_chance))
    summary = f"the rows' mutual similarities match stable's by {found:.2f} (kernel alignment; by chance {chance:.2f})"
    return summary, found > max(by_chance) and (found - chance) >= _ALIGNED * (1 - chance)


def _kernel(values: Array) -> Array:
    """Return how rows lie to each other. The alignment of two kernels (CKA) is 1 also for vectors that are turned."""
    centred = values - values.mean(axis=0)
    return np.asarray(centred @ centred.T)


def _ranks(values: Array) -> Array:
    _, places, counts = np.unique(values, return_inverse=True, return_counts=True)
    ends = counts.cumsum()
    return np.asarray((ends - (counts - 1) / 2)[places])


def _correlation(one: Array, other: Array) -> float:
    if not one.std() or not other.std():
        return 0.0
    return float(np.corrcoef(one, other)[0, 1])


MEASURES: dict[str, Callable[[Array, Array, float], Measured]] = {
    "classes": measure_classes,
    "texts": measure_texts,
    "numbers": measure_numbers,
}
