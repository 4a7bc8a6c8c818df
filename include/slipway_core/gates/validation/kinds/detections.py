"""Validation of detected objects: mean average precision against labelled boxes, and the same objects as stable finds.

The average precision of a class is the area under precision over recall, precision made falling (VOC 2010 and later);
boxes of an image are matched by their scores, best first, each label once (Everingham et al. 2010).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import Field

from slipway_core.gates.validation.golden_labels import LabelRules
from slipway_core.gates.validation.golden_set import GoldenSet
from slipway_core.gates.validation.intervals import figure_interval
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

_PRECISION_SCORE_MIN = 0.05
_X1, _Y1, _X2, _Y2, _SCORE, _CLASS = range(6)


class _BoxLabels(LabelRules):
    def misfit(self, labels: Array) -> str:
        return "" if labels.shape[2] == 5 else f"has shape {list(labels.shape)}"

    def placeholder(self, rows: int) -> Array:
        return np.full((rows, 1, 5), np.nan)


@validation_kind
class DetectionsValidation(ValidationKind):
    """The model finds objects in images: boxes with a score and a class. Labels may be left out."""

    labels: ClassVar[LabelRules] = _BoxLabels(
        "boxes [rows, boxes, 5]: x1, y1, x2, y2, class", "iuf", (3,), optional=True, padded=True
    )
    examples: ClassVar[ExamplesTable] = ExamplesTable(
        "The images whose objects are least those of the labels, else those of the stable version.",
        (
            ("Golden row#", "row"),
            ("Objects#", "objects"),
            ("As the labels (F1)#", "found"),
            ("As stable (F1)#", "agrees"),
        ),
    )
    first_limits: ClassVar[tuple[str, ...]] = (
        "box_format: xyxy # what four numbers say: two corners; or xywh, cxcywh",
        "map_min: 0.5 # mean average precision",
    )
    pads_answers: ClassVar[bool] = True

    kind: Literal["detections"] = "detections"
    label: Text = "label"
    """Boxes (rows x boxes x 5): x1, y1, x2, y2, class; shorter lists end with NaN. It may be missing."""
    output: Text = "detections"
    """The output that holds (rows x boxes x 6): box, score, class; or the boxes alone (rows x boxes x 4)."""
    scores_output: Text | None = None
    """Where `output` holds the boxes alone: the output with their scores (rows x boxes)."""
    classes_output: Text | None = None
    """… and the output with their classes; left out: all boxes are of class 0."""
    box_format: Literal["xyxy", "xywh", "cxcywh"] = "xyxy"
    """What four numbers say of a box: two corners, a corner and the size, or the centre and the size."""
    score_min: Share = 0.25
    """Boxes with a lower score count as not found; of the mean average precision, those below 0.05."""
    iou_min: Annotated[float, Field(gt=0, le=1)] = 0.5
    """Two boxes are the same object from this intersection over union on."""
    map_min: Share = 0.5
    """Mean over the classes of the average precision: the area under precision over recall."""

    @property
    def outputs(self) -> tuple[str, ...]:
        """Return the outputs that are asked for."""
        return tuple(name for name in (self.output, self.scores_output, self.classes_output) if name)

    def score(self, golden: GoldenSet, answers: Array, stable_answers: Array | None) -> DetectionScores:
        """Score the answers, as `score_detections` says."""
        return score_detections(golden, answers, stable_answers, self)

    def answer(self, arrays: Mapping[str, Array]) -> Array:
        """Return the boxes of all outputs as one array."""
        return boxes_of(arrays, self)


@dataclass(frozen=True, kw_only=True)
class DetectionScores(MeasuredScores):
    """The columns are finite, map and found if there are labels, agrees if there is a stable version."""


def boxes_of(arrays: Mapping[str, Array], validation: DetectionsValidation) -> Array:
    """Return one array (rows, boxes, 6) out of the outputs of an answer: corners, score, class.

    :raises SpecError: they are no boxes.
    """
    boxes = arrays[validation.output]
    width = 4 if validation.scores_output else 6
    if boxes.dtype.kind not in "iuf" or boxes.ndim != 3 or boxes.shape[2] != width:
        raise no_answers_of_this_kind("detections", f"boxes [rows, boxes, {width}]", boxes)
    whole = np.zeros((*boxes.shape[:2], 6))
    whole[:, :, : boxes.shape[2]] = boxes
    for place, name in ((_SCORE, validation.scores_output), (_CLASS, validation.classes_output)):
        if name:
            values = arrays[name]
            if values.size != boxes.shape[0] * boxes.shape[1]:
                raise no_answers_of_this_kind("detections", f"`{name}` [rows, boxes]", values)
            whole[:, :, place] = values.reshape(boxes.shape[:2])
    if validation.box_format != "xyxy":
        if validation.box_format == "cxcywh":
            whole[:, :, :2] -= whole[:, :, 2:4] / 2
        whole[:, :, 2:4] += whole[:, :, :2]
    return whole


def score_detections(
    golden: GoldenSet, answers: Array, stable_answers: Array | None, validation: DetectionsValidation
) -> DetectionScores:
    """Score the boxes of all golden rows (rows, boxes, 6), shorter lists filled up with NaN.

    :raises ValidationRefusedError: rows are missing.
    :raises SpecError: the output cannot be boxes.
    """
    found = _lists(answers, golden.rows)
    finite = np.asarray([bool(np.isfinite(one).all()) for one in found])
    sure = [one[one[:, _SCORE] >= validation.score_min] for one in found]
    measures: list[Measure] = []
    if golden.has_labels:
        wanted = [_labelled(one) for one in golden.labels]
        measures += _against_labels(found, sure, wanted, validation)
    if stable_answers is not None:
        stable = [one[one[:, _SCORE] >= validation.score_min] for one in _lists(stable_answers, golden.rows)]
        measures += _against_stable(sure, stable, validation)
    agrees = next((one.values for one in measures if one.column == "agrees"), None)
    return DetectionScores(
        rows=golden.rows,
        agreement=None if agrees is None else mean(agrees),
        columns=columns_of(measures, finite),
        worst=_worst(sure, measures),
        measures=tuple(measures),
        validation=validation,
        not_finite_rows=int((~finite).sum()),
        facts={"objects": int(sum(len(one) for one in sure))},
    )


def iou(one: Array, other: Array) -> Array:
    """Return the intersection over union of each pair of boxes, (boxes of one, boxes of the other)."""
    low = np.maximum(one[:, None, :2], other[None, :, :2])
    high = np.minimum(one[:, None, 2:4], other[None, :, 2:4])
    shared = np.clip(high - low, 0, None).prod(axis=2)
    areas = [np.clip(boxes[:, 2:4] - boxes[:, :2], 0, None).prod(axis=1) for boxes in (one, other)]
    union = areas[0][:, None] + areas[1][None, :] - shared
    return np.where(union > 0, shared / np.where(union > 0, union, 1.0), 0.0)


def average_precision(scores: Array, hits: Array, wanted: int) -> float:
    """Return the area under precision over recall of one class.

    :param hits: whether each box is one that was wanted.
    :param wanted: how many there are to be found.
    """
    order = np.argsort(-scores, kind="stable")
    right = np.cumsum(hits[order])
    precision = right / np.arange(1, len(order) + 1)
    falling = np.maximum.accumulate(precision[::-1])[::-1]
    recall = np.concatenate([[0.0], right / wanted])
    return float((np.diff(recall) * falling).sum())


def _lists(answers: Array, rows: int) -> list[Array]:
    """Return the boxes of each row; what is filled up, and what has no score, is left out."""
    require_rows(answers, rows)
    if answers.dtype.kind not in "iuf" or answers.ndim != 3 or answers.shape[2] != 6:
        raise no_answers_of_this_kind("detections", "boxes [rows, boxes, 6]", answers)
    whole = answers.astype(np.float64)
    return [one[~np.isnan(one).all(axis=1)] for one in whole]


def _labelled(row: Array) -> Array:
    """Return a row's labels as boxes: with a score of 1, without what is filled up."""
    kept = row[np.isfinite(row).all(axis=1) & (row[:, 4] >= 0)]
    return np.column_stack([kept[:, :4], np.ones(len(kept)), kept[:, 4]])


