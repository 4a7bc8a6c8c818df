"""What one output is of another: the class with the highest score, its name, the softmax, a share in percent.

Such a relation is looked for in the stable version's answers. A model that was trained again answers otherwise, but
keeps it; an output that was damaged alone does not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from slipway_core.gates.validation.intervals import share_interval
from slipway_core.gates.validation.other_outputs.alike import (
    as_keys,
    flat,
    is_class_like,
    one_a_row,
    rows_alike,
)
from slipway_core.gates.validation.scores import Array
from slipway_core.written_numbers import number

# In stable a relation holds in so many rows, and in the candidate it is lost where it clearly does in fewer.
HOLDS, LOST = 0.98, 0.9
_LEAST_ROWS = 3
# A table of classes is one where its classes come again.
_LEAST_REPEATS = 4
_CONFIDENCE = 0.95
# Of wider answers only equality is looked for.
_WIDEST = 16384
_RESIDUAL = 1e-4

Rule = Callable[[Array], Array]


@dataclass(frozen=True)
class Relation:
    """A relation that holds in stable's answers: in words, its share of the rows in both, and whether it is lost.

    :ivar determines: the output follows from what it is related to, so that nothing else needs to be asked of it.
    """

    words: str
    stable: float
    candidate: float
    lost: bool
    determines: bool

    def describe(self) -> str:
        """Say it with its figures."""
        return f"{self.words} in {self.candidate:.1%} of the rows, in the stable version in {self.stable:.1%}"


@dataclass(frozen=True)
class Pair:
    """The answers of both versions in one output (or an input, the same for both)."""

    name: str
    stable: Array
    candidate: Array


def relations(target: Pair, source: Pair, *, is_input: bool = False) -> Iterator[Relation]:
    """Yield each relation of `target` to `source` that holds in the stable version's answers.

    :param is_input: the source is an input: only an output that gives it back is related to it.
    """
    if len(target.stable) < _LEAST_ROWS or not _varies(target.stable):
        return
    if is_input or max(flat(target.stable).shape[1], flat(source.stable).shape[1]) > _WIDEST:
        yield from _holds(target, source, f"is the same as `{source.name}`", _same, _same, determines=True)
        return
    for words, rule in _FORWARD.items():
        yield from _holds(target, source, words.format(f"`{source.name}`"), rule, rule, determines=True)
    for words, (rule, determines) in _BACKWARD.items():
        said = f"`{source.name}` is {words.format('it')}"
        yield from _holds(source, target, said, rule, rule, determines=determines)
    yield from _line(target, source)
    yield from _table(target, source)


def _holds(
    target: Pair, source: Pair, words: str, of_stable: Rule, of_candidate: Rule, *, determines: bool
) -> Iterator[Relation]:
    try:
        with np.errstate(all="ignore"):
            stable = rows_alike(of_stable(source.stable), target.stable)
            if not len(stable) or stable.mean() < HOLDS:
                return
            candidate = rows_alike(of_candidate(source.candidate), target.candidate)
    except (ValueError, TypeError, IndexError, OverflowError):
        return  # not of a form that the rule is for
    held = int(candidate.sum())
    lost = len(candidate) != len(stable) or share_interval(held, len(candidate), _CONFIDENCE).high < LOST
    yield Relation(words, float(stable.mean()), float(candidate.mean()), lost, determines)


def _varies(values: Array) -> bool:
    return not bool(rows_alike(np.repeat(values[:1], len(values), axis=0), values).all())


def _scores(values: Array) -> Array:
    if values.ndim != 2 or values.shape[1] < 2 or values.dtype.kind != "f":
        raise ValueError("no scores")
    return values.astype(np.float64)


def _numbers(values: Array) -> Array:
    if values.dtype.kind not in "iuf":
        raise ValueError("no numbers")
    return values.astype(np.float64)


def _softmax(values: Array) -> Array:
    scores = _scores(values)
    powers = np.exp(scores - scores.max(axis=1, keepdims=True))
    return np.asarray(powers / powers.sum(axis=1, keepdims=True))


def _unit(values: Array) -> Array:
    scores = _scores(values)
    return np.asarray(scores / np.linalg.norm(scores, axis=1, keepdims=True))


def _entropy(values: Array) -> Array:
    scores = np.clip(_scores(values), 1e-12, None)
    return np.asarray(-(scores * np.log(scores)).sum(axis=1))


def _margin(values: Array) -> Array:
    ordered = np.sort(_scores(values), axis=1)
    return np.asarray(ordered[:, -1] - ordered[:, -2])


def _same(values: Array) -> Array:
    return values


_FORWARD: dict[str, Rule] = {
    "is the same as {}": _same,
    "is the class with the highest of {}": lambda one: _scores(one).argmax(axis=1),
    "is the class with the lowest of {}": lambda one: _scores(one).argmin(axis=1),
    "is the highest of {}": lambda one: _scores(one).max(axis=1),
    "is the lowest of {}": lambda one: _scores(one).min(axis=1),
    "is the sum of {}": lambda one: _scores(one).sum(axis=1),
    "is the mean of {}": lambda one: _scores(one).mean(axis=1),
    "is the distance of the two highest of {}": _margin,
    "is the entropy of {}": _entropy,
    "is {} in order, the highest first": lambda one: -np.sort(-_scores(one), axis=1),
    "is the order of {}, the highest first": lambda one: np.argsort(-_scores(one), axis=1, kind="stable"),
    "is the softmax of {}": _softmax,
    "is {} at length 1": _unit,
    "is the sigmoid of {}": lambda one: 1 / (1 + np.exp(-_numbers(one))),
    "is the logarithm of {}": lambda one: np.log(_numbers(one)),
    "is 1 less {}": lambda one: 1 - _numbers(one),
    "is whether {} is above 0.5": lambda one: (_numbers(one) > 0.5).astype(np.int64),
    "is whether {} is above 0": lambda one: (_numbers(one) > 0).astype(np.int64),
    "is {}, rounded": lambda one: np.round(_numbers(one)).astype(np.int64),
}
# Of what is scored, by the other output; whether that leaves anything open.
_BACKWARD: dict[str, tuple[Rule, bool]] = {
    "the softmax of {}": (_softmax, True),
    "the sigmoid of {}": (lambda one: 1 / (1 + np.exp(-_numbers(one))), True),
    "the logarithm of {}": (lambda one: np.log(_numbers(one)), True),
    "the class with the highest of {}": (lambda one: _scores(one).argmax(axis=1), False),
    "the highest of {}": (lambda one: _scores(one).max(axis=1), False),
    "{} at length 1": (_unit, False),
    "whether {} is above 0.5": (lambda one: (_numbers(one) > 0.5).astype(np.int64), False),
    "whether {} is above 0": (lambda one: (_numbers(one) > 0).astype(np.int64), False),
}


def _line(target: Pair, source: Pair) -> Iterator[Relation]:
    """Yield that one number is a line of another: a share in percent, another unit."""
    for values in (target.stable, source.stable):
        if values.dtype.kind not in "iuf" or not one_a_row(values) or len(np.unique(values)) < _LEAST_REPEATS:
            return
    x, y = source.stable.reshape(-1).astype(np.float64), target.stable.reshape(-1).astype(np.float64)
    if not (np.isfinite(x).all() and np.isfinite(y).all()) or not y.std() or not x.std():
        return
    slope, shift = np.polyfit(x, y, 1)
    if np.abs(slope * x + shift - y).max() > _RESIDUAL * y.std():
        return

    def rule(values: Array) -> Array:
        return np.asarray(slope * values.reshape(-1).astype(np.float64) + shift)

    moved = f" {'+' if shift > 0 else '-'}{number(abs(shift), 4)}" if abs(shift) > _RESIDUAL * y.std() else ""
    words = f"is {number(slope, 4)} times `{source.name}`{moved}"
    yield from _holds(target, source, words, rule, rule, determines=True)


def _table(target: Pair, source: Pair) -> Iterator[Relation]:
    """Yield that a value belongs to each class, such as its name, by the table that stable's answers make."""
    for classes, words in _classes(source.stable, source.candidate):
        table = table_of(classes[0], target.stable)
        if table is None or len(classes[0]) < _LEAST_REPEATS * len(table):
            continue
        yield from _holds_by(target, classes, table, f"is what belongs to {words.format(f'`{source.name}`')}")


