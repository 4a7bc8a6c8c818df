"""run_expectations: great-expectations really run over the answers' table, offline, with plain results."""

from __future__ import annotations

import json
import os
import socket
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from slipway.quality.checkpoints import in_order, run_expectations, run_suite
from slipway_core.errors import SlipwayError
from slipway_core.gates.validation.gate import score
from slipway_core.gates.validation.golden_set import GoldenSet
from slipway_core.gates.validation.kinds.classification import ClassificationValidation
from slipway_core.gates.validation.kinds.regression import RegressionValidation
from slipway_core.gates.validation.kinds.text import TextValidation
from slipway_core.gates.validation.scores import every_row

pytestmark = pytest.mark.timeout(600)

VALIDATION = ClassificationValidation(accuracy_min=0.75, agreement_min=0.75)


@pytest.fixture(autouse=True)
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever opens a connection fails the test."""

    def refuse(*_: Any) -> None:
        raise AssertionError("the validation must not talk to anybody")

    monkeypatch.setattr(socket.socket, "connect", refuse)


def check(predicted: list[int], stable: list[int] | None = None) -> dict[str, dict[str, Any]]:
    """Run the release's own suite over answers to the labels 0, 1, 2, 3; return the results by their meaning."""
    golden = GoldenSet({}, np.arange(4))
    stable_answers = None if stable is None else np.array(stable)
    numbers = score(golden, np.array(predicted), stable_answers, VALIDATION)
    suite = numbers.suite()
    results = run_expectations(pd.DataFrame(numbers.columns), suite, "digits")
    assert [result["type"] for result in results] == [each["type"] for each in suite]
    return {result["meaning"]: result for result in results}


def test_good_answers_meet_every_expectation() -> None:
    """Answers above the limits, the limit itself included, pass, and what was observed is told."""
    results = check([0, 1, 2, 9], stable=[0, 1, 9, 9])
    assert all(result["success"] is True for result in results.values())
    assert results["accuracy is at least 75.0%"]["observed"] == 0.75
    assert len(results) == 4


def test_low_accuracy_fails_that_expectation_alone() -> None:
    """Each expectation is judged by itself."""
    results = check([0, 1, 9, 9], stable=[0, 1, 9, 9])
    failed = [meaning for meaning, result in results.items() if not result["success"]]
    assert failed == ["accuracy is at least 75.0%"]
    assert results[failed[0]]["observed"] == 0.5


def test_disagreement_with_stable_fails() -> None:
    """A candidate that is right, but answers otherwise than the stable version, fails the agreement."""
    results = check([0, 1, 2, 3], stable=[0, 1, 9, 9])
    assert [result["success"] for result in results.values()] == [True, True, True, False]


def test_first_version_has_nobody_to_agree_with() -> None:
    """Without a stable version agreement is not asked for."""
    assert len(check([0, 1, 2, 3])) == 3


def test_missing_row_fails() -> None:
    """A table with fewer rows than the golden set fails the count."""
    frame = pd.DataFrame({"correct": [1, 1], "finite": [1, 1]})
    results = run_expectations(frame, [every_row(5)], "digits")
    assert results[0]["success"] is False
    assert results[0]["observed"] == 2


def test_score_that_is_not_finite_fails() -> None:
    """One row whose scores are not numbers fails the suite, however good the rest is."""
    scores = np.eye(4)
    scores[3, 0] = np.nan
    numbers = score(GoldenSet({}, np.arange(4)), scores, None, VALIDATION)
    results = run_expectations(pd.DataFrame(numbers.columns), numbers.suite(), "digits")
    assert [result["success"] for result in results] == [True, False, True]


def test_regression_is_held_to_each_of_its_limits() -> None:
    """The library computes the same MAE, MSE and R² from the table, and judges each by itself."""
    golden = GoldenSet({}, np.array([1.0, 2.0, 3.0, 4.0]))
    answers = np.array([1.0, 2.0, 3.0, 6.0])
    asked = RegressionValidation(mae_max=0.5, rmse_max=0.9, r2_min=0.19, agreement_min=1.0)
    numbers = score(golden, answers, answers * 1.04, asked)
    results = run_expectations(pd.DataFrame(numbers.columns), numbers.suite(), "rent")
    assert [result["success"] for result in results] == [True, True, True, False, True, True]
    assert [result["observed"] for result in results[2:5]] == pytest.approx([0.5, 1.0, 0.2])


