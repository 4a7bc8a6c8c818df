"""The golden set's first rows, judged by great-expectations as a release's are: what they cannot tell is no drift."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from slipway.operators.revalidation.golden_check import _judged
from slipway_core.gates.validation.golden_set import GoldenSet
from slipway_core.spec.release_file import parse_release_spec

pytestmark = pytest.mark.timeout(600)
SPEC = parse_release_spec(
    "model: finder\nsource: {format: onnx}\nvalidation: {kind: ranking, output: scores}\n", "finder.yaml"
)
RELEVANT = np.tile([1.0, 0.0, 0.0], (4, 1))
SCORES = np.tile([0.9, 0.5, 0.1], (4, 1))


def judged(labels: np.ndarray, answers: np.ndarray, kept: np.ndarray | None) -> Any:
    """Return what the check says of the live version's answers."""
    parts: Any = SimpleNamespace(spec=SPEC)
    return _judged(parts, GoldenSet({}, labels), answers, kept)


def test_rows_without_a_figure_are_no_drift() -> None:
    """Of questions without a relevant document nothing can be said: nobody must be taken back for that."""
    assert judged(0 * RELEVANT, SCORES, SCORES).outcome == "passed"
    nothing = judged(0 * RELEVANT, SCORES, None)
    assert (nothing.outcome, "nothing was compared" in nothing.summary) == ("left_out", True)


def test_rows_with_one_decide() -> None:
    """Answers in another order than the labels', and such as are no numbers, are drift."""
    assert judged(RELEVANT, SCORES, SCORES).outcome == "passed"
    assert judged(RELEVANT, -SCORES, SCORES).outcome == "differs"
    assert judged(0 * RELEVANT, SCORES * np.nan, SCORES).outcome == "differs"
