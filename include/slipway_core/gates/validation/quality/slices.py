"""Accuracy and agreement by slice: a version that is good on the whole may have lost a part of the data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from slipway_core.gates.interval import Interval
from slipway_core.gates.validation.intervals import mean_interval
from slipway_core.gates.validation.quality.golden_table import part_name
from slipway_core.gates.validation.scores import Array, ValidationScores

# By kind of answer another column says how right a row is; the first that is there counts.
_RIGHT = ("correct", "score", "iou", "found", "ndcg", "neighbour_accuracy")
_AGREES = "agrees"
SLICES_SHOWN = 50
_NAMED = 5


@dataclass(frozen=True)
class SliceFigure:
    """One figure of one part: its mean over the part's rows, its interval, and the limit."""

    name: str
    part: str
    figure: str
    rows: int
    value: float
    interval: Interval
    least: float | None

    @property
    def decision(self) -> str:
        """Return what the interval says of the limit."""
        return "no_limit" if self.least is None else self.interval.holds(least=self.least, most=None)

    def describe(self) -> str:
        """Return it in words."""
        limit = "" if self.least is None else f", at least {self.least:.1%}"
        return (
            f"{self.figure} where `{self.name}` is {self.part}: {self.value:.1%} of {self.rows} rows "
            f"({self.interval.low:.1%} to {self.interval.high:.1%}){limit}"
        )

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON holds it."""
        return {
            "slice": self.name,
            "part": self.part,
            "figure": self.figure,
            "rows": self.rows,
            "value": self.value,
            "interval": [self.interval.low, self.interval.high],
            "least": self.least,
            "decision": self.decision,
        }


def slice_figures(slices: Mapping[str, Array], numbers: ValidationScores) -> tuple[SliceFigure, ...]:
    """Return accuracy and agreement of each part of each slice, the worst first.

    Where the scores have no row for each golden row, as where rows are questions, there are none.
    """
    found = []
    for name, values in slices.items():
        for part in np.unique(values).tolist():
            rows = np.flatnonzero(values == part)
            for figure, column, least in _asked(numbers):
                scores = numbers.columns.get(column, ())
                if len(scores) != len(values):
                    continue
                one = _figure(name, part_name(part), figure, [scores[row] for row in rows], least, numbers)
                found += [] if one is None else [one]
    return tuple(sorted(found, key=lambda one: (one.decision != "not_met", one.value)))


def slices_not_compared(
    slices: Mapping[str, Array], numbers: ValidationScores, found: Sequence[SliceFigure]
) -> tuple[str, ...]:
    """Say which limits of slices had no figure to check, in words; agreement is checked only if a version is live.

    :param found: what `slice_figures` has found.
    """
    known = {(one.figure, one.name, one.part) for one in found}
    missing = []
    for figure, _, least in _asked(numbers):
        if not least or (figure == "agreement" and numbers.agreement is None):
            continue
        parts = [
            (name, part_name(one)) for name, values in slices.items() for one in np.unique(values).tolist()
        ]
        lacking = [f"`{name}` is {part}" for name, part in parts if (figure, name, part) not in known]
        if lacking or not parts:
            where = (
                f"where {', '.join(lacking[:_NAMED])}" if parts else "by slice: `golden.slices` names none"
            )
            missing.append(
                f"{figure} {where}, at least {least:.1%}: no row has a figure, nothing was compared"
            )
    return tuple(missing)


def _asked(numbers: ValidationScores) -> tuple[tuple[str, str, float | None], ...]:
    """Return each figure, the column that has it by row ("": none), and its limit."""
    right = next((one for one in _RIGHT if one in numbers.columns), "")
    asked = numbers.validation
    return ("accuracy", right, asked.slice_accuracy_min), ("agreement", _AGREES, asked.slice_agreement_min)


def _figure(
    name: str,
    part: str,
    figure: str,
    scores: Sequence[Any],
    least: float | None,
    numbers: ValidationScores,
) -> SliceFigure | None:
    known = [float(one) for one in scores if one is not None and np.isfinite(one)]
    interval = mean_interval(known, numbers.validation.confidence)
    if interval is None:
        return None
    return SliceFigure(name, part, figure, len(known), float(np.mean(known)), interval, least or None)
