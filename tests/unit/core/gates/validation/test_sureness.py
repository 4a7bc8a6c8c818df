"""Few rows do not decide: intervals, warnings, the policy, lost classes and the health of the answers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from slipway_core.errors import ValidationInconclusiveError, ValidationRefusedError
from slipway_core.gates.validation.gate import require_validation, score, validation_report
from slipway_core.gates.validation.golden_set import GoldenSet
from slipway_core.gates.validation.health import Probe, health_of, probe_of
from slipway_core.gates.validation.intervals import mean_interval, share_interval
from slipway_core.gates.validation.kinds.classification import ClassificationValidation
from slipway_core.gates.validation.kinds.regression import RegressionValidation
from slipway_core.gates.validation.kinds.vectors import VectorsValidation
from slipway_core.gates.validation.scores import MEAN
from slipway_core.spec.validation import OutputHealth


def _report(golden: GoldenSet, answers: Any, stable: Any, validation: Any, probe: Probe | None = None) -> Any:
    """Return the report, its expectations evaluated as great-expectations does it: by the mean alone."""
    numbers = score(golden, answers, stable, validation)
    results = []
    for one in numbers.suite():
        result = {**one, "success": True, "observed": None}
        if one["type"] == MEAN:
            values = [value for value in numbers.columns[one["kwargs"]["column"]] if value is not None]
            observed = float(np.mean(values)) if values else None
            low, high = one["kwargs"]["min_value"], one["kwargs"]["max_value"]
            met = (
                observed is not None
                and (low is None or observed >= low)
                and (high is None or observed <= high)
            )
            result.update(observed=observed, success=met)
        results.append(result)
    return validation_report(
        model="m",
        version=2,
        stable_version=1,
        created_at="2026-11-22T00:00:00+00:00",
        numbers=numbers,
        results=results,
        health=health_of(golden, answers, stable, validation, probe),
    )


def _classes(rows: int, wrong: int) -> tuple[GoldenSet, Any]:
    labels = np.arange(rows) % 2
    predicted = labels.copy()
    predicted[:wrong] = 1 - predicted[:wrong]
    return GoldenSet({"x": np.arange(rows, dtype=float)}, labels), np.eye(2)[predicted] * 0.8 + 0.1


def test_twenty_rows_do_not_decide() -> None:
    """19 right of 20 may be 76 to 99 %: the figure decides by default, and the report says that it is not sure."""
    golden, answers = _classes(20, 1)
    report = _report(golden, answers, None, ClassificationValidation())
    assert report["outcome"] == "warn"
    assert "by these 20 rows anything from 0.76" in report["warnings"][0]
    require_validation(report)
    strict = ClassificationValidation(on_inconclusive="refuse")
    undecided = _report(golden, answers, None, strict)
    assert undecided["outcome"] == "inconclusive"
    with pytest.raises(ValidationInconclusiveError, match=r"0\.76"):
        require_validation(undecided)


def test_enough_rows_decide() -> None:
    """With a limit outside the interval there is nothing to warn of, either way."""
    golden, answers = _classes(1000, 20)
    sure = _report(golden, answers, None, ClassificationValidation(on_inconclusive="refuse"))
    assert (sure["outcome"], sure["warnings"]) == ("pass", [])
    golden, answers = _classes(1000, 200)
    refused = _report(golden, answers, None, ClassificationValidation(on_inconclusive="refuse"))
    assert refused["outcome"] == "fail"
    with pytest.raises(ValidationRefusedError):
        require_validation(refused)


def test_an_accuracy_of_nothing_is_no_plain_pass() -> None:
    """Without a limit nothing was held against anything: the report warns, and passes only where that is allowed."""
    golden, answers = _classes(100, 100)
    free = ClassificationValidation(accuracy_min=0.0)
    report = _report(golden, answers, None, free)
    assert report["outcome"] == "warn"
    assert "no limit is set for it" in report["warnings"][0]
    strict = free.model_copy(update={"on_inconclusive": "refuse"})
    assert _report(golden, answers, None, strict)["outcome"] == "inconclusive"


@pytest.mark.parametrize(("rows", "outcome"), [(1, "inconclusive"), (7, "inconclusive"), (8, "pass")])
def test_a_few_numbers_that_are_alike_decide_nothing(rows: int, outcome: str) -> None:
    """Their interval has no width, since rows drawn from so few are the same again: that is not to be sure."""
    golden = GoldenSet({}, np.arange(float(rows)))
    asked = RegressionValidation(mae_max=0.5, on_inconclusive="refuse")
    report = _report(golden, golden.labels + 0.25, None, asked)
    assert report["outcome"] == outcome


def test_vectors_without_labels_and_without_stable_decide_nothing() -> None:
    """A first encoder without labels is not passed as if it had been looked at."""
    golden = GoldenSet({}, np.zeros(0), unlabelled_rows=20)
    vectors = np.random.default_rng(1).normal(size=(20, 8))
    report = _report(golden, vectors, None, VectorsValidation())
    assert report["warnings"] == ["none of the model's answers was compared with a limit"]


def test_a_lost_class_refuses_although_nine_of_ten_rows_agree() -> None:
    """One class of twenty that is never told any more is 5 % of the rows, and a refusal."""
    labels = np.repeat(np.arange(20), 20)
    stable = np.eye(20)[labels]
    lost = labels.copy()
    lost[labels == 3] = 4
    golden = GoldenSet({"x": labels.astype(float)}, labels)
    report = _report(golden, np.eye(20)[lost], stable, ClassificationValidation())
    assert report["numbers"]["accuracy"] == 0.95
    assert report["outcome"] == "fail"
    assert any("3 (0 of 20 rows)" in reason for reason in report["reasons"])
    both = _report(golden, np.eye(20)[lost], np.eye(20)[lost], ClassificationValidation())
    assert both["outcome"] == "warn"


def test_intervals_are_those_of_the_literature() -> None:
    """Wilson's interval for 0 of 10 at 95 % ends at 27.8 %; a bootstrap holds the mean; equal rows are one point."""
    nothing = share_interval(0, 10, 0.95)
    assert (nothing.low, round(nothing.high, 3)) == (0.0, 0.278)
    spread = mean_interval([0.1, 0.4, 0.5, 0.9, 0.3, 0.7], 0.95)
    assert spread is not None
    assert spread.low < 0.483 < spread.high
    alike = mean_interval([0.5] * 9, 0.95)
    assert alike is not None
    assert (alike.low, alike.high) == (0.5, 0.5)
    assert mean_interval([None, float("nan")], 0.95) is None


