"""`kind: custom`: a scorer's figures are held against their limits as those of every other kind."""

from __future__ import annotations

import hashlib
import io
from typing import Any

import numpy as np
import pytest

from slipway_core.errors import SpecError, UserError
from slipway_core.gates.validation.gate import score, validation_report
from slipway_core.gates.validation.golden_set import GoldenSet
from slipway_core.gates.validation.kinds.custom import CustomValidation, custom_scores
from slipway_core.gates.validation.kinds.regression import RegressionValidation
from slipway_core.gates.validation.npz import read_arrays
from slipway_core.gates.validation.quality.slices import slice_figures
from slipway_core.gates.validation.scoring import given as giving
from slipway_core.gates.validation.scoring.given import pack_given
from slipway_core.gates.validation.scoring.returned import Returned, ReturnedFigure, read_returned
from slipway_core.reports.validation.page import render_report_html
from slipway_core.spec.release_file import parse_release_spec

ROWS = 100
GOLDEN = GoldenSet({}, np.arange(ROWS) % 2, slices={"site": np.arange(ROWS) % 4})
SURE = ReturnedFigure(value=4.0, low=3.0, high=5.0, samples=250)


def asked(figures: dict[str, Any], **more: Any) -> CustomValidation:
    """Return what a release file asks of a scorer."""
    return CustomValidation.model_validate(
        {"kind": "custom", "output": "y", "scorer": "s.py", "figures": figures, **more}
    )


def report(
    validation: CustomValidation,
    scores: dict[str, Any],
    figures: dict[str, ReturnedFigure] | None = None,
    *,
    compared: bool = False,
) -> dict[str, Any]:
    """Return the report of what a scorer returned; the library's part is done here, by comparing means."""
    returned = Returned(scores, figures or {}, "0" * 64)
    numbers = custom_scores(GOLDEN, returned, validation, compared=compared)
    results = []
    for one in numbers.suite():
        kwargs, values = one["kwargs"], numbers.columns.get(str(one["kwargs"].get("column")), [])
        known = [value for value in values if value is not None]
        observed = float(np.mean(known)) if known else None
        least, most = kwargs.get("min_value"), kwargs.get("max_value")
        success = "value" in kwargs or (
            observed is not None
            and (least is None or observed >= least)
            and (most is None or observed <= most)
        )
        results.append({**one, "success": success, "observed": observed})
    return validation_report(
        model="voice",
        version=2,
        stable_version=1 if compared else None,
        created_at="2026-11-22T00:00:00+00:00",
        numbers=numbers,
        results=results,
        slices=slice_figures(GOLDEN.slices, numbers),
    )


def test_means_and_figures_are_held_to_their_limits() -> None:
    """A mean over the rows and a figure of the scorer's own decide alike, each with its interval."""
    margin = np.full(ROWS, 0.3)
    validation = asked({"margin": {"min": 0.2}, "eer_percent": {"max": 10}})
    good = report(validation, {"margin": margin}, {"eer_percent": SURE})
    assert (good["outcome"], good["numbers"]["eer_percent"]) == ("pass", 4.0)
    (eer,) = [one for one in good["expectations"] if one["kwargs"].get("column") == "eer_percent"]
    assert (eer["interval"], eer["method"], eer["decision"]) == ([3.0, 5.0], "bootstrap", "met")
    bad = report(asked({"eer_percent": {"max": 2}}), {"margin": margin}, {"eer_percent": SURE})
    assert (bad["outcome"], bad["reasons"]) == ("fail", ["`eer_percent` is at most 2"])
    page = render_report_html(bad)
    assert "What the scorer found" in page
    assert "no limit" in page


@pytest.mark.parametrize("insists", [False, True])
def test_a_limit_inside_the_interval_is_not_decided(insists: bool) -> None:
    """A figure near its limit passes with a warning, or is inconclusive, as the release file says."""
    validation = asked({"eer_percent": {"max": 4.5}}, on_inconclusive="refuse" if insists else "warn")
    found = report(validation, {"a": np.zeros(ROWS)}, {"eer_percent": SURE})
    assert found["outcome"] == ("inconclusive" if insists else "warn")