def _holds_by(
    target: Pair, classes: tuple[Array, Array], table: dict[str, str], words: str
) -> Iterator[Relation]:
    stable = by_table(table, classes[0], target.stable)
    known = np.asarray([str(one) in table for one in classes[1].tolist()])
    if stable.mean() < HOLDS or not known.any():
        return
    candidate = by_table(table, classes[1], target.candidate)[known]
    lost = share_interval(int(candidate.sum()), len(candidate), _CONFIDENCE).high < LOST
    yield Relation(words, float(stable.mean()), float(candidate.mean()), lost, determines=True)


def _classes(stable: Array, candidate: Array) -> Iterator[tuple[tuple[Array, Array], str]]:
    if is_class_like(stable) and one_a_row(candidate):
        yield (as_keys(stable), as_keys(candidate)), "the class in {}"
    elif (
        stable.ndim == 2
        and stable.shape == candidate.shape
        and stable.shape[1] > 1
        and stable.dtype.kind == "f"
    ):
        yield (stable.argmax(axis=1), candidate.argmax(axis=1)), "the class with the highest of {}"


def table_of(classes: Array, values: Array) -> dict[str, str] | None:
    """Return for each class the value that most of its rows have; None if there are too many different values."""
    if not is_class_like(values) or len(values) != len(classes):
        return None
    found: dict[str, str] = {}
    keys = as_keys(values).astype(str)
    for one in np.unique(classes):
        several, counts = np.unique(keys[classes == one], return_counts=True)
        found[str(one)] = str(several[counts.argmax()])
    return found if len(set(found.values())) > 1 else None


def by_table(table: dict[str, str], classes: Array, values: Array) -> Array:
    """Return for each row whether its value is the one that the table has for its class."""
    if len(classes) != len(values) or not one_a_row(values):
        return np.zeros(len(classes), dtype=bool)
    keys = as_keys(values).astype(str)
    return np.asarray(
        [table.get(str(one)) == key for one, key in zip(classes.tolist(), keys.tolist(), strict=True)]
    )
