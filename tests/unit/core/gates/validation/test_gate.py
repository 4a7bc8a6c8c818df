"""The validation gate for classifiers: scores, the suite; and the report, which is like for all kinds."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from slipway_core.errors import SpecError, ValidationRefusedError
from slipway_core.gates.validation.gate import require_validation, score, validation_report
from slipway_core.gates.validation.golden_set import GoldenSet
from slipway_core.gates.validation.kinds.classification import (
    ClassificationScores,
    ClassificationValidation,
    score_classification,
)
from slipway_core.gates.validation.scores import ValidationScores, require_output
from slipway_core.tensors import ModelSignature, TensorSpec

_SIGNATURE = ModelSignature(
    inputs=(
        TensorSpec(name="pixels", datatype="FP32", shape=(-1, 4)),
        TensorSpec(name="text", datatype="BYTES", shape=(-1, 1)),
    ),
    outputs=(TensorSpec(name="probabilities", datatype="FP32", shape=(-1, 3)),),
)


def _golden(labels: list[int]) -> GoldenSet:
    return GoldenSet({"x": np.zeros((len(labels), 1))}, np.asarray(labels))


def _scored(
    golden: GoldenSet,
    answers: NDArray[Any],
    stable: NDArray[Any] | None = None,
    accuracy_min: float = 0.9,
) -> ClassificationScores:
    return score_classification(golden, answers, stable, ClassificationValidation(accuracy_min=accuracy_min))


def _scores(predicted: list[int], classes: int = 3) -> NDArray[Any]:
    return np.eye(classes, dtype=np.float32)[predicted]


def test_accuracy_and_agreement() -> None:
    """Accuracy is against the labels, agreement against the stable version's answers."""
    numbers = _scored(_golden([0, 1, 2, 2]), _scores([0, 1, 2, 0]), _scores([0, 2, 2, 0]))
    assert (numbers.rows, numbers.accuracy, numbers.agreement) == (4, 0.75, 0.75)
    assert numbers.columns["correct"] == [1, 1, 1, 0]
    assert numbers.columns["agrees"] == [1, 0, 1, 1]
    assert numbers.classes == (0, 1, 2)
    assert numbers.confusion == ((1, 0, 0), (0, 1, 0), (1, 0, 1))
    assert [(example["row"], example["stable"]) for example in numbers.worst] == [(3, 0), (1, 2)]


def test_without_a_stable_version_there_is_no_agreement() -> None:
    """The first release of a model has nothing to agree with."""
    numbers = _scored(_golden([0, 1]), _scores([0, 1]))
    assert numbers.agreement is None
    assert "agrees" not in numbers.columns


@pytest.mark.parametrize("shape", [(3,), (3, 1)])
def test_predicted_classes_are_taken_as_they_are(shape: tuple[int, ...]) -> None:
    """An output of whole numbers, with or without a dimension of one, is the prediction itself."""
    numbers = _scored(_golden([5, 6, 7]), np.asarray([5, 6, 0]).reshape(shape))
    assert numbers.accuracy == pytest.approx(2 / 3)
    assert numbers.worst[0]["confidence"] is None


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_scores_that_are_not_finite_are_wrong(bad: float) -> None:
    """A row with NaN or infinity counts as wrong even if its largest score is at the right place."""
    answers = _scores([0, 1])
    answers[0, 0] = bad
    numbers = _scored(_golden([0, 1]), answers)
    assert (numbers.accuracy, numbers.not_finite_rows) == (0.5, 1)
    assert numbers.columns["finite"] == [0, 1]
    assert "NaN" not in json.dumps(numbers.worst[0])


def test_unanswered_rows_are_refused() -> None:
    """Fewer answers than golden rows, such as empty tensors, are never scored."""
    with pytest.raises(ValidationRefusedError, match="did not answer every golden row"):
        _scored(_golden([0, 1]), np.zeros((0, 3)))


@pytest.mark.parametrize(
    "answers", [np.zeros((2, 1)), np.zeros((2, 3, 3)), np.zeros(2), np.asarray([b"a", b"b"])]
)
def test_an_output_that_is_no_classification_is_a_fault_of_the_release_file(answers: NDArray[Any]) -> None:
    """When the named output holds neither scores nor classes the message points at `validation.output`."""
    with pytest.raises(SpecError, match=r"validation\.output"):
        _scored(_golden([0, 1]), answers)


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4), st.integers(0, 4)), min_size=1, max_size=30))
def test_shares_are_those_of_counting(rows: list[tuple[int, int, int]]) -> None:
    """Accuracy, agreement and the confusion matrix are what counting by hand gives."""
    labels, mine, theirs = ([row[part] for row in rows] for part in range(3))
    numbers = _scored(_golden(labels), _scores(mine, 5), _scores(theirs, 5))
    assert numbers.accuracy == pytest.approx(
        sum(a == b for a, b in zip(labels, mine, strict=True)) / len(rows)
    )
    assert numbers.agreement == pytest.approx(
        sum(a == b for a, b in zip(mine, theirs, strict=True)) / len(rows)
    )
    diagonal = sum(numbers.confusion[i][i] for i in range(len(numbers.classes)))
    assert diagonal == sum(numbers.columns["correct"])


