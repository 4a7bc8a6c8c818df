"""Validation of a regressor: errors against the labels, explained variance, agreement with stable.

With errors e, labels y and n rows: MAE = Σ|e| / n, RMSE = √(Σe² / n), R² = 1 - Σe² / Σ(y - mean y)². Each is the mean
of a column over the rows (R² of 1 - n e² / Σ(y - mean y)²), which is how great-expectations is asked for it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from slipway_core.errors import GoldenSetError
from slipway_core.gates.validation.golden_labels import LabelRules
from slipway_core.gates.validation.golden_set import GoldenSet
from slipway_core.gates.validation.kind import ExamplesTable, PageFigure, ValidationKind, validation_kind
from slipway_core.gates.validation.scores import (
    WORST_EXAMPLES,
    Array,
    ValidationScores,
    always,
    every_row,
    mean,
    mean_between,
    no_answers_of_this_kind,
    number,
    require_rows,
)
from slipway_core.spec.parts import Text
from slipway_core.spec.validation import NotNegative
from slipway_core.written_numbers import amount
from slipway_core.written_numbers import number as written

# Of as many rows as a golden set can have, the sum is a number still.
_LARGEST_ERROR = 1e300


@validation_kind
class RegressionValidation(ValidationKind):
    """The model tells a number a row. The label's array has numbers."""

    labels: ClassVar[LabelRules] = LabelRules("numbers", "iuf")
    examples: ClassVar[ExamplesTable] = ExamplesTable(
        "The largest errors.",
        (("Golden row#", "row"), ("Right#", "label"), ("Answered#", "predicted"), ("Error#", "error")),
    )
    page_figures: ClassVar[tuple[PageFigure, ...]] = (
        PageFigure("mae", "Mean absolute error", "absolute_error", "mae_max", "at most"),
        PageFigure("rmse", "Root mean squared error", "squared_error", "rmse_max", "at most", is_root=True),
        PageFigure("r2", "R²", "explained", "r2_min", "at least"),
    )
    first_limits: ClassVar[tuple[str, ...]] = (
        "r2_min: 0.5 # share of the label's variance that is explained; write your own",
        "# mae_max: 1.0 # mean absolute error, in the label's unit: better, where you know it",
    )

    kind: Literal["regression"] = "regression"
    output: Text = "prediction"
    """The output that holds a number for each row: (rows) or (rows x 1)."""
    mae_max: NotNegative | None = None
    """Mean absolute error, in the label's unit."""
    rmse_max: NotNegative | None = None
    """Root of the mean squared error, in the label's unit: large errors count for more."""
    r2_min: Annotated[float, Field(le=1)] | None = None
    """Share of the label's variance that is explained: 1 - squared errors / squared deviations from the mean."""
    abs_tolerance: NotNegative = 0.0
    """A row agrees with stable when |candidate - stable| <= abs + rel * |stable|."""
    rel_tolerance: NotNegative = 0.05

    @model_validator(mode="after")
    def _has_a_limit(self) -> Self:
        if self.mae_max is None and self.rmse_max is None and self.r2_min is None:
            raise ValueError("`kind: regression` needs a limit: `mae_max`, `rmse_max` or `r2_min`")
        return self

    def score(self, golden: GoldenSet, answers: Array, stable_answers: Array | None) -> RegressionScores:
        """Score the answers, as `score_regression` says."""
        return score_regression(golden, answers, stable_answers, self)


@dataclass(frozen=True, kw_only=True)
class RegressionScores(ValidationScores):
    """The columns are finite, absolute_error, squared_error, explained if labels vary, and agrees if known.

    Errors are in the label's unit, over the rows with finite answers; None if there is no such row.
    """

    mae: float | None
    rmse: float | None
    r2: float | None
    not_finite_rows: int
    validation: RegressionValidation

    def suite(self) -> list[dict[str, Any]]:
        """Expect finite answers, each limit that the release file has, and agreement with a stable version."""
        asked = self.validation
        suite = [every_row(self.rows), always("finite", "every answer is a finite number")]
        if asked.mae_max is not None:
            meaning = f"the mean absolute error is at most {amount(asked.mae_max)}"
            suite.append(mean_between("absolute_error", meaning, most=asked.mae_max))
        if asked.rmse_max is not None:
            meaning = f"the mean squared error is at most {amount(asked.rmse_max)} squared"
            suite.append(mean_between("squared_error", meaning, most=asked.rmse_max**2))
        if asked.r2_min is not None:
            meaning = f"R², the share of the labels' variance that is explained, is at least {asked.r2_min:g}"
            suite.append(mean_between("explained", meaning, least=asked.r2_min))
        if self.agreement is not None:
            meaning = (
                f"at least {asked.agreement_min:.1%} of the rows are answered as by the stable version, within "
                f"{asked.abs_tolerance:g} + {asked.rel_tolerance:g} × its answer"
            )
            suite.append(mean_between("agrees", meaning, least=asked.agreement_min, most=1.0))
        return suite

    def figures(self) -> dict[str, Any]:
        """Return errors, explained variance and agreement."""
        return {
            "rows": self.rows,
            "mae": self.mae,
            "mae_max": self.validation.mae_max,
            "rmse": self.rmse,
            "rmse_max": self.validation.rmse_max,
            "r2": self.r2,
            "r2_min": self.validation.r2_min,
            "agreement": self.agreement,
            "agreement_min": self.validation.agreement_min,
            "not_finite_rows": self.not_finite_rows,
        }

    def words(self) -> str:
        """Say how large the errors are."""
        figures = {"mean absolute error": self.mae, "root mean squared error": self.rmse, "R²": self.r2}
        shown = [f"{name} {written(value, 4)}" for name, value in figures.items() if value is not None]
        words = f"{', '.join(shown) or 'no finite answer'} over {self.rows} rows"
        return (
            f"{words}, {self.not_finite_rows} with answers that are not finite"
            if self.not_finite_rows
            else words
        )