def _matched(found: Array, wanted: Array, iou_min: float) -> Array:
    """Return whether each box, best first, is an object that no better box has taken, of the same class."""
    hits = np.zeros(len(found), dtype=bool)
    if not len(found) or not len(wanted):
        return hits
    near = np.where(found[:, None, _CLASS] == wanted[None, :, _CLASS], np.nan_to_num(iou(found, wanted)), 0.0)
    for box in np.argsort(-np.nan_to_num(found[:, _SCORE], nan=-np.inf), kind="stable"):
        best = int(near[box].argmax())
        if near[box, best] >= iou_min:
            hits[box], near[:, best] = True, 0.0
    return hits


def _f1(found: list[Array], wanted: list[Array], iou_min: float, *, of_nothing: float = 1.0) -> Array:
    """Return for each row twice the shared objects over all objects of both.

    :param of_nothing: where neither has any. Of two versions such a row says nothing: one that finds nothing anywhere
        would agree in every row that shows nothing.
    """
    pairs = zip(found, wanted, strict=True)
    return np.asarray(
        [
            2 * _matched(one, other, iou_min).sum() / (len(one) + len(other))
            if len(one) + len(other)
            else of_nothing
            for one, other in pairs
        ]
    )


def _against_labels(
    found: list[Array], sure: list[Array], wanted: list[Array], asked: DetectionsValidation
) -> list[Measure]:
    kept = [one[one[:, _SCORE] >= min(_PRECISION_SCORE_MIN, asked.score_min)] for one in found]
    hits = [_matched(one, other, asked.iou_min) for one, other in zip(kept, wanted, strict=True)]
    classes = np.unique(np.concatenate([one[:, _CLASS] for one in wanted])) if wanted else np.zeros(0)

    def mean_precision(rows: Array) -> float:
        boxes = np.concatenate([kept[row] for row in rows])
        right = np.concatenate([hits[row] for row in rows])
        labels = np.concatenate([wanted[row][:, _CLASS] for row in rows])
        each = [
            average_precision(boxes[of, _SCORE], right[of], int((labels == one).sum()))
            for one in classes
            if (labels == one).any()
            for of in [boxes[:, _CLASS] == one]
        ]
        return float(np.mean(each)) if each else 0.0

    value = mean_precision(np.arange(len(found)))
    return [
        Measure(
            column="map",
            caption=f"Mean average precision at an IoU of {asked.iou_min:g}",
            values=np.full(len(found), value),
            least=asked.map_min,
            meaning=f"the mean average precision is at least {asked.map_min:.1%}",
            interval=figure_interval(len(found), mean_precision, asked.confidence),
        ),
        Measure(
            column="found",
            caption="Labelled objects that are found (F1)",
            values=_f1(sure, wanted, asked.iou_min),
            least=0.0,
            meaning="how many of the labelled objects are found (for information; no limit)",
        ),
    ]


