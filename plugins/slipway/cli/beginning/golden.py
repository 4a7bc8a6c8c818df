"""A golden set with the right names, types and shapes, and no right answers yet."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from slipway.cli.beginning.made_up import Array, made_up, shape_of
from slipway.cli.beginning.proposal import Proposal
from slipway.cli.beginning.trial import Trial, answered
from slipway.cli.failures import CommandError, ExitCode
from slipway.cli.model_files.onnx_file import OnnxFile
from slipway_core.errors import SlipwayError
from slipway_core.gates.validation.golden_labels import LabelRules
from slipway_core.gates.validation.golden_set import golden_from_arrays
from slipway_core.spec.validation import Validation
from slipway_core.tensors import ModelSignature

ROWS = 32
_FEWEST_ROWS = 8
"""Enough for the gate to see whether all answers are the same."""
_MOST_MADE_UP_VALUES = 2**23
"""Without --rows: fewer of large rows, so that the file stays small."""
_MOST_LABEL_VALUES = 2**22
_MOST_BOXES = 100
_BOX_SCORE_MIN = 0.25
_SEED = 1
_LABELS = ("label", "expected", "golden_label")
_ANSWERING_LIMIT_S = 300.0


def label_name(signature: ModelSignature) -> str:
    """Return what the array of labels is called: no input may have that name."""
    inputs = {tensor.name for tensor in signature.inputs}
    return next(
        name
        for name in (*_LABELS, *(f"label_{number}" for number in range(len(inputs) + 1)))
        if name not in inputs
    )


def skeleton(model: OnnxFile, trial: Trial, chosen: Proposal, rows: int | None) -> dict[str, Array]:
    """Return the arrays: inputs of made-up values, always the same, and where the kind needs labels, 0 or empty texts.

    :param rows: how many; None: 32, or fewer of large ones. Made a multiple of what a request must have.
    :raises CommandError: the model has an input that no array can be made for.
    """
    number = rounded_rows(trial, rows if rows is not None else _fitting_rows(model, trial))
    random = np.random.default_rng(_SEED)
    arrays = made_up(model, trial.rows, number, trial.sizes, random)
    label = label_name(model.signature)
    # A name of its own is written into the release file, and what is named there must be in the golden set.
    rules = rules_of(chosen)
    if not rules.optional or label != _LABELS[0]:
        arrays[label] = rules.placeholder(number)
    require_taken(model, trial, chosen, arrays)
    return arrays


def require_taken(model: OnnxFile, trial: Trial, chosen: Proposal, arrays: dict[str, Array]) -> None:
    """Raise GoldenSetError unless the gate takes what is written."""
    golden_from_arrays(
        arrays,
        model.signature,
        label_name(model.signature),
        labelled=rules_of(chosen),
        row_axis=row_axes(model, trial, chosen),
    )


def row_axes(model: OnnxFile, trial: Trial, chosen: Proposal) -> dict[str, Any]:
    """Return `golden.row_axis`: each tensor whose rows do not lie on the first axis."""
    inputs = {name: axis for name, axis in trial.rows.axes.items() if axis not in (0, "none")}
    asked = (chosen.output, *(value for key, value in chosen.more.items() if key.endswith("_output")))
    outputs = {
        name: trial.seen[name].axis for name in asked if name in trial.seen and trial.seen[name].axis != 0
    }
    return inputs | outputs


def rows_in(arrays: dict[str, Array], trial: Trial) -> int:
    """Return how many rows the arrays have."""
    for name, axis in trial.rows.axes.items():
        if axis != "none":
            return int(arrays[name].shape[0 if axis == "request" else axis])
    return 1


def _fitting_rows(model: OnnxFile, trial: Trial) -> int:
    one = sum(
        math.prod(shape_of(tensor, trial.rows.axes[tensor.name], 1, trial.sizes))
        for tensor in model.signature.inputs
    )
    return max(_FEWEST_ROWS, min(ROWS, _MOST_MADE_UP_VALUES // max(one, 1)))


def rounded_rows(trial: Trial, rows: int) -> int:
    """Return the number of rows, as a multiple of what a request must have."""
    size = trial.rows.request_rows or 1
    return max(-(-rows // size), 1) * size


def rules_of(chosen: Proposal) -> LabelRules:
    """Return what the labels of the proposed kind of answers are."""
    rules: LabelRules = Validation.registry.get(chosen.kind).labels
    return rules


def answered_by_model(model: OnnxFile, trial: Trial, chosen: Proposal, arrays: dict[str, Array]) -> Array:
    """Return the model's own answers to the inputs, as labels of the kind that is chosen.

    :raises CommandError: it cannot be run here, or what it answers is no label for each row.
    """
    rows = rows_in(arrays, trial)
    try:
        answers = answered(model, trial, arrays, rows, chosen.output, _ANSWERING_LIMIT_S)
        other_answers = {
            key: answered(model, trial, arrays, rows, name, _ANSWERING_LIMIT_S)
            for key, name in chosen.more.items()
            if key.endswith("_output")
        }
        return _labels(chosen, answers, other_answers, rows)
    except SlipwayError as error:
        raise CommandError(
            f"the answers of {model.path.name} to made-up rows cannot serve as labels",
            code=ExitCode.USAGE,
            expected=f"one answer of the kind {chosen.kind} for each of the {rows} rows",
            found=f"{error.what}: {error.found}" if error.found else error.what,
            remedy="omit --labels-from-model, and put the true answers in yourself",
        ) from error


def _labels(chosen: Proposal, answers: Array, other_answers: dict[str, Array], rows: int) -> Array:
    if answers.dtype.kind == "f" and not np.isfinite(answers).all():
        raise CommandError("some answers are not finite")
    labels = _of_kind(chosen, answers, other_answers)
    if labels.ndim == 0 or labels.shape[0] != rows or labels.size > _MOST_LABEL_VALUES:
        raise CommandError(
            "the labels do not fit",
            found=f"{labels.size} values in {list(labels.shape)}, of at most {_MOST_LABEL_VALUES} for {rows} rows",
        )
    return labels


def _of_kind(chosen: Proposal, answers: Array, other_answers: dict[str, Array]) -> Array:
    kind, rows = chosen.kind, answers.shape[0]
    flat = answers.reshape(rows, -1)
    if kind == "classification":
        return np.asarray(flat.argmax(axis=1) if flat.shape[1] > 1 else flat[:, 0]).astype(np.int64)
    if kind in ("regression", "text"):
        if flat.shape[1] != 1:
            raise CommandError(f"{flat.shape[1]} values for each row")
        return flat[:, 0].astype("U" if kind == "text" else np.float64)
    if kind == "vectors":
        return flat.astype(np.float64)
    if kind == "segmentation":
        return _mask_of(answers)
    if kind == "detections":
        return _boxes_of(chosen, answers, other_answers)
    if chosen.is_probability:
        return np.asarray(answers >= 0.5, dtype=np.int64)
    # A scorer is given the best place of each list of scores: so many scores are no label that a person would write.
    if answers.ndim > 2 and answers.shape[-1] > 1 and answers.dtype.kind == "f":
        return np.asarray(answers.argmax(axis=-1), dtype=np.int64)
    return answers


def _mask_of(answers: Array) -> Array:
    if answers.ndim == 4 and answers.shape[1] > 1:
        return np.asarray(answers.argmax(axis=1), dtype=np.int64)
    layer = answers[:, 0] if answers.ndim == 4 else answers
    return np.asarray(layer >= 0.5 if layer.dtype.kind == "f" else layer, dtype=np.int64)


def _boxes_of(chosen: Proposal, answers: Array, other_answers: dict[str, Array]) -> Array:
    """Return the boxes with a score of their own that is high enough, the best first: corners and class."""
    rows = answers.shape[0]
    scores = (
        other_answers["scores_output"].reshape(rows, -1)
        if "scores_output" in other_answers
        else answers[:, :, 4]
    )
    if "classes_output" in other_answers:
        classes = other_answers["classes_output"].reshape(rows, -1)
    else:
        classes = answers[:, :, 5] if answers.shape[2] > 5 else np.zeros(scores.shape)
    labels = np.full((rows, min(max(answers.shape[1], 1), _MOST_BOXES), 5), np.nan)
    for row in range(rows):
        best = np.argsort(-scores[row], kind="stable")[: labels.shape[1]]
        kept = best[scores[row, best] >= _BOX_SCORE_MIN]
        labels[row, : len(kept), :4] = answers[row, kept, :4]
        labels[row, : len(kept), 4] = classes[row, kept]
    return labels
