"""Validation of segmentation: the intersection over union of each class of pixels, with the labels and with stable."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np

from slipway_core.errors import GoldenSetError
from slipway_core.gates.validation.golden_labels import LabelRules
from slipway_core.gates.validation.golden_set import GoldenSet
from slipway_core.gates.validation.kind import ExamplesTable, ValidationKind, validation_kind
from slipway_core.gates.validation.measured import Measure, MeasuredScores, columns_of
from slipway_core.gates.validation.scores import (
    WORST_EXAMPLES,
    Array,
    mean,
    no_answers_of_this_kind,
    number,
    require_rows,
)
from slipway_core.spec.parts import Share, Text


class _MaskLabels(LabelRules):
    def placeholder(self, rows: int) -> Array:
        return np.zeros((rows, 1, 1), dtype=np.int64)


@validation_kind
class SegmentationValidation(ValidationKind):
    """The model tells the class of each pixel. Labels may be left out."""

    labels: ClassVar[LabelRules] = _MaskLabels(
        "classes [rows, height, width]", "iu", (3,), optional=True, scored_as=np.int64
    )
    examples: ClassVar[ExamplesTable] = ExamplesTable(
        "The masks least like the labels, else least like the stable version's.",
        (
            ("Golden row#", "row"),
            ("IoU with the label#", "iou"),
            ("Right pixels#", "pixel_accuracy"),
            ("IoU with stable#", "agrees"),
        ),
    )
    first_limits: ClassVar[tuple[str, ...]] = ("iou_min: 0.5 # mean intersection over union with the labels",)

    kind: Literal["segmentation"] = "segmentation"
    label: Text = "label"
    """The class of each pixel (rows x height x width). It may be missing."""
    output: Text = "masks"
    """The output that holds scores (rows x classes x height x width), classes (rows x height x width), or the
    probability of one class (rows x 1 x height x width).
    """
    ignore_label: int | None = None
    """Pixels with this label are not looked at, such as 255."""
    iou_min: Share = 0.5
    """Mean over the rows of the mean intersection over union of the classes that label or answer show."""

    def score(self, golden: GoldenSet, answers: Array, stable_answers: Array | None) -> SegmentationScores:
        """Score the answers, as `score_segmentation` says."""
        return score_segmentation(golden, answers, stable_answers, self)


@dataclass(frozen=True, kw_only=True)
class SegmentationScores(MeasuredScores):
    """The columns are finite, iou and pixel_accuracy if there are labels, agrees if there is a stable version."""


def score_segmentation(
    golden: GoldenSet, answers: Array, stable_answers: Array | None, validation: SegmentationValidation
) -> SegmentationScores:
    """Score the masks of all golden rows.

    :raises ValidationRefusedError: rows are missing.
    :raises SpecError: the output cannot be masks.
    :raises GoldenSetError: the labels are of another size.
    """
    masks, finite = _masks(answers, golden.rows)
    measures: list[Measure] = []
    if golden.has_labels:
        if masks.shape != golden.labels.shape:
            raise GoldenSetError(
                "the labels are not as large as the model's masks",
                expected=f"labels of shape {list(masks.shape)}",
                found=str(list(golden.labels.shape)),
                remedy="Write the labels in the size of the model's output.",
            )
        looked_at = np.ones(masks.shape, dtype=bool)
        if validation.ignore_label is not None:
            looked_at = golden.labels != validation.ignore_label
        measures += [
            Measure(
                column="iou",
                caption="Mean intersection over union",
                values=_mean_iou(masks, golden.labels, looked_at),
                least=validation.iou_min,
                meaning=f"the mean intersection over union with the labels is at least {validation.iou_min:.1%}",
            ),
            Measure(
                column="pixel_accuracy",
                caption="Pixels with the right class",
                values=_pixel_accuracy(masks, golden.labels, looked_at),
                least=0.0,
                meaning="how many pixels have the right class (for information; no limit)",
            ),
        ]
    if stable_answers is not None:
        stable, _ = _masks(stable_answers, golden.rows)
        whole = np.ones(masks.shape, dtype=bool)
        same = stable.shape == masks.shape
        measures.append(
            Measure(
                column="agrees",
                caption="Mean intersection over union with the stable version",
                values=_mean_iou(masks, stable, whole) if same else np.zeros(golden.rows),
                least=validation.agreement_min,
                meaning="the mean intersection over union with the stable version's masks is at least "
                f"{validation.agreement_min:.1%}",
            )
        )
    agrees = next((one.values for one in measures if one.column == "agrees"), None)
    return SegmentationScores(
        rows=golden.rows,
        agreement=None if agrees is None else mean(agrees),
        columns=columns_of(measures, finite),
        worst=_worst(measures),
        measures=tuple(measures),
        validation=validation,
        not_finite_rows=int((~finite).sum()),
    )


def _masks(answers: Array, rows: int) -> tuple[Array, Array]:
    """Return the class of each pixel (rows, height, width), and which rows are finite."""
    require_rows(answers, rows)
    if answers.dtype.kind not in "iuf" or answers.ndim not in (3, 4):
        expected = "[rows, classes, height, width] or [rows, height, width]"
        raise no_answers_of_this_kind("segmentation", expected, answers)
    finite: Array = np.asarray(np.isfinite(answers.astype(np.float64)).reshape(rows, -1).all(axis=1))
    known = np.nan_to_num(answers) if answers.dtype.kind == "f" else answers
    if answers.ndim == 4 and answers.shape[1] > 1:
        return known.argmax(axis=1), finite
    flat = known[:, 0] if answers.ndim == 4 else known
    return (flat >= 0.5).astype(np.int64) if flat.dtype.kind == "f" else flat.astype(np.int64), finite


def _mean_iou(masks: Array, others: Array, looked_at: Array) -> Array:
    """Return for each row the mean over the classes that either shows; NaN where no pixel is looked at."""
    found = np.full(len(masks), np.nan)
    for row, (mask, other, seen) in enumerate(zip(masks, others, looked_at, strict=True)):
        one, two = mask[seen], other[seen]
        classes = np.union1d(one, two)
        shares = [
            ((one == value) & (two == value)).sum() / ((one == value) | (two == value)).sum()
            for value in classes
        ]
        if shares:
            found[row] = float(np.mean(shares))
    return found


def _pixel_accuracy(masks: Array, labels: Array, looked_at: Array) -> Array:
    right = ((masks == labels) & looked_at).reshape(len(masks), -1).sum(axis=1)
    pixels = looked_at.reshape(len(masks), -1).sum(axis=1)
    return np.where(pixels > 0, right / np.maximum(pixels, 1), np.nan)


def _worst(measures: list[Measure]) -> tuple[dict[str, Any], ...]:
    """Show the rows with the least intersection over union."""
    by = {one.column: one.values for one in measures}
    shown = by.get("iou", by.get("agrees"))
    if shown is None:
        return ()
    order = np.argsort(shown, kind="stable")[:WORST_EXAMPLES].tolist()
    names = ("iou", "pixel_accuracy", "agrees")
    return tuple(
        {"row": row, **{name: number(by[name][row]) if name in by else None for name in names}}
        for row in order
        if shown[row] < 1
    )