def _against_stable(sure: list[Array], stable: list[Array], asked: DetectionsValidation) -> Iterator[Measure]:
    """Yield the agreement; nothing if neither version finds an object in any row, for then nothing is compared."""
    if not any(map(len, (*sure, *stable))):
        return
    yield Measure(
        column="agrees",
        caption="The same objects as the stable version finds (F1)",
        values=_f1(sure, stable, asked.iou_min, of_nothing=np.nan),
        least=asked.agreement_min,
        meaning=f"at least {asked.agreement_min:.1%} of the objects are those of the stable version "
        "(F1 of the boxes, a row at a time)",
    )


def _worst(sure: list[Array], measures: list[Measure]) -> tuple[dict[str, Any], ...]:
    """Show the rows whose objects are least those of the labels, else those of stable."""
    by = {one.column: one.values for one in measures}
    shown = by.get("found", by.get("agrees"))
    if shown is None:
        return ()
    order = np.argsort(shown, kind="stable")[:WORST_EXAMPLES].tolist()
    return tuple(
        {
            "row": row,
            "objects": len(sure[row]),
            "found": number(by["found"][row]) if "found" in by else None,
            "agrees": number(by["agrees"][row]) if "agrees" in by else None,
        }
        for row in order
        if shown[row] < 1
    )
