"""The comparison of two answers to one request, output by output, and the counts over all requests."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from slipway_pod.mirror_comparison.answers import Answer, Tensor
from slipway_pod.mirror_comparison.requests import Request
from slipway_pod.models.latency import nearest_rank
from slipway_pod.parity.outputs import plain

CLASS_CHANGES_TOLD = 20


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
class Comparison:
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
) -> Comparison:
    """Compare two answers to one request, output by output."""
    names = sorted(stable.keys() | candidate.keys())
    found = []
    for name in names:
        if name not in stable or name not in candidate:
            told = ("there", "missing") if name in stable else ("missing", "there")
            found.append(Difference(name, "output", *told, severity=(math.inf, math.inf)))
            continue
        difference = compare_tensors(name, stable[name], candidate[name], abs_tolerance, rel_tolerance)
        if difference is not None:
            found.append(difference)
    classes = None
    if class_output is not None and class_output in stable and class_output in candidate:
        before, after = classes_of(stable[class_output]), classes_of(candidate[class_output])
        if before is not None and after is not None and len(before) == len(after):
            classes = tuple(zip(before, after, strict=True))
    return Comparison(tuple(found), tuple(names), classes)


def compare_tensors(
    name: str, stable: Tensor, candidate: Tensor, abs_tolerance: float, rel_tolerance: float
) -> Difference | None:
    """Return the difference of two outputs of one name, told by the element that is furthest beyond the tolerance.

    NaN agrees with NaN, an infinity with itself; text must be equal, and is not told, for it may be a user's.
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
        return Difference(name, "text", "not told", "not told", worst, index, len(unlike))
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

    None where it is no classification; -1 for a row with a score that is no finite number.
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


@dataclass
class Tally:
    """All pairs of answers so far, as the report tells them."""

    worst_kept: int
    counts: Counter[str] = field(default_factory=Counter)
    protocols: Counter[str] = field(default_factory=Counter)
    rows: Counter[str] = field(default_factory=Counter)
    failures: dict[str, Counter[str]] = field(
        default_factory=lambda: {"stable": Counter(), "candidate": Counter()}
    )
    latencies: dict[str, list[float]] = field(default_factory=lambda: {"stable": [], "candidate": []})
    outputs: dict[str, Counter[str]] = field(default_factory=dict)
    class_changes: Counter[tuple[Any, Any]] = field(default_factory=Counter)
    worst: dict[tuple[str, str], tuple[Difference, int]] = field(default_factory=dict)

    @property
    def judged(self) -> int:
        """Return the number of requests that stable answered: on these the candidate can be judged."""
        return self.counts["compared"] + self.counts["candidate_failed"]

    def add(self, request: Request, stable: Answer, candidate: Answer, comparison: Comparison | None) -> None:
        """Count one pair; the comparison is there where both answered."""
        for side, answer in (("stable", stable), ("candidate", candidate)):
            if answer.failure:
                self.failures[side][answer.failure] += 1
        if comparison is None:
            both = bool(stable.failure and candidate.failure)
            self.counts[
                "both_failed" if both else "stable_failed" if stable.failure else "candidate_failed"
            ] += 1
            return
        self.counts["compared"] += 1
        self.protocols[request.protocol] += 1
        # Of answers only: how long a failure takes says nothing about the model.
        self.latencies["stable"].append(stable.latency_ms)
        self.latencies["candidate"].append(candidate.latency_ms)
        self.counts["differ" if comparison.differences else "equal"] += 1
        for name in comparison.compared:
            self.outputs.setdefault(name, Counter())["compared"] += 1
        for difference in comparison.differences:
            self.outputs[difference.output]["differ"] += 1
            self._keep(request.digest, difference)
        if comparison.classes is not None:
            changes = [pair for pair in comparison.classes if pair[0] != pair[1]]
            self.counts["disagree" if changes else "agree"] += 1
            self.rows["compared"] += len(comparison.classes)
            self.rows["agree"] += len(comparison.classes) - len(changes)
            self.class_changes.update(changes)

    def _keep(self, digest: str, difference: Difference) -> None:
        """Keep the largest differences, each request's and output's once."""
        key = (digest, difference.output)
        known, times = self.worst.get(key, (difference, 0))
        self.worst[key] = (max(known, difference, key=lambda one: one.severity), times + 1)
        if len(self.worst) > self.worst_kept:
            del self.worst[min(self.worst, key=lambda one: self.worst[one][0].severity)]

    def to_json(self) -> dict[str, Any]:
        """Return the value as JSON holds it."""
        names = (
            "compared", "equal", "differ", "agree", "disagree", "candidate_failed", "stable_failed", "both_failed",
        )  # fmt: skip
        ordered = sorted(self.worst.items(), key=lambda one: one[1][0].severity, reverse=True)
        changes = self.class_changes.most_common(CLASS_CHANGES_TOLD)
        return {
            "counts": {name: self.counts[name] for name in names},
            "protocols": {name: self.protocols[name] for name in ("http", "grpc")},
            "rows": {name: self.rows[name] for name in ("compared", "agree")},
            "outputs": {
                name: {"compared": found["compared"], "differ": found["differ"]}
                for name, found in sorted(self.outputs.items())
            },
            "failures": {side: dict(found.most_common()) for side, found in self.failures.items()},
            "latency_ms": {side: quantiles(found) for side, found in self.latencies.items()},
            "class_changes": [
                {"stable": before, "candidate": after, "rows": rows} for (before, after), rows in changes
            ],
            "differences": [
                {"request": digest, **difference.to_json(), "times": times}
                for (digest, _), (difference, times) in ordered
            ],
        }


def quantiles(latencies_ms: Sequence[float]) -> dict[str, float] | None:
    """Average and nearest-rank percentiles in milliseconds; None where nothing was measured."""
    if not latencies_ms:
        return None
    ordered = sorted(latencies_ms)
    ranks = {f"p{percent}": nearest_rank(ordered, percent) for percent in (50, 90, 99)}
    return {name: round(value, 3) for name, value in {"avg": sum(ordered) / len(ordered), **ranks}.items()}
