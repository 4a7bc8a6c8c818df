"""The validation gate: golden sets, scores, the suite, the report."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from include.model_release.errors import GoldenSetError, SpecError, ValidationRefusedError
from include.model_release.expectations import (
    GoldenSet,
    ValidationNumbers,
    golden_from_arrays,
    require_validation,
    score,
    suite_definition,
    validation_report,
)
from include.model_release.signature import ModelSignature, TensorSpec
from include.model_release.spec import Validation

_SIGNATURE = ModelSignature(
    inputs=(
        TensorSpec(name="pixels", datatype="FP32", shape=(-1, 4)),
        TensorSpec(name="text", datatype="BYTES", shape=(-1, 1)),
    ),
    outputs=(TensorSpec(name="probabilities", datatype="FP32", shape=(-1, 3)),),
)


def _arrays(rows: int = 6) -> dict[str, NDArray[Any]]:
    return {
        "pixels": np.linspace(0, 1, rows * 4).reshape(rows, 4),
        "text": np.asarray([["a"]] * rows),
        "label": np.arange(rows) % 3,
    }


def _golden(labels: list[int]) -> GoldenSet:
    return GoldenSet({"x": np.zeros((len(labels), 1))}, np.asarray(labels))


def _scores(predicted: list[int], classes: int = 3) -> NDArray[Any]:
    return np.eye(classes, dtype=np.float32)[predicted]


def test_a_golden_set_takes_the_models_datatypes() -> None:
    """float64 inputs become float32, text becomes bytes, and all keep their rows."""
    golden = golden_from_arrays(_arrays(), _SIGNATURE, "label")
    assert golden.rows == 6
    assert golden.inputs["pixels"].dtype == np.float32
    assert golden.inputs["text"][0, 0] == b"a"
    assert golden.labels.dtype == np.int64


@given(st.integers(1, 20), st.integers(1, 7))
def test_batches_hold_every_row_once(rows: int, size: int) -> None:
    """Batches are no larger than asked and put together are the golden set again."""
    golden = golden_from_arrays(_arrays(rows), _SIGNATURE, "label")
    batches = list(golden.batches(size))
    assert all(0 < chosen.stop - chosen.start <= size for chosen, _ in batches)
    joined = np.concatenate([inputs["pixels"] for _, inputs in batches])
    assert np.array_equal(joined, golden.inputs["pixels"])


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"pixels": None}, "`pixels` is missing"),
        ({"label": None}, "`label` is missing"),
        ({"pixel": np.zeros(6)}, "`pixel` is no input of the model"),
        ({"pixels": np.zeros((6, 5))}, r"`pixels` has shape \[6, 5\], the model takes \[-1, 4\]"),
        ({"pixels": np.zeros(6)}, r"`pixels` has shape \[6\]"),
        ({"pixels": np.zeros((5, 4))}, "`pixels` has 5 rows, the labels 6"),
        ({"pixels": np.zeros((6, 4), dtype=complex)}, "`pixels` holds complex128, the model takes FP32"),
        ({"pixels": np.asarray([["a"] * 4] * 6)}, "`pixels` holds <U1"),
        ({"pixels": np.full((6, 4), np.nan)}, "not finite"),
        ({"text": np.zeros((6, 1))}, "`text` holds float64, the model takes BYTES"),
        ({"label": np.zeros(6)}, "`label` holds float64, not whole numbers"),
        ({"label": np.zeros((6, 1), dtype=int)}, r"`label` has shape \[6, 1\]"),
        ({"label": np.zeros(0, dtype=int)}, "`label` has no rows"),
        ({"label": np.asarray(3)}, r"`label` has shape \[\]"),
    ],
)
def test_wrong_columns_are_named(changes: dict[str, Any], words: str) -> None:
    """A missing, unknown, mis-shaped or mistyped column is named with what the model takes."""
    arrays = {name: values for name, values in (_arrays() | changes).items() if values is not None}
    with pytest.raises(GoldenSetError, match=words) as caught:
        golden_from_arrays(arrays, _SIGNATURE, "label")
    assert "`pixels`: FP32[-1, 4]" in (caught.value.expected or "")


def test_whole_number_inputs_are_not_made_from_fractions() -> None:
    """An integer input given as floats is refused, since rounding would change it."""
    signature = ModelSignature(inputs=(TensorSpec(name="n", datatype="INT32", shape=(-1,)),), outputs=())
    with pytest.raises(GoldenSetError, match="the model takes INT32"):
        golden_from_arrays({"n": np.zeros(2), "label": np.zeros(2, dtype=int)}, signature, "label")


def test_several_faults_are_told_at_once() -> None:
    """One message names every column at fault."""
    with pytest.raises(GoldenSetError, match=r"`label` is missing; `text` is missing; `extra` is no input"):
        golden_from_arrays({"pixels": np.zeros((2, 4)), "extra": np.zeros(2)}, _SIGNATURE, "label")


def test_accuracy_and_agreement() -> None:
    """Accuracy is against the labels, agreement against the stable version's answers."""
    numbers = score(_golden([0, 1, 2, 2]), _scores([0, 1, 2, 0]), _scores([0, 2, 2, 0]))
    assert (numbers.rows, numbers.accuracy, numbers.agreement) == (4, 0.75, 0.75)
    assert numbers.columns["correct"] == [1, 1, 1, 0]
    assert numbers.columns["agrees"] == [1, 0, 1, 1]
    assert numbers.classes == (0, 1, 2)
    assert numbers.confusion == ((1, 0, 0), (0, 1, 0), (1, 0, 1))
    assert [(example.row, example.stable) for example in numbers.worst] == [(3, 0), (1, 2)]


