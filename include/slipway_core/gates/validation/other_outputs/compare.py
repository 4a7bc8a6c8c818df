"""Holds every output that is not scored against the stable version's answers to the same golden rows.

In this order: NaN, equality, what the output is of one that is looked at already, what it has to do
with the labels, its form, and last a measure by its kind. What none of these fits is named.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from slipway_core.gates.validation.golden_set import GoldenSet
from slipway_core.gates.validation.intervals import mean_interval, share_interval
from slipway_core.gates.validation.other_outputs.alike import (
    flat,
    is_class_like,
    one_a_row,
    rows_alike,
)
from slipway_core.gates.validation.other_outputs.form import lost_form
from slipway_core.gates.validation.other_outputs.measures import LEAST_ROWS, MEASURES
from slipway_core.gates.validation.other_outputs.relations import (
    Pair,
    Relation,
    by_table,
    relations,
    table_of,
)
from slipway_core.gates.validation.other_outputs.result import OutputAnswers, OutputResult, Status
from slipway_core.gates.validation.scores import Array
from slipway_core.spec.validation import Validation

# Of the share of rows that go with the golden label: what an output must have in stable, and may clearly lose.
_LABEL_GAIN, _LABEL_LOSS = 0.2, 0.1
_MOST_ROWS = 2048


@dataclass(frozen=True)
class _Case:
    """All answers of both versions, cut to the rows that are compared."""

    golden: GoldenSet
    validation: Validation
    targets: Mapping[str, Pair]
    scored: Mapping[str, Pair]
    inputs: Mapping[str, Pair]


def compare_outputs(
    golden: GoldenSet,
    candidate: OutputAnswers,
    stable: OutputAnswers | None,
    validation: Validation,
    not_compared: str = "",
) -> tuple[OutputResult, ...]:
    """Return what was found of each output of the candidate that is not scored, by its name.

    :param stable: None if no stable version was asked.
    :param not_compared: why not, where one is live.
    """
    asked = validation.other_outputs
    names = sorted({*candidate.others, *candidate.unread})
    found: dict[str, OutputResult] = {}
    for name in names:
        why = ""
        if asked.policy == "off" or name in asked.ignore:
            why = "the release file leaves it out (`validation.other_outputs`)"
        elif name in candidate.unread:
            why = candidate.unread[name]
        elif broken := _not_finite(
            candidate.others[name], None if stable is None else stable.others.get(name)
        ):
            found[name] = OutputResult(name, _by_policy("fail", validation), "finite", broken)
            continue
        elif stable is None:
            why = not_compared or "no version is live to compare it with"
        elif name not in stable.others:
            why = stable.unread.get(name, "the stable version has no such output")
        if why:
            found[name] = OutputResult(name, "not_looked_at", "", why)
    if stable is not None:
        left = [name for name in names if name not in found]
        found |= _compared(_case(golden, candidate, stable, validation, left))
    return tuple(found[name] for name in names)


def _case(
    golden: GoldenSet,
    candidate: OutputAnswers,
    stable: OutputAnswers,
    validation: Validation,
    names: list[str],
) -> _Case:
    def pairs(mine: Mapping[str, Array], theirs: Mapping[str, Array]) -> dict[str, Pair]:
        return {
            name: Pair(name, theirs[name][:_MOST_ROWS], mine[name][:_MOST_ROWS])
            for name in mine
            if name in theirs and len(theirs[name]) == len(mine[name]) == golden.rows
        }

    columns = {name: one for name, one in golden.columns().items() if name not in candidate.scored}
    return _Case(
        golden,
        validation,
        {
            name: Pair(name, stable.others[name][:_MOST_ROWS], candidate.others[name][:_MOST_ROWS])
            for name in names
        },
        pairs(candidate.scored, stable.scored),
        pairs(columns, columns),
    )


def _compared(case: _Case) -> dict[str, OutputResult]:
    """Look at the outputs that are tied to what is looked at already, then at the rest by itself."""
    found: dict[str, OutputResult] = {}
    known = dict(case.scored)
    while True:
        tied = {
            name: result for name in case.targets if name not in found if (result := _tied(case, name, known))
        }
        if not tied:
            break
        found |= tied
        known |= {name: case.targets[name] for name, one in tied.items() if one.status == "pass"}
    for name in case.targets:
        if name not in found:
            found[name] = _alone(
                case, name, [one for one in case.targets if one not in found and one != name]
            )
    return found


def _tied(case: _Case, name: str, known: Mapping[str, Pair]) -> OutputResult | None:
    """Return what equality and the relations to known outputs decide; None if they leave it open."""
    target = case.targets[name]
    if (
        target.stable.shape[0] != target.candidate.shape[0]
        or target.stable.dtype.kind != target.candidate.dtype.kind
    ):
        return _result(
            case, name, "fail", "form", f"it is {_form(target.candidate)}, stable's {_form(target.stable)}"
        )
    same = rows_alike(target.stable, target.candidate)
    if len(same) and same.all():
        return _result(case, name, "pass", "equality", "every row has stable's answer")
    held = [*_relations(target, known.values()), *_relations(target, case.inputs.values(), is_input=True)]
    lost = [one for one in held if one.lost]
    if lost:
        return _result(case, name, "fail", "relation", lost[0].describe())
    kept = next((one for one in held if one.determines), None)
    return None if kept is None else _result(case, name, "pass", "relation", kept.describe())


def _relations(target: Pair, sources: Iterable[Pair], *, is_input: bool = False) -> Iterator[Relation]:
    for source in sources:
        yield from relations(target, source, is_input=is_input)


def _alone(case: _Case, name: str, others: list[str]) -> OutputResult:
    """Return what the labels, the form and the measure of its kind say of an output that nothing known ties."""
    target = case.targets[name]
    lost = next((one for other in others for one in relations(target, case.targets[other]) if one.lost), None)
    if lost is not None:
        return _result(case, name, "fail", "relation", lost.describe())
    by_label = _label_loss(case, target)
    if by_label:
        return _result(case, name, "fail", "labels", by_label)
    if broken := lost_form(target.stable, target.candidate):
        return _result(case, name, "fail", "form", broken)
    kind = _kind(target)
    if not kind:
        summary = f"no measure fits {_form(target.candidate)}, stable's {_form(target.stable)}"
        return OutputResult(name, "not_looked_at", "", summary)
    if len(target.stable) < LEAST_ROWS:
        summary = f"{len(target.stable)} golden rows are too few to judge what training changed"
        return OutputResult(name, "not_looked_at", "", summary)
    asked = case.validation.other_outputs.agreement_min
    least = case.validation.agreement_min if asked is None else asked
    if _same_model(case):
        alike = rows_alike(target.stable, target.candidate)
        if share_interval(int(alike.sum()), len(alike), case.validation.confidence).high < least:
            summary = f"{alike.mean():.1%} of the rows have stable's answer, but the scored output has it in every row"
            return _result(case, name, "fail", "equality", summary)
    measured = MEASURES[kind](target.stable, target.candidate, least)
    return _result(case, name, measured.status, measured.measure, measured.summary)


def _same_model(case: _Case) -> bool:
    """Return whether what is scored is stable's to the last digits: nothing was trained, so nothing else may differ."""
    return bool(case.scored) and all(
        one.stable.dtype.kind == "f"
        and one.stable.shape == one.candidate.shape
        and len(np.unique(one.stable)) >= LEAST_ROWS
        and bool(np.allclose(one.stable, one.candidate, rtol=1e-5, atol=1e-7, equal_nan=True))
        for one in case.scored.values()
    )