def score_regression(
    golden: GoldenSet, answers: Array, stable_answers: Array | None, validation: RegressionValidation
) -> RegressionScores:
    """Score the answers to all golden rows, (rows,) or (rows, 1).

    :raises ValidationRefusedError: rows are missing.
    :raises SpecError: the output cannot be a regression.
    :raises GoldenSetError: explained variance is asked for and the labels have none.
    """
    predicted, labels = _predictions(answers, golden.rows), golden.labels
    with np.errstate(over="ignore"):
        error = np.where(np.isfinite(predicted), predicted - labels, np.nan)
        variance = float(labels.var())
        columns: dict[str, Array] = {
            "finite": np.isfinite(predicted).astype(int),
            "absolute_error": _counted(np.abs(error)),
            "squared_error": _counted(error**2),
        }
        explained = None if variance == 0 else _counted(1.0 - columns["squared_error"] / variance)
    if explained is not None:
        columns["explained"] = explained
    elif validation.r2_min is not None:
        raise _no_variance(golden, validation)
    stable = None if stable_answers is None else _predictions(stable_answers, golden.rows)
    if stable is not None:
        columns["agrees"] = _agrees(predicted, stable, validation).astype(int)
    squared = mean(columns["squared_error"])
    return RegressionScores(
        rows=golden.rows,
        agreement=None if stable is None else float(columns["agrees"].mean()),
        columns={name: [number(value) for value in values] for name, values in columns.items()},
        worst=_worst(labels, predicted, columns["absolute_error"], stable),
        mae=mean(columns["absolute_error"]),
        rmse=None if squared is None else float(np.sqrt(squared)),
        r2=mean(columns["explained"]) if "explained" in columns else None,
        not_finite_rows=int((~np.isfinite(predicted)).sum()),
        validation=validation,
    )


def _predictions(answers: Array, rows: int) -> Array:
    require_rows(answers, rows)
    if answers.dtype.kind not in "iuf" or answers.shape not in ((rows,), (rows, 1)):
        raise no_answers_of_this_kind("regression", "a number for each row, [rows] or [rows, 1]", answers)
    return answers.reshape(rows).astype(np.float64)


def _counted(errors: Array) -> Array:
    """Return errors of which none is infinite: one that is too large for a number must not be left out of the mean."""
    return np.asarray(np.clip(errors, -_LARGEST_ERROR, _LARGEST_ERROR))


def _agrees(predicted: Array, stable: Array, validation: RegressionValidation) -> Array:
    with np.errstate(invalid="ignore"):
        allowed = validation.abs_tolerance + validation.rel_tolerance * np.abs(stable)
        near = np.abs(predicted - stable) <= allowed
    return np.asarray(near & np.isfinite(predicted) & np.isfinite(stable))


def _worst(
    labels: Array, predicted: Array, absolute_error: Array, stable: Array | None
) -> tuple[dict[str, Any], ...]:
    """Show the largest errors; an answer that is not finite is the largest of all."""
    size = np.nan_to_num(absolute_error, nan=np.inf)
    order = np.argsort(-size, kind="stable")[:WORST_EXAMPLES].tolist()
    return tuple(
        {
            "row": row,
            "label": float(labels[row]),
            "predicted": number(predicted[row]),
            "error": number(predicted[row] - labels[row]),
            "stable": None if stable is None else number(stable[row]),
        }
        for row in order
        if size[row] > 0
    )


def _no_variance(golden: GoldenSet, validation: RegressionValidation) -> GoldenSetError:
    return GoldenSetError(
        "all labels of the golden set are equal, so they have no variance to explain",
        expected=f"labels that differ, since `validation.r2_min` is {validation.r2_min:g}",
        found=f"{golden.rows} times {golden.labels[0]:g}",
        remedy="Take more rows into the golden set, or hold the errors to `mae_max` or `rmse_max` instead.",
    )