def _statuses(golden: GoldenSet, answers: Any, stable: Any = None, **options: Any) -> dict[str, str]:
    validation = options.pop("validation", ClassificationValidation())
    return {one.name: one.status for one in health_of(golden, answers, stable, validation, **options)}


@pytest.mark.parametrize(
    ("damage", "check", "status"),
    [
        (lambda one: one * np.nan, "finite", "fail"),
        (lambda one: np.full_like(one, 0.5), "constant", "fail"),
        (lambda one: one * 3, "probability_sums", "fail"),
        (lambda one: np.round(one), "saturation", "warn"),
        (lambda one: one[:, :0], "empty", "fail"),
    ],
)
def test_answers_that_no_good_model_gives(damage: Any, check: str, status: str) -> None:
    """Each kind of damage is told by its check; good answers have none."""
    golden, answers = _classes(20, 1)
    assert set(_statuses(golden, answers).values()) == {"pass"}
    assert _statuses(golden, damage(answers), answers)[check] == status


def _probabilities(rows: int, classes: int, sure: float) -> Any:
    """Return a golden set, and softmax probabilities (rows x classes) that tell its labels."""
    logits = sure * np.random.default_rng(3).normal(size=(rows, classes))
    scores = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    labels = scores.argmax(axis=1)
    return GoldenSet({"x": np.arange(float(rows))}, labels), scores