def test_a_limit_of_one_is_a_limit_where_the_figure_is_no_share() -> None:
    """Between 0 and 1 percent is not between 0 and all: an interval that reaches beyond 1 is not decided."""
    validation = asked({"eer_percent": {"min": 0, "max": 1}}, on_inconclusive="refuse")
    near = ReturnedFigure(value=0.9, low=0.5, high=1.5, samples=250)
    assert report(validation, {"a": np.zeros(ROWS)}, {"eer_percent": near})["outcome"] == "inconclusive"
    spread = np.linspace(0.0, 1.95, ROWS)
    by_row = asked({"seconds": {"min": 0, "max": 1}}, on_inconclusive="refuse")
    assert report(by_row, {"seconds": spread})["outcome"] == "inconclusive"


def test_a_figure_without_an_interval_is_never_taken_for_sure() -> None:
    """Where the scorer was too slow for the bootstrap, its figure is not decided, however far from the limit."""
    validation = asked({"eer_percent": {"max": 50}}, on_inconclusive="refuse")
    found = report(validation, {"a": np.zeros(ROWS)}, {"eer_percent": ReturnedFigure(value=1.0, samples=9)})
    assert found["outcome"] == "inconclusive"
    assert "with too few rows for an interval" in found["reasons"][0]


@pytest.mark.parametrize("scores", [{"other": np.ones(ROWS)}, {"margin": np.full(ROWS, np.nan)}])
def test_a_figure_that_was_not_returned_is_not_met(scores: dict[str, Any]) -> None:
    """A limit of which nothing is known fails the version."""
    found = report(asked({"margin": {"min": 0.2}}), scores)
    assert (found["outcome"], found["reasons"]) == ("fail", ["`margin` is at least 0.2"])


def test_what_compares_with_stable_is_asked_where_one_is_live() -> None:
    """`agrees` and figures `against_stable` are left out of a first version, and asked of every other."""
    validation = asked({"margin": {"min": 0.2}, "rise": {"max": 1, "against_stable": True}})
    scores = {"margin": np.full(ROWS, 0.3), "agrees": np.zeros(ROWS)}
    first = report(validation, scores)
    assert (first["outcome"], first["numbers"]["agreement"]) == ("pass", None)
    second = report(validation, scores, compared=True)
    assert second["outcome"] == "fail"
    assert second["reasons"] == [
        "`rise` is at most 1",
        "at least 90.0% of the rows are answered as by the stable version",
    ]


def test_slices_see_what_the_scorer_calls_right() -> None:
    """A scorer's `correct` is the accuracy by slice."""
    correct = (np.arange(ROWS) % 4 != 3).astype(float)
    validation = asked({"correct": {"min": 0.5}}, slice_accuracy_min=0.5)
    found = report(validation, {"correct": correct})
    assert (found["outcome"], found["slices"][0]["part"], found["slices"][0]["value"]) == ("fail", "3", 0.0)


def test_the_worst_rows_are_shown() -> None:
    """The first score with a limit says which rows are worth a look."""
    margin = np.full(ROWS, 0.3)
    margin[7] = -0.4
    worst = report(asked({"margin": {"min": 0.2}}), {"margin": margin})["worst"][0]
    assert worst == {"row": 7, "label": "1", "figure": "margin", "score": -0.4}


def test_a_scorer_is_given_arrays_without_objects(monkeypatch: pytest.MonkeyPatch) -> None:
    """Inputs, labels and both versions' answers travel as plain arrays, equal ones as equal bytes, and not too many."""
    golden = GoldenSet({"text": np.array([b"a", "é".encode()], dtype=object)}, np.array([0, 1]))
    answers = {"y": np.ones((2, 3), np.float32)}
    packed = pack_given(golden, answers, None)
    assert packed == pack_given(golden, answers, None)
    arrays = read_arrays(packed, "given.npz")
    assert arrays.keys() == {"input/text", "label/label", "answer/y"}
    assert arrays["input/text"].tolist() == ["a", "é"]
    monkeypatch.setattr(giving, "GIVEN_LIMIT_BYTES", 10)
    with pytest.raises(Exception, match="too large for a scorer"):
        pack_given(golden, answers, answers)