def test_without_a_stable_version_there_is_no_agreement() -> None:
    """The first release of a model has nothing to agree with."""
    numbers = score(_golden([0, 1]), _scores([0, 1]))
    assert numbers.agreement is None
    assert "agrees" not in numbers.columns


@pytest.mark.parametrize("shape", [(3,), (3, 1)])
def test_predicted_classes_are_taken_as_they_are(shape: tuple[int, ...]) -> None:
    """An output of whole numbers, with or without a dimension of one, is the prediction itself."""
    numbers = score(_golden([5, 6, 7]), np.asarray([5, 6, 0]).reshape(shape))
    assert numbers.accuracy == pytest.approx(2 / 3)
    assert numbers.worst[0].confidence is None


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_scores_that_are_not_finite_are_wrong(bad: float) -> None:
    """A row with NaN or infinity counts as wrong even if its largest score is at the right place."""
    answers = _scores([0, 1])
    answers[0, 0] = bad
    numbers = score(_golden([0, 1]), answers)
    assert (numbers.accuracy, numbers.not_finite_rows) == (0.5, 1)
    assert numbers.columns["finite"] == [0, 1]
    assert "NaN" not in json.dumps(vars(numbers.worst[0]))


def test_unanswered_rows_are_refused() -> None:
    """Fewer answers than golden rows, such as empty tensors, are never scored."""
    with pytest.raises(ValidationRefusedError, match="did not answer every golden row"):
        score(_golden([0, 1]), np.zeros((0, 3)))


@pytest.mark.parametrize(
    "answers", [np.zeros((2, 1)), np.zeros((2, 3, 3)), np.zeros(2), np.asarray([b"a", b"b"])]
)
def test_an_output_that_is_no_classification_is_a_fault_of_the_release_file(answers: NDArray[Any]) -> None:
    """When the named output holds neither scores nor classes the message points at `validation.output`."""
    with pytest.raises(SpecError, match=r"validation\.output"):
        score(_golden([0, 1]), answers)


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4), st.integers(0, 4)), min_size=1, max_size=30))
def test_shares_are_those_of_counting(rows: list[tuple[int, int, int]]) -> None:
    """Accuracy, agreement and the confusion matrix are what counting by hand gives."""
    labels, mine, theirs = ([row[part] for row in rows] for part in range(3))
    numbers = score(_golden(labels), _scores(mine, 5), _scores(theirs, 5))
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
    numbers = score(_golden(labels), np.asarray(labels))
    assert len(numbers.classes) == 20
    assert 0 in numbers.classes