@pytest.mark.parametrize("steps", [127, 255, 256])
@pytest.mark.parametrize("classes", [3, 10, 40])
def test_probabilities_that_int8_rounds_are_probabilities(classes: int, steps: int) -> None:
    """Scores in steps of a quantised softmax sum to 1 but for the rounding; with a row doubled or zeroed they fail."""
    golden, scores = _probabilities(300, classes, 3.0)
    rounded = (np.round(scores * steps) / steps).astype(np.float32)
    assert _statuses(golden, rounded, scores)["probability_sums"] == "pass"
    for factor in (2, 0):
        damaged = rounded.copy()
        damaged[7] *= factor
        assert _statuses(golden, damaged, scores)["probability_sums"] == "fail"


def test_a_sum_that_no_rounding_explains_is_refused() -> None:
    """Scores that lie on no steps, or on coarse ones, have the strict limit: 3 % too much in one row are refused."""
    golden, scores = _probabilities(300, 10, 3.0)
    for answers in (scores.astype(np.float32), scores.astype(np.float16), np.round(scores, 1)):
        damaged = (answers / answers.sum(axis=1, keepdims=True)).astype(answers.dtype)
        damaged[7] *= 1.03
        assert _statuses(golden, damaged, scores)["probability_sums"] == "fail"


def test_a_check_may_be_a_warning_or_off() -> None:
    """The release file's policy says what follows."""
    golden, answers = _classes(20, 1)
    warn = ClassificationValidation(health=OutputHealth(constant="warn", probability_sums="off"))
    found = _statuses(golden, np.full_like(answers, 0.5), validation=warn)
    assert found["constant"] == "warn"
    assert "probability_sums" not in found


def test_numbers_that_are_no_scores_have_no_sums() -> None:
    """A regressor's constant answer is refused; its numbers need not sum to anything."""
    golden = GoldenSet({"x": np.arange(9.0)}, np.arange(9.0))
    asked = RegressionValidation(mae_max=100)
    assert _statuses(golden, np.ones(9), validation=asked)["constant"] == "fail"
    assert "probability_sums" not in _statuses(golden, np.arange(9.0), validation=asked)


def test_rows_are_asked_alone_twice_and_together() -> None:
    """A model whose answer depends on the batch, or on nothing at all, is told; rows that got none are not alike."""
    golden, answers = _classes(8, 0)
    calls = iter(range(100))

    def ask(rows: Any, *, batch: float = 0.0, noise: float = 0.0) -> dict[str, Any]:
        extra = batch * (len(rows) > 1) + noise * next(calls)
        return {"probabilities": answers[list(rows)] + extra}

    good = probe_of(ask, range(8), None, 32)
    assert _statuses(golden, answers, probe=good)["batch_invariant"] == "pass"
    mixed = probe_of(lambda rows: ask(rows, batch=0.2), range(8), None, 32)
    assert _statuses(golden, answers, probe=mixed)["batch_invariant"] == "fail"
    rounded = probe_of(lambda rows: ask(rows, batch=0.02), range(8), None, 32)
    wide = ClassificationValidation(health=OutputHealth(batch_abs_tolerance=0.05))
    assert _statuses(golden, answers, probe=rounded)["batch_invariant"] == "fail"
    assert _statuses(golden, answers, probe=rounded, validation=wide)["batch_invariant"] == "pass"
    random = probe_of(lambda rows: ask(rows, noise=0.1), range(8), None, 32)
    assert _statuses(golden, answers, probe=random)["deterministic"] == "fail"
    short = probe_of(lambda rows: {"probabilities": answers[:1]}, range(1), None, 32)
    fewer = replace(short, alone=good.alone, together=short.alone, again=good.again)
    assert _statuses(golden, answers, probe=fewer)["batch_invariant"] == "fail"
    none = replace(good, again={"probabilities": []}, together={})
    assert _statuses(golden, answers, probe=none)["deterministic"] == "fail"
    assert _statuses(golden, answers, probe=none)["batch_invariant"] == "fail"
    fixed = probe_of(ask, range(8), 4, 32)
    assert fixed.together is None
    assert replace(fixed, together=None) == fixed
