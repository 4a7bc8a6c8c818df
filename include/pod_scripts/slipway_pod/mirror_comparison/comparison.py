"""The comparison of two answers to one request, output by output."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from slipway_pod.models.protocol import Tensor
from slipway_pod.parity.outputs import plain


@dataclass(frozen=True)
class Difference:
    """One output that differs in one pair of answers; `severity` is in multiples of what is tolerated."""

    output: str
    kind: str
    stable: Any
    candidate: Any
    severity: tuple[float, float]
    index: tuple[int, ...] = ()
    elements: int = 0

    def to_json(self) -> dict[str, Any]:
        """Return the value as JSON holds it."""
        return {
            "output": self.output,
            "kind": self.kind,
            "stable": self.stable,
            "candidate": self.candidate,
            "index": list(self.index),
            "elements": self.elements,
        }


@dataclass(frozen=True)
class MirrorComparison:
    """One pair of answers: what differs, and for each row the two classes where the class output is there."""

    differences: tuple[Difference, ...]
    compared: tuple[str, ...]
    classes: tuple[tuple[Any, Any], ...] | None = None


def compare(
    stable: Mapping[str, Tensor],
    candidate: Mapping[str, Tensor],
    abs_tolerance: float,
    rel_tolerance: float,
    class_output: str | None,
) -> MirrorComparison:
    """Compare two answers to one request, output by output."""
    names = sorted(stable.keys() | candidate.keys())
    found = []
    for name in names:
        if name not in stable or name not in candidate:
            sides = ("there", "missing") if name in stable else ("missing", "there")
            found.append(Difference(name, "output", *sides, severity=(math.inf, math.inf)))
            continue
        difference = compare_tensors(name, stable[name], candidate[name], abs_tolerance, rel_tolerance)
        if difference is not None:
            found.append(difference)
    classes = None
    if class_output is not None and class_output in stable and class_output in candidate:
        before, after = classes_of(stable[class_output]), classes_of(candidate[class_output])
        if before is not None and after is not None and len(before) == len(after):
            classes = tuple(zip(before, after, strict=True))
    return MirrorComparison(tuple(found), tuple(names), classes)


def compare_tensors(
    name: str, stable: Tensor, candidate: Tensor, abs_tolerance: float, rel_tolerance: float
) -> Difference | None:
    """Return the difference of two outputs of one name: the element that is furthest beyond the tolerance.

    NaN agrees with NaN, an infinity with itself; text must be equal. Text is never shown, since it may be a user's.
    """
    import numpy as np

    worst = (math.inf, math.inf)
    if stable.datatype != candidate.datatype:
        return Difference(name, "datatype", stable.datatype, candidate.datatype, worst)
    if stable.shape != candidate.shape:
        return Difference(name, "shape", stable.shape, candidate.shape, worst)
    if stable.datatype == "BYTES":
        unlike = np.argwhere(stable.values != candidate.values)
        if not len(unlike):
            return None
        index = tuple(int(place) for place in unlike[0])
        return Difference(name, "text", "not shown", "not shown", worst, index, len(unlike))
    before, after = stable.values.astype(np.float64), candidate.values.astype(np.float64)
    with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
        same = (before == after) | (np.isnan(before) & np.isnan(after))
        distance = np.where(same, 0.0, np.nan_to_num(np.abs(before - after), nan=np.inf))
        allowed = np.nan_to_num(abs_tolerance + rel_tolerance * np.abs(before), posinf=0.0)
        beyond = ~same & ~(distance <= allowed)
        if not beyond.any():
            return None
        excess = np.where(beyond, np.where(allowed > 0, distance / allowed, np.inf), 0.0)
    # Among those that are equally far beyond, the one with the largest distance.
    place = int(np.lexsort((distance.reshape(-1), excess.reshape(-1)))[-1])
    index = tuple(int(one) for one in np.unravel_index(place, before.shape))
    severity = (float(excess.reshape(-1)[place]), float(distance.reshape(-1)[place]))
    shown = (plain(stable.values[index]), plain(candidate.values[index]))
    return Difference(name, "values", *shown, severity, index, int(beyond.sum()))


def classes_of(tensor: Tensor) -> list[Any] | None:
    """Return the class of each row: of scores (rows, classes) the place of the highest, of whole numbers (rows)
    themselves.

    None if it is no classification; -1 for a row with a score that is no finite number.
    """
    import numpy as np

    values = tensor.values
    if values.ndim == 0 or values.dtype.kind not in "iuf" or not values.size:
        return None
    flat = values.reshape(values.shape[0], -1)
    if values.dtype.kind in "iu" and flat.shape[1] == 1:
        return [int(one) for one in flat[:, 0]]
    if values.ndim != 2 or flat.shape[1] < 2:
        return None
    finite = np.isfinite(flat).all(axis=1)
    return [int(one) for one in np.where(finite, np.nan_to_num(flat).argmax(axis=1), -1)]
