"""What every row of stable's answers is, whatever the model was trained on: a sum of 1, a length of 1, an order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from slipway_core.gates.validation.intervals import share_interval
from slipway_core.gates.validation.other_outputs.alike import flat
from slipway_core.gates.validation.scores import Array

_TOLERANCE = 1e-2
_LEAST_NUMBERS = 32
_LOST = 0.5
_CONFIDENCE = 0.95

_FORMS: dict[str, tuple[int, Callable[[Array], Any]]] = {
    "sums to 1": (2, lambda rows: np.isclose(rows.sum(axis=1), 1, atol=_TOLERANCE)),
    "has the length 1": (2, lambda rows: np.isclose(np.linalg.norm(rows, axis=1), 1, atol=_TOLERANCE)),
    "falls from number to number": (3, lambda rows: (np.diff(rows, axis=1) <= 0).all(axis=1)),
    "rises from number to number": (3, lambda rows: (np.diff(rows, axis=1) >= 0).all(axis=1)),
    "lies between 0 and 1": (1, lambda rows: ((rows >= -_TOLERANCE) & (rows <= 1 + _TOLERANCE)).all(axis=1)),
    "is nowhere below 0": (1, lambda rows: (rows >= -_TOLERANCE).all(axis=1)),
    "is whole": (1, lambda rows: (rows == np.round(rows)).all(axis=1)),
}


def lost_form(stable: Array, candidate: Array) -> str:
    """Return in words what each row of stable's numbers is and most of the candidate's are not; empty for nothing."""
    if stable.dtype.kind != "f" or candidate.dtype.kind != "f" or stable.size < _LEAST_NUMBERS:
        return ""
    mine, theirs = flat(candidate).astype(np.float64), flat(stable).astype(np.float64)
    for words, (least_width, check) in _FORMS.items():
        if theirs.shape[1] < least_width or not check(theirs).all():
            continue
        held = check(mine)
        if share_interval(int(held.sum()), len(held), _CONFIDENCE).high < _LOST:
            return f"each row {words} in the stable version, here {held.mean():.1%} of them"
    return ""