def test_without_a_pod_it_is_not_scored() -> None:
    """Whoever scores answers in the worker is told that this kind is not scored there."""
    with pytest.raises(SpecError, match="scored by its scorer, in a pod"):
        score(GOLDEN, np.zeros(ROWS), None, asked({"a": {"min": 0}}))


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("{kind: custom, output: y, scorer: s.py, figures: {}}", "figures"),
        ("{kind: custom, output: y, scorer: s.py, figures: {a: {}}}", "needs `min` or `max`"),
        ("{kind: custom, output: y, scorer: s.py, figures: {a: {min: 2, max: 1}}}", "is above"),
        ("{kind: custom, output: y, figures: {a: {min: 2}}}", "scorer"),
        ("{kind: custom, output: y, scorer: ../s.py, figures: {a: {min: 2}}}", "scorer"),
        ("{kind: custom, output: y, scorer: s.py, figures: {a b: {min: 2}}}", "figures"),
    ],
)
def test_a_release_file_that_limits_nothing_is_refused(text: str, told: str) -> None:
    """A scorer without a limit, and one that is no plain name, are faults of the release file."""
    with pytest.raises(SpecError) as caught:
        parse_release_spec(f"model: voice\nsource: {{format: onnx}}\nvalidation: {text}\n", "voice.yaml")
    assert told in str(caught.value)


def test_a_limit_of_one_is_a_limit_of_an_error() -> None:
    """A share cannot be above 1, an error can: `mae_max: 1` is held against the interval."""
    golden = GoldenSet({}, np.zeros(ROWS))
    numbers = score(golden, np.full(ROWS, 0.5), None, RegressionValidation(mae_max=1.0))
    results = [{**one, "success": True, "observed": 0.5} for one in numbers.suite()]
    found = validation_report(
        model="m", version=1, stable_version=None, created_at="", numbers=numbers, results=results
    )
    assert (found["outcome"], found["warnings"]) == ("pass", [])


@pytest.mark.parametrize(("policy", "outcome"), [("refuse", "inconclusive"), ("warn", "warn")])
def test_one_row_with_a_score_does_not_decide(policy: str, outcome: str) -> None:
    """Where every other row has none, the interval of the mean is unknown, and the report says so."""
    margin = np.full(ROWS, np.nan)
    margin[7] = 0.9
    validation = asked({"margin": {"min": 0.2}}, on_inconclusive=policy)
    found = report(validation, {"margin": margin})
    assert found["outcome"] == outcome
    assert "with too few rows for an interval" in str(found["warnings"])
    margin[8:15] = np.linspace(0.7, 0.8, 7)
    assert report(validation, {"margin": margin})["outcome"] == "pass"


def test_agreement_of_no_row_is_not_met() -> None:
    """A scorer that tells the agreement, and of no row, has compared nothing."""
    scores = {"margin": np.full(ROWS, 0.3), "agrees": np.full(ROWS, np.nan)}
    found = report(asked({"margin": {"min": 0.2}}), scores, compared=True)
    assert found["outcome"] == "fail"
    assert found["reasons"] == ["at least 90.0% of the rows are answered as by the stable version"]
    assert report(asked({"margin": {"min": 0.2}}), scores)["outcome"] == "pass"


def test_interval_that_ends_before_it_begins_is_none() -> None:
    """Held against a limit it would be met from both sides."""
    with pytest.raises(ValueError, match="an interval from 9 to 1"):
        ReturnedFigure(value=5.0, low=9.0, high=1.0)


def test_infinite_score_that_a_pod_returned_is_refused() -> None:
    """The pod's program lets none through: whoever wrote it, it is not taken for a row without a score."""
    buffer = io.BytesIO()
    np.savez(buffer, loss=np.array([0.1, np.inf]))
    scores = buffer.getvalue()
    result = {
        "rows": 2,
        "given_sha256": "0" * 64,
        "figures": {},
        "scores": {"sha256": hashlib.sha256(scores).hexdigest()},
    }
    with pytest.raises(UserError, match="an infinite score"):
        read_returned(result, scores, 2)
