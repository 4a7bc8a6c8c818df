"""What follows from further expectations and from slices, by the policy of each."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from slipway_core.errors import ValidationInconclusiveError, ValidationRefusedError
from slipway_core.gates.validation.gate import require_validation, score, validation_report
from slipway_core.gates.validation.golden_set import GoldenSet
from slipway_core.gates.validation.kinds.classification import ClassificationValidation
from slipway_core.gates.validation.kinds.regression import RegressionValidation
from slipway_core.gates.validation.kinds.vectors import VectorsValidation
from slipway_core.gates.validation.quality.slices import slice_figures, slices_not_compared
from slipway_core.gates.validation.quality.suites import SuiteResult
from slipway_core.gates.validation.scores import MEAN
from slipway_core.reports.validation.page import render_report_html

LABELS = np.arange(400) % 2
SITE = np.where(np.arange(400) < 100, "north", "south")


def report(
    wrong: int = 0, suites: tuple[SuiteResult, ...] = (), rows: int = 400, **asked: Any
) -> dict[str, Any]:
    """Return the report of a classifier that answers the first rows wrongly."""
    validation = ClassificationValidation(accuracy_min=0.5, **asked)
    predicted = LABELS[:rows].copy()
    predicted[:wrong] = 1 - predicted[:wrong]
    golden = GoldenSet({}, LABELS[:rows], slices={"site": SITE[:rows]})
    numbers = score(golden, predicted, None, validation)
    results = [{**one, "success": True, "observed": 1.0} for one in numbers.suite()]
    slices = slice_figures(golden.slices, numbers)
    return validation_report(
        model="m",
        version=2,
        stable_version=None,
        created_at="2026-11-22T00:00:00+00:00",
        numbers=numbers,
        results=results,
        suites=suites,
        slices=slices,
        slices_left_out=slices_not_compared(golden.slices, numbers, slices),
    )


def suite(policy: str, success: bool, about: Any = "golden", **more: Any) -> SuiteResult:
    """Return a suite of one expectation as it went."""
    result = {
        "type": "expect_column_max_to_be_between",
        "kwargs": {"column": "duplicate", "max_value": 0},
        "meaning": "no row twice",
        "policy": policy,
        "success": success,
        "observed": 1.0,
        "unexpected": "",
        **more,
    }
    return SuiteResult(about, 400, [result], "great_expectations/golden.json")


@pytest.mark.parametrize(
    ("policy", "success", "outcome"),
    [("fail", True, "pass"), ("fail", False, "fail"), ("warn", False, "warn"), ("warn", True, "pass")],
)
def test_the_policy_says_what_follows(policy: str, success: bool, outcome: str) -> None:
    """An expectation that is not met fails the version or warns; the page tells it, and where the document lies."""
    found = report(suites=(suite(policy, success),))
    assert found["outcome"] == outcome
    told = ["golden set: no row twice (found 1)"]
    assert found["reasons"] == (told if outcome == "fail" else [])
    assert found["warnings"] == (told if outcome == "warn" else [])
    page = render_report_html(found)
    assert "great_expectations/golden.json" in page
    assert {"pass": "✓ pass", "warn": "! warn", "fail": "✗ fail"}[outcome] in page.split("</h1>")[0]


def test_a_mean_of_the_answers_is_held_against_its_interval() -> None:
    """Rows of the answers are a sample: a mean near its limit is not decided, and only `refuse` insists."""
    values = [0.0, 1.0] * 10
    result = {
        "type": MEAN,
        "kwargs": {"column": "margin", "min_value": 0.6},
        "meaning": "the margin is wide",
        "policy": "fail",
        "success": False,
        "observed": 0.5,
    }
    answers = SuiteResult("answers", 20, [result], "x.json", {"margin": values})
    assert report(suites=(answers,))["outcome"] == "fail"
    unsure = report(suites=(answers,), on_inconclusive="refuse")
    assert unsure["outcome"] == "inconclusive"
    with pytest.raises(ValidationInconclusiveError, match="answers: the margin is wide"):
        require_validation(unsure)


@pytest.mark.parametrize(
    ("kind", "values", "outcome"),
    [
        (MEAN, [5.0], "inconclusive"),
        (MEAN, [5.0] * 7, "inconclusive"),
        (MEAN, [5.0] * 8, "pass"),
        (MEAN, [5.0] * 7 + [None] * 9, "inconclusive"),
        ("expect_column_median_to_be_between", [5.0] * 7, "inconclusive"),
        ("expect_column_quantile_values_to_be_between", [5.0], "inconclusive"),
        ("expect_column_quantile_values_to_be_between", [5.0] * 8, "pass"),
        ("expect_column_sum_to_be_between", [None] * 20, "inconclusive"),
        ("expect_column_values_to_be_between", [5.0], "pass"),
        ("expect_column_values_to_be_between", [None] * 20, "inconclusive"),
        ("expect_column_values_to_be_between", [float("nan")] * 20, "inconclusive"),
        ("expect_column_distinct_values_to_be_in_set", [None] * 20, "inconclusive"),
        ("expect_column_values_to_not_be_null", [None] * 20, "pass"),
    ],
)
def test_a_few_values_of_the_answers_decide_nothing(kind: str, values: list[Any], outcome: str) -> None:
    """The library calls it met: over one row a mean is a number, and of no value all are as they should be."""
    result = {
        "type": kind,
        "kwargs": {"column": "margin", "min_value": 1},
        "meaning": "wide",
        "policy": "fail",
    }
    answers = SuiteResult(
        "answers", len(values), [{**result, "success": True, "observed": 5.0}], "x", {"margin": values}
    )
    found = report(suites=(answers,), on_inconclusive="refuse")
    assert found["outcome"] == outcome
    told = report(suites=(answers,))
    assert told["outcome"] == ("warn" if outcome == "inconclusive" else "pass")
    if outcome == "inconclusive":
        known = sum(one is not None and one == one for one in values)
        assert told["warnings"] == [f"answers: wide (found 5), by {known} values, which decide nothing"]
        assert "! not sure" in render_report_html(told)


def test_the_golden_set_is_told_as_it_is() -> None:
    """Its rows are no sample of others: what is expected of few of them is met or not."""
    table = SuiteResult("golden", 1, suite("fail", True, type=MEAN).results, "x")
    assert report(suites=(table,), on_inconclusive="refuse")["outcome"] == "pass"


def test_a_slice_that_is_surely_lost_fails_the_version() -> None:
    """90 % on the whole, and 60 % in one part: without a limit that is told, with one it fails."""
    told = report(wrong=40)
    assert told["outcome"] == "pass"
    worst = told["slices"][0]
    assert (worst["slice"], worst["part"], worst["rows"], worst["value"]) == ("site", "north", 100, 0.6)
    lost = report(wrong=40, slice_accuracy_min=0.8)
    assert lost["outcome"] == "fail"
    assert lost["reasons"] == [
        "accuracy where `site` is north: 60.0% of 100 rows (50.2% to 69.1%), at least 80.0%"
    ]
    with pytest.raises(ValidationRefusedError, match="`site` is north"):
        require_validation(lost)
    assert "Accuracy and agreement by slice" in render_report_html(lost)


def test_a_slice_that_few_rows_do_not_decide_warns() -> None:
    """A limit inside the interval of a part is not decided; `refuse` asks to be sure of each part."""
    assert report(wrong=15, slice_accuracy_min=0.8)["outcome"] == "warn"
    assert report(wrong=15, slice_accuracy_min=0.8, on_inconclusive="refuse")["outcome"] == "inconclusive"


def test_a_limit_of_slices_that_nothing_was_held_against_is_told() -> None:
    """Where the kind of answer has no figure by row, or the golden set no slices, the limit looked at nothing."""
    golden = GoldenSet({}, np.arange(20.0), slices={"site": SITE[90:110]})
    regression = RegressionValidation(mae_max=1, slice_accuracy_min=0.8, slice_agreement_min=0.8)
    numbers = score(golden, golden.labels, None, regression)
    told = slices_not_compared(golden.slices, numbers, slice_figures(golden.slices, numbers))
    assert told == (
        "accuracy where `site` is north, `site` is south, at least 80.0%: no row has a figure, nothing was compared",
    )
    live = score(golden, golden.labels, golden.labels, regression)
    assert slices_not_compared(golden.slices, live, slice_figures(golden.slices, live)) == told
    (nowhere,) = slices_not_compared({}, numbers, ())
    assert "`golden.slices` names none" in nowhere
    assert report(slice_accuracy_min=0.8)["outcome"] == "pass"


def test_a_part_without_a_figure_asks_to_be_sure_too() -> None:
    """Rows whose nearest neighbour tells nothing are a part that nobody has looked at."""
    labels = np.array([0, 0, 0, 0, 1, 2])
    golden = GoldenSet({}, labels, slices={"site": np.array(["a"] * 4 + ["b"] * 2)})
    asked = VectorsValidation(slice_accuracy_min=0.5)
    numbers = score(golden, np.eye(6)[[0, 0, 0, 0, 1, 2]], None, asked)
    (told,) = slices_not_compared(golden.slices, numbers, slice_figures(golden.slices, numbers))
    assert told.startswith("accuracy where `site` is b, at least 50.0%")