def test_many_classes_are_shown_by_the_most_frequent() -> None:
    """With more classes than a person can read, the confusion matrix keeps the most frequent ones."""
    labels = [0] * 5 + list(range(50))
    numbers = _scored(_golden(labels), np.asarray(labels))
    assert len(numbers.classes) == 20
    assert 0 in numbers.classes


def _report(numbers: ValidationScores, successes: list[bool], stable: int | None = 2) -> dict[str, Any]:
    results = [
        {**item, "success": ok, "observed": None} for item, ok in zip(numbers.suite(), successes, strict=True)
    ]
    return validation_report(
        model="digits",
        version=3,
        stable_version=stable,
        created_at="2026-11-21 03:00:00",
        numbers=numbers,
        results=results,
        signature=_SIGNATURE,
    )


def test_the_report_is_json_and_refuses_with_numbers() -> None:
    """A report can be written as JSON; one unmet expectation refuses the version and names the numbers."""
    numbers = _scored(_golden([0, 1]), _scores([0, 1]), _scores([0, 2]))
    good, bad = _report(numbers, [True] * 4), _report(numbers, [True, True, True, False])
    assert json.loads(json.dumps(good)) == good
    require_validation(good)
    with pytest.raises(
        ValidationRefusedError, match=r"accuracy 1\.0000 over 2 rows, agreement with version 2 0\.5000"
    ):
        require_validation(bad)


def test_the_report_says_why_nothing_was_compared() -> None:
    """A stable version that was left out is a warning with the reason; nothing is said where nothing is live."""
    numbers = _scored(_golden([0]), _scores([0]))
    options: dict[str, Any] = {"created_at": "", "numbers": numbers, "results": []}
    told = validation_report(
        model="digits", version=2, stable_version=None, not_compared="an engine of old", **options
    )
    assert told["not_compared"] == "an engine of old"
    assert told["warnings"][0] == "nothing was compared with the version that is live: an engine of old"
    first = validation_report(model="digits", version=1, stable_version=None, **options)
    assert first["not_compared"] is None
    assert not any("live" in one for one in first["warnings"])


def test_nothing_checked_is_no_pass() -> None:
    """A report without results is a refusal."""
    numbers = _scored(_golden([0]), _scores([0]))
    report = validation_report(
        model="digits",
        version=1,
        stable_version=None,
        created_at="",
        numbers=numbers,
        results=[],
    )
    assert report["outcome"] == "fail"


def test_the_suite_has_no_agreement_without_a_stable_version() -> None:
    """Agreement is expected only where there is something to agree with."""
    alone, beside = _scored(_golden([0]), _scores([0])), _scored(_golden([0]), _scores([0]), _scores([0]))
    assert len(beside.suite()) == 4
    assert all(item["kwargs"].get("column") != "agrees" for item in alone.suite())


def test_great_expectations_understands_the_suite(monkeypatch: pytest.MonkeyPatch) -> None:
    """The suite runs in great-expectations and fails exactly where the numbers are too low."""
    monkeypatch.setenv("GX_ANALYTICS_ENABLED", "False")
    import great_expectations as gx
    import pandas as pd  # type: ignore[import-untyped, unused-ignore]
    from great_expectations.expectations.registry import get_expectation_impl

    numbers = _scored(_golden([0, 1, 2, 2]), _scores([0, 1, 2, 0]), _scores([0, 1, 2, 0]))
    context = gx.get_context(mode="ephemeral")
    asset = context.data_sources.add_pandas("golden").add_dataframe_asset("answers")
    batch = asset.add_batch_definition_whole_dataframe("all").get_batch(
        {"dataframe": pd.DataFrame(numbers.columns)}
    )
    suite = gx.ExpectationSuite(name="validation")
    for item in numbers.suite():
        suite.add_expectation(get_expectation_impl(item["type"])(**item["kwargs"]))
    results = batch.validate(suite).results
    assert [bool(result.success) for result in results] == [True, True, False, True]


def test_a_release_file_of_old_scores_classes() -> None:
    """Without a `kind` the answers are classes, as they were before there were kinds."""
    numbers = score(_golden([0, 1]), _scores([0, 1]), None, ClassificationValidation())
    assert (numbers.kind, numbers.figures()["accuracy"]) == ("classification", 1.0)


def test_an_output_that_is_not_there_is_named_with_those_that_are() -> None:
    """`validation.output` must name an output of the model, and the message lists them."""
    require_output(_SIGNATURE, "probabilities")
    with pytest.raises(SpecError, match=r"no output `text_output`.*Expected one of `probabilities`"):
        require_output(_SIGNATURE, "text_output")