def _report(numbers: ValidationNumbers, successes: list[bool], stable: int | None = 2) -> dict[str, Any]:
    suite = suite_definition(Validation(), numbers.rows, stable is not None)
    results = [{**item, "success": ok, "observed": None} for item, ok in zip(suite, successes, strict=True)]
    return validation_report(
        model="digits",
        version=3,
        stable_version=stable,
        created_at="2026-11-21 03:00:00",
        numbers=numbers,
        validation=Validation(),
        results=results,
        signature=_SIGNATURE,
    )


def test_the_report_is_json_and_refuses_with_numbers() -> None:
    """A report can be written as JSON; one unmet expectation refuses the version and names the numbers."""
    numbers = score(_golden([0, 1]), _scores([0, 1]), _scores([0, 2]))
    good, bad = _report(numbers, [True] * 4), _report(numbers, [True, True, True, False])
    assert json.loads(json.dumps(good)) == good
    require_validation(good)
    with pytest.raises(
        ValidationRefusedError, match=r"accuracy 1\.0000 over 2 rows, agreement with version 2 0\.5000"
    ):
        require_validation(bad)


def test_the_report_says_why_nothing_was_compared() -> None:
    """A stable version that was left out is named with the reason; nothing is said where nothing is live."""
    numbers = score(_golden([0]), _scores([0]))
    options: dict[str, Any] = {
        "created_at": "",
        "numbers": numbers,
        "validation": Validation(),
        "results": [],
    }
    told = validation_report(
        model="digits", version=2, stable_version=None, not_compared="an engine of old", **options
    )
    assert told["not_compared"] == "an engine of old"
    first = validation_report(model="digits", version=1, stable_version=None, **options)
    assert first["not_compared"] is None


def test_nothing_checked_is_no_pass() -> None:
    """A report without results is a refusal."""
    numbers = score(_golden([0]), _scores([0]))
    report = validation_report(
        model="digits",
        version=1,
        stable_version=None,
        created_at="",
        numbers=numbers,
        validation=Validation(),
        results=[],
    )
    assert report["outcome"] == "refused"


def test_the_suite_has_no_agreement_without_a_stable_version() -> None:
    """Agreement is expected only where there is something to agree with."""
    assert len(suite_definition(Validation(), 10, has_stable=True)) == 4
    assert all(
        item["kwargs"].get("column") != "agrees"
        for item in suite_definition(Validation(), 10, has_stable=False)
    )


def test_great_expectations_understands_the_suite(monkeypatch: pytest.MonkeyPatch) -> None:
    """The suite runs in great-expectations and fails exactly where the numbers are too low."""
    monkeypatch.setenv("GX_ANALYTICS_ENABLED", "False")
    import great_expectations as gx
    import pandas as pd  # type: ignore[import-untyped, unused-ignore]
    from great_expectations.expectations.registry import get_expectation_impl

    numbers = score(_golden([0, 1, 2, 2]), _scores([0, 1, 2, 0]), _scores([0, 1, 2, 0]))
    context = gx.get_context(mode="ephemeral")
    asset = context.data_sources.add_pandas("golden").add_dataframe_asset("answers")
    batch = asset.add_batch_definition_whole_dataframe("all").get_batch(
        {"dataframe": pd.DataFrame(numbers.columns)}
    )
    suite = gx.ExpectationSuite(name="validation")
    for item in suite_definition(Validation(accuracy_min=0.9), numbers.rows, has_stable=True):
        suite.add_expectation(get_expectation_impl(item["type"])(**item["kwargs"]))
    results = batch.validate(suite).results
    assert [bool(result.success) for result in results] == [True, True, False, True]
