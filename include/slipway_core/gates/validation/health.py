"""Output health: what no good model's answers are, whatever their kind, and what they must not depend on."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

import numpy as np

from slipway_core.gates.validation.golden_set import GoldenSet
from slipway_core.gates.validation.kind import kind_of
from slipway_core.gates.validation.scores import Array
from slipway_core.spec.validation import OutputHealth, Policy, Validation

Status = Literal["pass", "fail", "warn"]

_LEAST_ROWS = 8
_SATURATED = 0.99
_SUM_TOLERANCE = 1e-2
_WIDEST_SUM_TOLERANCE = 0.5
# Seven bits and more for 0 to 1, and less than what single precision tells apart there.
_COARSEST_STEP, _FINEST_STEP = 1 / 100, 1e-5
# In steps: what single precision makes of some hundred of them.
_OFF_STEP = 0.02
_HALF_MAX = 65504.0
_ASKED_TWICE = 2
_LEAST_TOGETHER = 2
_WORDS = {
    "deterministic": (
        "the same request got another answer the second time",
        "a repeated request gets the same answer",
    ),
    "batch_invariant": (
        "a row is answered otherwise in a batch than alone",
        "a row is answered alone as in a batch",
    ),
}


@dataclass(frozen=True)
class HealthCheck:
    """One check: its status by the release file's policy, and what was seen, in words."""

    name: str
    status: Status
    summary: str

    def to_dict(self) -> dict[str, str]:
        """Return it as JSON holds it."""
        return {"check": self.name, "status": self.status, "summary": self.summary}

    @classmethod
    def from_dict(cls, value: Mapping[str, str]) -> HealthCheck:
        """Return what `to_dict` made; an unknown status fails."""
        known: dict[str, Status] = {"pass": "pass", "warn": "warn"}
        return cls(value["check"], known.get(value["status"], "fail"), value["summary"])


@dataclass(frozen=True)
class Probe:
    """Some golden rows asked again, by output an answer for each row: alone, the first few once more, all in batches.

    :ivar together: None if no request has several rows.
    """

    alone: Mapping[str, Sequence[Array]]
    again: Mapping[str, Sequence[Array]]
    together: Mapping[str, Sequence[Array]] | None


def rows_to_probe(wanted: int, rows: int, request_rows: int | None) -> range:
    """Return the golden rows that are asked again: whole requests, where a request must have so many rows.

    :param wanted: `probe_rows` of the release file.
    :param rows: how many rows the golden set has.
    """
    step = request_rows or 1
    return range(min(max(step, wanted - wanted % step), rows))


def probe_of(
    ask: Callable[[Sequence[int]], Mapping[str, Array]],
    rows: Sequence[int],
    request_rows: int | None,
    batch: int,
) -> Probe:
    """Ask some golden rows again: each alone, and all of them in requests of several rows.

    :param ask: answers a request for these rows, by output and rows first.
    :param request_rows: how many rows a request must have; None: any number.
    :param batch: the most rows of a request.
    """
    requests = _requests(rows, request_rows or 1)
    alone = _by_row([ask(request) for request in requests])
    again = _by_row([ask(request) for request in requests[:_ASKED_TWICE]])
    if request_rows is not None or min(batch, len(rows)) < _LEAST_TOGETHER:
        return Probe(alone, again, None)
    return Probe(alone, again, _by_row([ask(request) for request in _together(rows, batch)]))


def _requests(rows: Sequence[int], size: int) -> list[Sequence[int]]:
    return [rows[start : start + size] for start in range(0, len(rows), size)]


