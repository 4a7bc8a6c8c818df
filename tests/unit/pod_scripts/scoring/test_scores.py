"""What a scorer returns is checked before anybody reads it, and figures get an interval by drawing rows anew."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from slipway_pod.scoring.child import main
from slipway_pod.scoring.scores import checked_scores, figures_of


@pytest.mark.parametrize(
    ("found", "told"),
    [
        (None, "a mapping of 1 to 64 arrays"),
        ({}, "a mapping of 1 to 64 arrays"),
        ({f"a{number}": [1.0] * 4 for number in range(65)}, "1 to 64 arrays"),
        ({"a": [1.0]}, "a number for each of 4 rows"),
        ({"a": [[1.0]] * 4}, "a number for each of 4 rows"),
        ({"a": ["x"] * 4}, "a number for each of 4 rows"),
        ({"a": [1j] * 4}, "a number for each of 4 rows"),
        ({"a": [{}] * 4}, "a number for each of 4 rows"),
        ({"../a": [1.0] * 4}, "letters, digits and _"),
        ({1: [1.0] * 4}, "letters, digits and _"),
    ],
)
def test_what_is_no_score_by_row_is_refused(found: Any, told: str) -> None:
    """Whatever a scorer returns, it is told what it must return."""
    with pytest.raises(ValueError, match=told):
        checked_scores(found, 4)


def test_scores_are_numbers() -> None:
    """Truth values are 0 and 1; NaN says that a row has none."""
    found = checked_scores({"a": [True, False], "b": [1, float("nan")]}, 2)
    assert found["a"].tolist() == [1.0, 0.0]
    assert found["b"][0] == 1.0
    assert np.isnan(found["b"][1])


@pytest.mark.parametrize("worst", [float("inf"), -float("inf")])
def test_infinite_score_is_refused(worst: float) -> None:
    """A loss without end is the worst that there is: left out, the rows that are good would decide alone."""
    with pytest.raises(ValueError, match=r"finite numbers as 'loss', .* for row 1"):
        checked_scores({"loss": [0.1, worst, 0.1]}, 3)


@pytest.mark.parametrize(
    ("figures", "told"),
    [
        (lambda _: None, "a mapping of at most 64"),
        (lambda _: {"a": 1.0}, "as no score is"),
        (lambda _: {"b c": 1.0}, "letters, digits and _"),
        (lambda _: {"b": "x"}, "could not convert"),
    ],
)
def test_what_is_no_figure_is_refused(figures: Any, told: str) -> None:
    """A figure must have a name of its own, and be a number."""
    with pytest.raises(ValueError, match=told):
        figures_of({"a": np.ones(4)}, figures, 0.95, 5)


def test_the_interval_of_a_mean_is_about_that_of_the_normal_distribution() -> None:
    """250 draws of 400 rows come near to the interval that theory has for a mean."""
    values = np.random.default_rng(3).normal(size=400)

    def figures(scores: Mapping[str, Any]) -> dict[str, float]:
        return {"centre": float(scores["a"].mean()), "nothing": float("nan")}

    found = figures_of({"a": values}, figures, 0.95, 60)
    half = 1.96 * values.std() / 20
    assert found["centre"]["low"] == pytest.approx(values.mean() - half, abs=0.02)
    assert found["centre"]["high"] == pytest.approx(values.mean() + half, abs=0.02)
    assert found["nothing"] == {"value": None, "low": None, "high": None, "samples": 0}


def test_without_time_there_is_no_interval() -> None:
    """Too few draws say nothing of how sure a figure is."""
    found = figures_of({"a": np.ones(4)}, lambda _: {"b": 1.0}, 0.95, 0)
    assert (found["b"]["value"], found["b"]["low"], found["b"]["samples"]) == (1.0, None, 0)


@pytest.mark.parametrize(
    ("program", "told"),
    [
        ("def score(", "SyntaxError"),
        ("x = 1", "no function score(inputs, labels, answers, stable)"),
        ("def score(*_): return 1", "a mapping of 1 to 64 arrays"),
    ],
)
def test_the_last_line_says_what_is_wrong(
    tmp_path: Any, capsys: pytest.CaptureFixture[str], program: str, told: str
) -> None:
    """The program that runs a scorer ends with 3, and its last line names the fault."""
    np.savez(tmp_path / "given.npz", **{"answer/y": np.ones(2)})
    (tmp_path / "scorer.py").write_text(program)
    arguments = [str(tmp_path / "given.npz"), str(tmp_path / "scorer.py"), "2", "0.95", "1", str(tmp_path)]
    assert main(arguments) == 3
    assert told in capsys.readouterr().out.splitlines()[-1]
