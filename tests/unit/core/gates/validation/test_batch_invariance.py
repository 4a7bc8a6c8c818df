"""A row is compared with itself: alone, again, and in batches of any size, whatever kind of answer it has."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from slipway_core.gates.validation.golden_set import GoldenSet
from slipway_core.gates.validation.health import health_of, probe_of, rows_to_probe
from slipway_core.gates.validation.kinds.classification import ClassificationValidation
from slipway_core.gates.validation.kinds.detections import DetectionsValidation

ROWS = 9
NUMBERS = np.eye(ROWS, dtype=np.float32) * 0.5 + 0.05
TEXTS = np.asarray([[f"row {row}".encode()] for row in range(ROWS)], dtype=object)
CLASSES = np.arange(ROWS)


def _checked(
    values: Any,
    batch: int,
    rows: int,
    *,
    mixed: Callable[[Any], Any] = lambda one: one,
    fixed: int | None = None,
) -> dict[str, str]:
    golden = GoldenSet({"x": np.arange(rows, dtype=float)}, np.arange(rows) % 2)

    def ask(chosen: Sequence[int]) -> dict[str, Any]:
        assert len(chosen) <= max(batch, fixed or 1)
        assert fixed is None or len(chosen) == fixed
        answered = values[list(chosen)]
        return {"y": mixed(answered) if len(chosen) > 1 else answered}

    probe = probe_of(ask, rows_to_probe(8, rows, fixed), fixed, batch)
    found = health_of(golden, NUMBERS[:rows], None, ClassificationValidation(), probe)
    return {one.name: one.status for one in found}


@pytest.mark.parametrize("values", [NUMBERS, TEXTS, CLASSES], ids=["numbers", "texts", "classes"])
@pytest.mark.parametrize("batch", range(1, 12))
@pytest.mark.parametrize("rows", [1, 2, 3, 7, 8, 9])
def test_a_batch_of_any_size_is_compared_row_by_row(values: Any, batch: int, rows: int) -> None:
    """A model whose rows are answered alone as in a batch passes, however few rows a request may have."""
    found = _checked(values, batch, rows)
    assert found["deterministic"] == "pass"
    assert found.get("batch_invariant", "pass") == "pass"
    assert ("batch_invariant" in found) == (min(batch, rows) > 1)


@pytest.mark.parametrize("values", [NUMBERS, TEXTS, CLASSES], ids=["numbers", "texts", "classes"])
@pytest.mark.parametrize("batch", range(2, 12))
def test_mixed_rows_are_told_at_any_batch_size(values: Any, batch: int) -> None:
    """A model that gives a row of a batch the answer of the next one is refused, with the last batch included."""
    assert _checked(values, batch, 8, mixed=lambda one: np.roll(one, 1, axis=0))["batch_invariant"] == "fail"
    assert _checked(values, batch, 8, mixed=lambda one: one[:-1])["batch_invariant"] == "fail"


@pytest.mark.parametrize(("fixed", "rows"), [(3, 9), (4, 8), (16, 16)])
def test_a_model_with_requests_of_one_size_is_asked_whole_requests(fixed: int, rows: int) -> None:
    """Its rows are asked again in requests of that size alone, and no batch is held against single rows."""
    values = np.arange(rows, dtype=np.float32)[:, None]
    golden = GoldenSet({"x": np.arange(rows, dtype=float)}, np.arange(rows) % 2)
    asked: list[int] = []

    def ask(chosen: Sequence[int]) -> dict[str, Any]:
        asked.append(len(chosen))
        return {"y": values[list(chosen)]}

    probe = probe_of(ask, rows_to_probe(8, rows, fixed), fixed, 32)
    found = health_of(golden, np.eye(rows) * 0.5 + 0.1, None, ClassificationValidation(), probe)
    assert set(asked) == {fixed}
    assert {one.name: one.status for one in found}["deterministic"] == "pass"
    assert "batch_invariant" not in {one.name for one in found}


@pytest.mark.parametrize("padding", [np.nan, 0.0, -1.0])
def test_lists_that_a_batch_fills_up_are_compared_without_what_fills_them(padding: float) -> None:
    """An image with two boxes has the same two alone and beside one with three; another box is another answer."""
    boxes = [np.full((count, 6), 0.1 * count, np.float32) for count in (1, 2, 3, 2, 1, 3, 2, 1)]

    def together(chosen: Sequence[int], extra: float = padding) -> dict[str, Any]:
        longest = max(len(boxes[row]) for row in chosen)
        filled = np.full((len(chosen), longest, 6), padding, np.float32)
        for place, row in enumerate(chosen):
            filled[place, : len(boxes[row])] = boxes[row]
            filled[place, len(boxes[row]) :, 0] = extra
        return {"detections": filled}

    golden = GoldenSet({"x": np.arange(8.0)}, np.zeros(0), unlabelled_rows=8)
    answers = together(range(8))["detections"]

    def status(ask: Callable[[Sequence[int]], dict[str, Any]]) -> str:
        found = health_of(golden, answers, None, DetectionsValidation(), probe_of(ask, range(8), None, 3))
        return {one.name: one.status for one in found}["batch_invariant"]

    assert status(together) == "pass"
    assert status(lambda rows: together(rows, 0.7)) == "fail"