def test_regression_without_any_number_is_refused_in_plain_words() -> None:
    """Where no answer is finite every mean is unknown: not met, and written as JSON."""
    golden = GoldenSet({}, np.array([1.0, 2.0]))
    numbers = score(golden, np.array([np.nan, np.inf]), None, RegressionValidation(mae_max=1, r2_min=0))
    results = run_expectations(pd.DataFrame(numbers.columns), numbers.suite(), "rent")
    assert [result["success"] for result in results] == [True, False, False, False]
    assert json.loads(json.dumps(results, allow_nan=False)) == results


def test_text_is_held_to_its_score_and_to_stable() -> None:
    """Scores between 0 and 1 are averaged; a row without an answer fails by itself."""
    golden = GoldenSet({}, np.array(["a b", "c d"], dtype=object))
    answers = np.array([b"a b", None], dtype=object)
    numbers = score(golden, answers, answers, TextValidation(score_min=0.5, agreement_min=0.6))
    results = run_expectations(pd.DataFrame(numbers.columns), numbers.suite(), "chat")
    assert [result["success"] for result in results] == [True, False, True, False]


def test_results_are_plain() -> None:
    """The results can be written as JSON, and say what was asked without the library's own keys."""
    results = list(check([0, 1, 2, 3]).values())
    assert json.loads(json.dumps(results)) == results
    assert results[0]["kwargs"] == {"value": 4}


def test_expectation_that_cannot_be_evaluated_is_not_met() -> None:
    """An expectation on a column that the table does not have counts as failed, not as passed."""
    expectation = {
        "type": "expect_column_mean_to_be_between",
        "kwargs": {"column": "absent", "min_value": 0.0, "max_value": 1.0},
        "meaning": "a column that is not there",
    }
    results = run_expectations(pd.DataFrame({"finite": [1]}), [expectation], "digits")
    assert results[0]["success"] is False


def test_nothing_is_left_behind(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The library writes no project folder where the task runs."""
    monkeypatch.chdir(tmp_path)
    check([0, 1, 2, 3])
    assert os.listdir(tmp_path) == []  # noqa: PTH208  names are enough


def test_what_was_not_as_expected_is_told_in_words() -> None:
    """Rows that fail are counted and shown, quantiles are told one by one, and a column that is not there is named."""
    frame = pd.DataFrame({"latency_ms": [1.0, 2.0, 30.123456789], "site": ["a", "b", "b"]})
    asked: list[dict[str, Any]] = [
        {"type": "expect_column_values_to_be_between", "kwargs": {"column": "latency_ms", "max_value": 20}},
        {
            "type": "expect_column_quantile_values_to_be_between",
            "kwargs": {
                "column": "latency_ms",
                "quantile_ranges": {"quantiles": [0.5], "value_ranges": [[None, 1]]},
            },
        },
        {
            "type": "expect_column_distinct_values_to_be_in_set",
            "kwargs": {"column": "site", "value_set": ["a"]},
        },
        {"type": "expect_column_max_to_be_between", "kwargs": {"column": "absent", "max_value": 20}},
    ]
    run = run_suite(frame, [{**one, "meaning": one["type"], "policy": "warn"} for one in asked], "digits")
    assert [one["success"] for one in run.results] == [False] * 4
    assert {one["policy"] for one in run.results} == {"warn"}
    assert run.results[0]["unexpected"] == "1 of 3 rows, such as 30.1235"
    assert run.results[1]["observed"] == "0.5: 2"
    assert run.results[2]["unexpected"] == "1 values, such as b"
    assert run.results[3]["unexpected"] == "there is no column `absent`; there are `latency_ms`, `site`"
    assert run.document["statistics"]["unsuccessful_expectations"] == 4
    assert "Traceback" not in json.dumps(run.document, allow_nan=False)


@pytest.mark.parametrize("places", [[0, 1], [0, 1, 1, 2], [0, 1, 3], []])
def test_expectation_without_a_result_is_an_error(places: list[int]) -> None:
    """What the library has not looked at is in no list of what was not met, and would pass."""
    results = [SimpleNamespace(expectation_config=SimpleNamespace(meta={"place": place})) for place in places]
    with pytest.raises(SlipwayError, match="3 results"):
        in_order(results, 3)
