"""Validation of a classifier: accuracy against the labels, agreement with stable, which classes are mistaken."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np

from slipway_core.gates.interval import Interval
from slipway_core.gates.validation.class_recall import (
    CLASSES_SHOWN,
    ClassRecall,
    lost_in_words,
    recall_by_class,
)
from slipway_core.gates.validation.golden_labels import CLASS_LABELS, LabelRules
from slipway_core.gates.validation.golden_set import GoldenSet
from slipway_core.gates.validation.intervals import mean_interval
from slipway_core.gates.validation.kind import ExamplesTable, PageFigure, ValidationKind, validation_kind
from slipway_core.gates.validation.scores import (
    WORST_EXAMPLES,
    Array,
    ValidationScores,
    always,
    every_row,
    mean_between,
    no_answers_of_this_kind,
    number,
    require_rows,
)
from slipway_core.spec.parts import Share, Text

_CLASSES_SHOWN = 20


@validation_kind
class ClassificationValidation(ValidationKind):
    """The model tells classes. The label's array has whole numbers."""

    labels: ClassVar[LabelRules] = CLASS_LABELS
    examples: ClassVar[ExamplesTable] = ExamplesTable(
        "Wrong answers, the surest first, then rows on which the two versions differ.",
        (("Golden row#", "row"), ("Right#", "label"), ("Answered#", "predicted"), ("Score#", "confidence")),
    )
    page_figures: ClassVar[tuple[PageFigure, ...]] = (PageFigure("accuracy", "Accuracy", "correct"),)
    first_limits: ClassVar[tuple[str, ...]] = ("accuracy_min: 0.9 # share of rows answered rightly",)
    tells_classes: ClassVar[bool] = True

    kind: Literal["classification"] = "classification"
    output: Text = "probabilities"
    """The output that holds scores by class (rows x classes), or the predicted class itself (rows)."""
    accuracy_min: Share = 0.9
    accuracy_drop_max: Share = 0.02
    """How much lower than stable's the accuracy may be, on the same rows. What is clearly lower, by the interval of the
    rows' differences, is refused although it reaches `accuracy_min`; 1: any.
    """
    class_recall_min: Share = 0.5
    """Share of the rows of each class that must be answered with it, if the stable version clearly reaches it and the
    class has enough rows; 0: any.
    """

    def score(self, golden: GoldenSet, answers: Array, stable_answers: Array | None) -> ClassificationScores:
        """Score the answers, as `score_classification` says."""
        return score_classification(golden, answers, stable_answers, self)


@dataclass(frozen=True, kw_only=True)
class ClassificationScores(ValidationScores):
    """The columns are label, predicted, correct, finite, and agrees if known; shares are 0 to 1.

    `confusion[i][j]` counts rows of class `classes[i]` that were answered with `classes[j]`.
    """

    accuracy: float
    not_finite_rows: int
    classes: tuple[int, ...]
    confusion: tuple[tuple[int, ...], ...]
    recalls: tuple[ClassRecall, ...] = ()
    drop: Interval | None = None
    validation: ClassificationValidation

    def suite(self) -> list[dict[str, Any]]:
        """Expect finite scores, accuracy, and agreement where there is a stable version."""
        least, agreement = self.validation.accuracy_min, self.validation.agreement_min
        suite = [
            every_row(self.rows),
            always("finite", "every score is a finite number"),
            mean_between("correct", f"accuracy is at least {least:.1%}", least=least, most=1.0),
        ]
        if self.agreement is not None:
            meaning = f"at least {agreement:.1%} of the rows are answered as by the stable version"
            suite.append(mean_between("agrees", meaning, least=agreement, most=1.0))
        return suite

    def figures(self) -> dict[str, Any]:
        """Return accuracy and agreement."""
        return {
            "rows": self.rows,
            "accuracy": self.accuracy,
            "accuracy_min": self.validation.accuracy_min,
            "agreement": self.agreement,
            "agreement_min": self.validation.agreement_min,
            "not_finite_rows": self.not_finite_rows,
        }

    def words(self) -> str:
        """Say how accurate it is."""
        words = f"accuracy {self.accuracy:.4f} over {self.rows} rows"
        return (
            f"{words}, {self.not_finite_rows} with scores that are not finite"
            if self.not_finite_rows
            else words
        )

    def details(self) -> dict[str, Any]:
        """Return which classes are taken for which."""
        counts = [list(row) for row in self.confusion]
        recalls = [one.to_dict() for one in self.recalls[:CLASSES_SHOWN]]
        return {"confusion": {"classes": list(self.classes), "counts": counts}, "recalls": recalls}

    def losses(self) -> str:
        """Name the classes that the stable version tells and the candidate does not; say what accuracy is lost."""
        losses = [lost_in_words(self.recalls, self.validation.class_recall_min)]
        if self.drop is not None and self.drop.low > self.validation.accuracy_drop_max:
            losses.append(
                f"the accuracy is lower than the stable version's on the same rows by more than "
                f"{self.validation.accuracy_drop_max:.1%}: clearly by {self.drop.low:.1%} to {self.drop.high:.1%}"
            )
        return "; ".join(filter(None, losses))