def _kind(target: Pair) -> str:
    """Return which measure fits both versions' answers; empty for none."""
    both = (target.stable, target.candidate)
    if all(one.dtype.kind in "iubOSU" and one_a_row(one) for one in both) and is_class_like(target.stable):
        return "classes"
    if all(one.dtype.kind in "OSU" and one_a_row(one) for one in both):
        return "texts"
    is_numbers = all(one.dtype.kind in "iubf" and one.size and np.isfinite(one).all() for one in both)
    return "numbers" if is_numbers and flat(both[0]).shape == flat(both[1]).shape else ""


def _label_loss(case: _Case, target: Pair) -> str:
    """Say where an output goes with the golden labels in the stable version, and clearly does so less often now."""
    labels = case.golden.labels
    if not case.golden.has_labels or labels.ndim != 1 or labels.dtype.kind not in "iuO":
        return ""
    stable, candidate = _as_classes(target.stable, labels), _as_classes(target.candidate, labels)
    labels = labels[: len(stable)]
    table = table_of(labels, stable)
    if table is None or len(labels) < 2 * len(table) or len(stable) != len(candidate):
        return ""
    before, after = by_table(table, labels, stable), by_table(table, labels, candidate)
    _, counts = np.unique(stable.astype(str), return_counts=True)
    loss = mean_interval((before.astype(float) - after.astype(float)).tolist(), case.validation.confidence)
    if before.mean() < counts.max() / len(stable) + _LABEL_GAIN or loss is None or loss.low <= _LABEL_LOSS:
        return ""
    return f"{after.mean():.1%} of the rows go with the golden label, of the stable version's {before.mean():.1%}"


def _as_classes(values: Array, labels: Array) -> Array:
    """Return the class with the highest score where there is a score for each class of the labels."""
    is_scores = (
        values.ndim == 2 and values.dtype.kind == "f" and labels.dtype.kind in "iu" and values.shape[1] > 1
    )
    if is_scores and values.shape[1] == int(labels.max()) + 1:
        return np.asarray(values.argmax(axis=1))
    return values


def _not_finite(candidate: Array, stable: Array | None) -> str:
    """Say how many rows hold what isn't a number, where stable's are all numbers; lists may end with NaN in both."""
    if candidate.dtype.kind != "f" or not candidate.size:
        return ""
    wrong = np.asarray(~np.isfinite(flat(candidate)).all(axis=1))
    usual = stable is None or stable.dtype.kind != "f" or bool(np.isfinite(stable).all())
    padded = stable is None and bool(np.isfinite(flat(candidate)[:, 0]).all())
    return (
        f"{int(wrong.sum())} of {len(wrong)} rows hold NaN or an infinity"
        if wrong.any() and usual and not padded
        else ""
    )


def _result(case: _Case, name: str, status: Status, measure: str, summary: str) -> OutputResult:
    return OutputResult(name, _by_policy(status, case.validation), measure, summary)


def _by_policy(status: Status, validation: Validation) -> Status:
    return "warn" if status == "fail" and validation.other_outputs.policy == "warn" else status


def _form(values: Array) -> str:
    return f"{values.dtype} {list(values.shape)}"
