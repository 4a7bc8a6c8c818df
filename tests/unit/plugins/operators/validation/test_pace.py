"""How many golden rows a request of validation has: as many as the staged model answers within the request's limit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from slipway.hooks.triton import TritonHook
from slipway.operators.staging import StagedModel
from slipway.operators.validation import asking
from slipway.operators.validation.asking import GoldenQuestions
from slipway_core.gates.validation.golden_set import golden_from_arrays
from slipway_core.gates.validation.kinds.classification import ClassificationValidation
from slipway_core.tensors import ModelSignature, TensorSpec

ROWS, CLASSES = 12, 3
SIGNATURE = ModelSignature(
    inputs=(TensorSpec(name="x", datatype="FP32", shape=(-1, CLASSES)),),
    outputs=(TensorSpec(name="scores", datatype="FP32", shape=(-1, CLASSES)),),
)
LABELS = np.arange(ROWS) % CLASSES
X = np.eye(CLASSES, dtype=np.float32)[LABELS]


class Hook:
    """A staged model that takes its time for each row; the clock is its own."""

    timeout_s = 10.0

    def __init__(self, row_s: float, first_s: float = 0.0) -> None:
        self.row_s, self.first_s, self.now, self.asked = row_s, first_s, 0.0, list[int]()

    def monotonic(self) -> float:
        """The time."""
        return self.now

    def infer(
        self, name: str, version: int, inputs: Mapping[str, np.ndarray], outputs: Sequence[str]
    ) -> dict[str, Any]:
        """The inputs are the scores."""
        self.now += self.row_s * len(inputs["x"]) + (0.0 if self.asked else self.first_s)
        self.asked.append(len(inputs["x"]))
        return dict.fromkeys(outputs, inputs["x"])


@pytest.mark.parametrize(
    ("hook", "rows", "alone"),
    [
        (Hook(0.001), 8, 1),
        (Hook(1.0), 2, 2),
        (Hook(4.0), 1, 2),
        (Hook(0.001, first_s=5.0), 8, 2),
    ],
    ids=["fast", "slow", "slowest", "slow-to-warm-up"],
)
def test_requests_fit_the_pace_of_the_model(
    monkeypatch: pytest.MonkeyPatch, hook: Hook, rows: int, alone: int
) -> None:
    """A quarter of the limit of 10 s, by one row alone; one that has to warm up is asked once more."""
    clock = SimpleNamespace(monotonic=hook.monotonic, perf_counter=hook.monotonic)
    monkeypatch.setattr(asking, "time", clock)
    golden = golden_from_arrays({"x": X, "label": LABELS}, SIGNATURE, "label")
    questions = GoldenQuestions(
        cast(TritonHook, hook), ClassificationValidation(output="scores", batch_size=8), golden
    )
    config = {"max_batch_size": 8, "output": [{"name": "scores"}]}
    found = questions.ask(StagedModel(name="digits", version=1, config=config))
    assert found.answers.tolist() == X.tolist()
    assert hook.asked[:alone] == [1] * alone
    assert max(hook.asked[alone:]) == rows
    assert sum(hook.asked[alone:]) == ROWS


def test_a_ragged_model_is_asked_one_row_a_request() -> None:
    """Whatever the batch, where the golden set says that each row is a request."""
    hook = Hook(0.001)
    golden = golden_from_arrays({"x": X, "label": LABELS}, SIGNATURE, "label", row_by_row=True)
    questions = GoldenQuestions(
        cast(TritonHook, hook), ClassificationValidation(output="scores", batch_size=8), golden
    )
    questions.ask(StagedModel(name="digits", version=1, config={"max_batch_size": 8}))
    assert hook.asked == [1] * ROWS