def score_classification(
    golden: GoldenSet, answers: Array, stable_answers: Array | None, validation: ClassificationValidation
) -> ClassificationScores:
    """Score the answers to all golden rows: scores (rows, classes) or classes (rows,).

    A row with a score that is not finite counts as wrong.

    :raises ValidationRefusedError: rows are missing.
    :raises SpecError: the output cannot be a classification.
    """
    predicted, confidence, finite = _predictions(answers, golden.rows)
    correct = (predicted == golden.labels) & finite
    columns = {"label": golden.labels, "predicted": predicted, "correct": correct, "finite": finite}
    stable = None
    if stable_answers is not None:
        stable, _, _ = _predictions(stable_answers, golden.rows)
        columns["agrees"] = np.asarray(predicted == stable)
    classes, confusion = _confusion(golden.labels, predicted)
    return ClassificationScores(
        rows=golden.rows,
        accuracy=float(correct.mean()),
        agreement=float(columns["agrees"].mean()) if "agrees" in columns else None,
        not_finite_rows=int((~finite).sum()),
        worst=_worst(golden.labels, predicted, confidence, correct, stable),
        columns={name: values.astype(int).tolist() for name, values in columns.items()},
        classes=classes,
        confusion=confusion,
        recalls=tuple(
            recall_by_class(
                golden.labels,
                predicted,
                stable,
                least=validation.class_recall_min,
                confidence=validation.confidence,
            )
        ),
        drop=None if stable is None else _drop(golden.labels, correct, stable, validation),
        validation=validation,
    )


def _drop(
    labels: Array, correct: Array, stable: Array, validation: ClassificationValidation
) -> Interval | None:
    """Return by how much the accuracy is below stable's: the rows are the same, so their differences count."""
    differences = (stable == labels).astype(float) - correct.astype(float)
    return mean_interval(differences.tolist(), validation.confidence)


def _predictions(answers: Array, rows: int) -> tuple[Array, Array | None, Array]:
    """Return predicted classes, the winning scores, and which rows are finite.

    There are no scores when the output is the class itself.
    """
    require_rows(answers, rows)
    flat = answers.reshape(rows, -1)
    if answers.dtype.kind in "iu" and flat.shape[1] == 1:
        return flat[:, 0].astype(np.int64), None, np.ones(rows, dtype=bool)
    if answers.dtype.kind not in "iuf" or answers.ndim != 2 or flat.shape[1] < 2:
        expected = "scores [rows, classes] or whole numbers [rows]"
        raise no_answers_of_this_kind("classification", expected, answers)
    scores = flat.astype(np.float64)
    finite: Array = np.asarray(np.isfinite(scores).all(axis=1))
    predicted = np.where(finite, np.nan_to_num(scores).argmax(axis=1), -1)
    return predicted, scores.max(axis=1), finite


def _worst(
    labels: Array, predicted: Array, confidence: Array | None, correct: Array, stable: Array | None
) -> tuple[dict[str, Any], ...]:
    """Show wrong answers, the surest first, then those where the two versions differ."""
    sureness = (
        np.zeros(labels.shape[0]) if confidence is None else np.nan_to_num(confidence, posinf=0.0, neginf=0.0)
    )
    differs = np.zeros(labels.shape[0], dtype=bool) if stable is None else predicted != stable
    order = np.lexsort((-sureness, correct))
    chosen = [row for row in order.tolist() if not correct[row] or differs[row]][:WORST_EXAMPLES]
    return tuple(
        {
            "row": row,
            "label": int(labels[row]),
            "predicted": int(predicted[row]),
            "confidence": None if confidence is None else number(confidence[row]),
            "stable": None if stable is None else int(stable[row]),
        }
        for row in chosen
    )


def _confusion(labels: Array, predicted: Array) -> tuple[tuple[int, ...], tuple[tuple[int, ...], ...]]:
    """Count by class; with many classes only the most frequent ones, so that a person can still read it."""
    values, counts = np.unique(labels, return_counts=True)
    shown = np.sort(values[np.argsort(-counts, kind="stable")][:_CLASSES_SHOWN])
    table = tuple(
        tuple(int(((labels == wanted) & (predicted == answered)).sum()) for answered in shown)
        for wanted in shown
    )
    return tuple(int(value) for value in shown), table