def _together(rows: Sequence[int], batch: int) -> list[Sequence[int]]:
    """Return requests of nearly the same size, at most `batch`, so that no row is left alone among several."""
    number = -(-len(rows) // batch)
    ends = [round(len(rows) * part / number) for part in range(number + 1)]
    return [rows[start:end] for start, end in pairwise(ends)]


def _by_row(answers: Sequence[Mapping[str, Array]]) -> dict[str, list[Array]]:
    return {name: [row for one in answers for row in one[name]] for name in answers[0]}


def health_of(
    golden: GoldenSet,
    answers: Array,
    stable_answers: Array | None,
    validation: Validation,
    probe: Probe | None = None,
) -> tuple[HealthCheck, ...]:
    """Return every check that is asked and that the answers are of a kind for.

    :param answers: a row for each golden row.
    :param probe: None if nothing was asked again.
    """
    asked, tells_classes = validation.health, validation.tells_classes
    found: list[HealthCheck | None] = [
        _empty(answers, asked.empty),
        _constant(golden, answers, asked.constant),
    ]
    if answers.dtype.kind == "f" and answers.size:
        found += [
            _finite(answers, asked.finite, padded=kind_of(validation).pads_answers),
            _saturated(answers, asked.saturation, is_score=tells_classes),
        ]
        if tells_classes:
            found.append(_sums(answers, stable_answers, asked.probability_sums))
    if probe is not None:
        found.append(_alike("deterministic", asked.deterministic, probe.alone, probe.again, asked))
        if probe.together is not None:
            found.append(
                _alike(
                    "batch_invariant",
                    asked.batch_invariant,
                    probe.alone,
                    probe.together,
                    asked,
                    asked.batch_abs_tolerance,
                )
            )
    return tuple(one for one in found if one is not None)


def _check(name: str, policy: Policy, bad: str, good: str) -> HealthCheck | None:
    if policy == "off":
        return None
    return HealthCheck(name, policy if bad else "pass", bad or good)


def _empty(answers: Array, policy: Policy) -> HealthCheck | None:
    bad = (
        f"the answers have the shape {list(answers.shape)}: there is nothing in them"
        if not answers.size
        else ""
    )
    return _check("empty", policy, bad, "no answer is empty")


def _finite(answers: Array, policy: Policy, *, padded: bool) -> HealthCheck | None:
    rows = answers.reshape(len(answers), -1)
    wrong = np.isinf(rows) if padded else ~np.isfinite(rows)
    count = int(wrong.any(axis=1).sum())
    bad = f"{count} of {len(rows)} rows hold NaN or an infinity" if count else ""
    return _check("finite", policy, bad, "every number is finite")


def _constant(golden: GoldenSet, answers: Array, policy: Policy) -> HealthCheck | None:
    """Answers to different inputs are not all the same; of whole numbers only where the labels differ as well."""
    rows = len(answers)
    inputs = [one for one in golden.columns().values() if len(one) == rows]
    if rows < _LEAST_ROWS or not any(_differ(one) for one in inputs):
        return None
    if answers.dtype.kind in "iub" and not (golden.has_labels and _differ(golden.labels)):
        return None
    bad = "" if _differ(answers) else f"all {rows} rows, with different inputs, got the same answer"
    return _check("constant", policy, bad, "different inputs get different answers")


def _differ(values: Array) -> bool:
    if values.dtype.kind == "O":
        return len({str(one) for one in values.reshape(len(values), -1).tolist()}) > 1
    if values.dtype.kind == "f":
        return not np.array_equal(values, np.broadcast_to(values[:1], values.shape), equal_nan=True)
    return not np.array_equal(values, np.broadcast_to(values[:1], values.shape))


def _saturated(answers: Array, policy: Policy, *, is_score: bool) -> HealthCheck | None:
    size = np.abs(answers)
    at_limit = np.isclose(size, _HALF_MAX, rtol=1e-3)
    if is_score and answers.ndim == 2 and size.max(initial=0.0) <= 1.0:
        at_limit = at_limit | (answers == 0.0) | (answers == 1.0)
    share = float(at_limit.mean())
    bad = f"{share:.1%} of the numbers are at a limit of their range" if share >= _SATURATED else ""
    return _check("saturation", policy, bad, "the numbers are not at the limits of their range")


def _sums(answers: Array, stable: Array | None, policy: Policy) -> HealthCheck | None:
    if answers.ndim != 2 or answers.shape[1] < 2:
        return None
    expects = _sums_to_one(answers).mean() > 0.5 or (
        stable is not None and stable.shape == answers.shape and _sums_to_one(stable).all()
    )
    if not expects:
        return None
    wrong = int((~_sums_to_one(answers, _rounded_sum_tolerance(answers))).sum())
    bad = f"the scores of {wrong} of {len(answers)} rows are not probabilities that sum to 1" if wrong else ""
    return _check("probability_sums", policy, bad, "the scores of every row sum to 1")


def _sums_to_one(scores: Array, tolerance: float = _SUM_TOLERANCE) -> Array:
    numbers = scores.astype(np.float64)
    with np.errstate(invalid="ignore"):
        near = np.abs(numbers.sum(axis=1) - 1.0) <= tolerance
        return np.asarray(
            near & (numbers >= -_SUM_TOLERANCE).all(axis=1) & (numbers <= 1 + _SUM_TOLERANCE).all(axis=1)
        )


def _rounded_sum_tolerance(scores: Array) -> float:
    """Return how far from 1 the sum of a row may be: more where the scores are rounded to steps, as int8 rounds them.

    Each score may be half a step off, and the largest one be cut by a step.
    """
    found = np.unique(scores[np.isfinite(scores)].astype(np.float64))
    gaps = np.diff(found)
    gaps = gaps[gaps > _FINEST_STEP]
    if not gaps.size or gaps.min() > _COARSEST_STEP:
        return _SUM_TOLERANCE
    step = float(gaps.min())
    if np.abs(found / step - np.round(found / step)).max() > _OFF_STEP:
        return _SUM_TOLERANCE
    return float(np.clip(step * (1 + scores.shape[1] / 2), _SUM_TOLERANCE, _WIDEST_SUM_TOLERANCE))


def _alike(
    name: str,
    policy: Policy,
    one: Mapping[str, Sequence[Array]],
    other: Mapping[str, Sequence[Array]],
    asked: OutputHealth,
    abs_tolerance: float | None = None,
) -> HealthCheck | None:
    allowed = asked.abs_tolerance if abs_tolerance is None else abs_tolerance
    unlike = [
        output
        for output, rows in one.items()
        if not _rows_alike(rows, other.get(output, ()), allowed, asked.rel_tolerance, name)
    ]
    bad, good = _WORDS[name]
    outputs = ", ".join(f"`{output}`" for output in unlike)
    return _check(name, policy, f"{bad}, in {outputs}" if unlike else "", good)


def _rows_alike(
    rows: Sequence[Array], others: Sequence[Array], abs_tolerance: float, rel_tolerance: float, check: str
) -> bool:
    """Return whether rows were answered alike: the first ones again, all of them together; no answer is like none."""
    compared = len(rows) if check == "batch_invariant" else min(len(rows), len(others))
    if not compared or len(others) != compared:
        return False
    return all(
        _near(mine, theirs, abs_tolerance, rel_tolerance)
        for mine, theirs in zip(rows[:compared], others, strict=True)
    )


def _near(one: Array, other: Array, abs_tolerance: float, rel_tolerance: float) -> bool:
    one, other = _same_length(one, other)
    if one.shape != other.shape:
        return False
    if one.dtype.kind != "f" or other.dtype.kind != "f":
        return bool(np.array_equal(one, other))
    return bool(np.allclose(one, other, rtol=rel_tolerance, atol=abs_tolerance, equal_nan=True))


def _same_length(one: Array, other: Array) -> tuple[Array, Array]:
    """Return two lists without what fills up one of them to the longest of its batch: one value, repeated."""
    if one.ndim != other.ndim or not one.ndim or one.shape[1:] != other.shape[1:]:
        return one, other
    shorter = min(len(one), len(other))
    rest = one[shorter:] if len(one) > shorter else other[shorter:]
    return (one[:shorter], other[:shorter]) if _is_padding(rest) else (one, other)


def _is_padding(values: Array) -> bool:
    """Return whether all of it is one value; of nothing there is nothing to cut."""
    flat = values.reshape(-1)
    if flat.dtype.kind == "f":
        return bool(np.isnan(flat).all() or (flat == flat[:1]).all())
    return bool((flat == flat[:1]).all())
