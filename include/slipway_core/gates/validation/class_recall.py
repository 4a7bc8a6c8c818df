"""Recall by class: a candidate that has lost a whole class may still agree with stable on nine rows of ten."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from slipway_core.gates.interval import Interval
from slipway_core.gates.validation.intervals import share_interval
from slipway_core.gates.validation.scores import Array

CLASSES_SHOWN = 30


@dataclass(frozen=True)
class ClassRecall:
    """How many of a class's rows were answered with it, by the candidate and by the stable version."""

    label: int
    rows: int
    correct: int
    stable_correct: int | None
    interval: Interval
    is_lost: bool

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON holds it."""
        return {
            "class": self.label,
            "rows": self.rows,
            "recall": self.correct / self.rows,
            "interval": [self.interval.low, self.interval.high],
            "stable_recall": None if self.stable_correct is None else self.stable_correct / self.rows,
            "lost": self.is_lost,
        }


def recall_by_class(
    labels: Array, predicted: Array, stable: Array | None, *, least: float, confidence: float
) -> list[ClassRecall]:
    """Return each class's recall, the worst first.

    A class is lost where the candidate clearly stays below `least` and stable clearly reaches it, both by
    Wilson's interval. What stable cannot do either is no loss.
    """
    found = []
    for label in np.unique(labels).tolist():
        of = labels == label
        rows, correct = int(of.sum()), int((predicted[of] == label).sum())
        interval = share_interval(correct, rows, confidence)
        theirs, is_lost = None, False
        if stable is not None:
            theirs = int((stable[of] == label).sum())
            could = share_interval(theirs, rows, confidence)
            is_lost = least > 0 and interval.high < least <= could.low
        found.append(ClassRecall(int(label), rows, correct, theirs, interval, is_lost))
    return sorted(found, key=lambda one: (not one.is_lost, one.correct / one.rows, -one.rows))


def lost_in_words(classes: Sequence[ClassRecall], least: float) -> str:
    """Say which classes are lost; empty if none is."""
    lost = [one for one in classes if one.is_lost]
    classes_lost = ", ".join(f"{one.label} ({one.correct} of {one.rows} rows)" for one in lost[:10])
    return (
        f"classes that the stable version recognizes have a recall below {least:.0%}: {classes_lost}"
        if lost
        else ""
    )
