"""The labels of a golden set and its slices: shapes and types, and what is wrong with them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

PARTS_LIMIT = 200
"""Into so many parts slices may divide a golden set."""


@dataclass(frozen=True)
class LabelRules:
    """What the labels of a kind of answers are.

    :ivar words: what they are called.
    :ivar types: the kinds of NumPy types that hold them.
    :ivar dimensions: how many they have.
    :ivar optional: whether the answers can be compared with the stable version's alone.
    :ivar padded: whether shorter lists are filled up with NaN.
    :ivar scored_as: the type that the scores reckon with; None: that of the golden set.
    """

    words: str
    types: str
    dimensions: tuple[int, ...] = (1,)
    optional: bool = False
    padded: bool = False
    scored_as: type[np.generic] | None = np.float64

    @property
    def one_a_row(self) -> bool:
        """Return whether a row has one label."""
        return self.dimensions == (1,)

    def in_words(self) -> str:
        """Return what the labels are, in words."""
        return f"{self.words} [rows]" if self.one_a_row else self.words

    def problems(self, name: str, labels: Array) -> list[str]:
        """Return what is wrong with the array `name` of labels, in words."""
        if labels.ndim not in self.dimensions:
            shape = "[rows]" if self.one_a_row else self.words
            return [f"`{name}` has shape {list(labels.shape)}, not {shape}"]
        if labels.dtype.kind not in self.types:
            return [f"`{name}` holds {labels.dtype}, not {self.words}"]
        if misfit := self.misfit(labels):
            return [f"`{name}` {misfit}, not {self.words}"]
        if labels.dtype.kind == "f" and not self.padded and not np.isfinite(labels).all():
            return [f"`{name}` holds values that are not finite"]
        return [] if labels.shape[0] else [f"`{name}` has no rows"]

    def misfit(self, labels: Array) -> str:
        """Return what else does not fit labels of a right type and number of dimensions; empty if all does."""
        return ""

    def in_type(self, labels: Array) -> Array:
        """Return the labels in the type that the scores reckon with."""
        return labels if self.scored_as is None else labels.astype(self.scored_as)

    def placeholder(self, rows: int) -> Array:
        """Return labels that a person has yet to replace by the right ones."""
        return np.zeros(rows, dtype=self.scored_as or np.int64)


CLASS_LABELS = LabelRules("whole numbers", "iu", scored_as=np.int64)
"""A class for each row."""


def slice_problems(slices: Mapping[str, Array], rows: int | None) -> list[str]:
    """Return what is wrong with the arrays that say to which part of the data a row belongs, in words."""
    problems = []
    for name, values in slices.items():
        if values.ndim != 1 or (rows is not None and values.shape[0] != rows):
            problems.append(f"the slices `{name}` have shape {list(values.shape)}, not [rows]")
        elif values.dtype.kind not in "biuSU":
            problems.append(f"the slices `{name}` hold {values.dtype}, not whole numbers or texts")
        elif len(np.unique(values)) > PARTS_LIMIT:
            problems.append(f"the slices `{name}` have more than {PARTS_LIMIT} parts")
    return problems
