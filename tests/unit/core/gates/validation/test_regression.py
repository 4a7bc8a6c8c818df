"""Validation of a regressor: its figures are those of the formulas, and what cannot be a regression says so."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from slipway_core.errors import GoldenSetError, SpecError, ValidationRefusedError
from slipway_core.gates.validation.golden_set import GoldenSet
from slipway_core.gates.validation.kinds.regression import (
    RegressionScores,
    RegressionValidation,
    score_regression,
)

_NUMBERS = st.floats(-1e3, 1e3).map(lambda value: round(value, 3))


def scored(
    labels: list[float], answers: NDArray[Any], stable: NDArray[Any] | None = None, **asked: Any
) -> RegressionScores:
    """Score answers to labels; by default with a limit on the mean absolute error alone."""
    golden = GoldenSet({}, np.asarray(labels, dtype=np.float64))
    return score_regression(golden, answers, stable, RegressionValidation(**{"mae_max": 1.0, **asked}))


@given(st.lists(st.tuples(_NUMBERS, _NUMBERS), min_size=2, max_size=20))
def test_errors_are_those_of_the_formulas(rows: list[tuple[float, float]]) -> None:
    """MAE, RMSE and R² are what the textbook's formulas give; R² is the mean of its column."""
    labels, answers = (np.array([row[part] for row in rows]) for part in range(2))
    numbers = scored(labels.tolist(), answers.reshape(-1, 1))
    error = answers - labels
    assert numbers.mae == pytest.approx(np.abs(error).sum() / len(rows))
    assert numbers.rmse == pytest.approx(np.sqrt((error**2).sum() / len(rows)))
    spread = ((labels - labels.mean()) ** 2).sum()
    if numbers.r2 is not None:
        assert numbers.r2 == pytest.approx(1 - (error**2).sum() / spread, rel=1e-6, abs=1e-6)


def test_agreement_is_within_the_tolerance_of_stable() -> None:
    """A row agrees where it is no further from stable's answer than abs + rel × |stable|."""
    stable, mine = np.array([100.0, 100.0, 0.0, 0.0]), np.array([111.0, 112.0, 1.0, 1.5])
    numbers = scored([0, 1, 2, 3], mine, stable, abs_tolerance=1.0, rel_tolerance=0.1)
    assert numbers.columns["agrees"] == [1, 0, 1, 0]
    assert numbers.agreement == 0.5


def test_an_answer_that_is_not_finite_is_counted_and_shown_first() -> None:
    """NaN and infinity leave the means alone, fail an expectation of their own, and lead the examples."""
    numbers = scored([1.0, 2.0, 3.0], np.array([1.5, np.nan, np.inf]), np.array([1.5, np.nan, 3.0]))
    assert (numbers.mae, numbers.not_finite_rows, numbers.agreement) == (0.5, 2, pytest.approx(1 / 3))
    assert [example["row"] for example in numbers.worst] == [1, 2, 0]
    assert json.loads(json.dumps(numbers.worst, allow_nan=False))[0]["predicted"] is None
    assert "2 with answers that are not finite" in numbers.words()
    assert scored([1.0], np.array([1.0]), np.array([np.inf])).agreement == 0.0
    nothing = scored([1.0, 2.0], np.array([np.nan, np.nan]))
    assert nothing.mae is None
    assert nothing.words().startswith("no finite answer over 2 rows")


def test_the_suite_has_the_limits_of_the_release_file() -> None:
    """Each limit that is given becomes an expectation, and no other."""
    answers = np.array([1.0, 2.0])
    columns = [item["kwargs"].get("column") for item in scored([1, 2], answers).suite()]
    assert columns == [None, "finite", "absolute_error"]
    asked = {"mae_max": None, "rmse_max": 2.0, "r2_min": 0.5}
    suite = scored([1, 2], answers, answers, **asked).suite()
    assert [item["kwargs"].get("column") for item in suite[2:]] == ["squared_error", "explained", "agrees"]
    assert suite[2]["kwargs"]["max_value"] == 4.0


def test_labels_that_are_all_alike_have_no_variance_to_explain() -> None:
    """R² cannot be held where the labels do not differ; the errors can."""
    assert scored([2.0, 2.0], np.array([2.0, 2.0])).r2 is None
    with pytest.raises(GoldenSetError, match=r"`validation.r2_min` is 0.5; found 2 times 2"):
        scored([2.0, 2.0], np.array([2.0, 2.0]), r2_min=0.5)


@pytest.mark.parametrize("answers", [np.zeros((2, 2)), np.zeros((2, 1, 1)), np.asarray([b"a", b"b"])])
def test_an_output_that_is_no_regression_is_a_fault_of_the_release_file(answers: NDArray[Any]) -> None:
    """The message names key, shape found and what a regressor answers."""
    with pytest.raises(SpecError, match=r"`validation\.output` is no regression.*\[rows, 1\]"):
        scored([0, 1], answers)


def test_unanswered_rows_are_refused() -> None:
    """Fewer answers than golden rows are never scored."""
    with pytest.raises(ValidationRefusedError, match="did not answer every golden row"):
        scored([0, 1], np.zeros((0, 1)))


def test_an_error_that_is_too_large_for_a_number_is_not_left_out() -> None:
    """The square of 1e200 is infinite: left out of the mean, the worst row of all would be none."""
    labels = [float(row) for row in range(20)]
    numbers = scored(labels, np.array([1e200, *labels[1:]]), rmse_max=1.0, r2_min=0.9)
    assert numbers.rmse is not None
    assert numbers.rmse > 1e100
    assert numbers.r2 is not None
    assert numbers.r2 < -1e100
    assert None not in numbers.columns["squared_error"]
    assert None not in numbers.columns["explained"]
    json.dumps(numbers.figures(), allow_nan=False)
