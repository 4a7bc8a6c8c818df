"""Recorded inputs against the golden set's: what is the same, what has moved, and what too few rows tell."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slipway_core.operations.revalidation.input_drift import COLUMNS_LIMIT, input_drift, rows_of
from tests.support.examples import examples

LIMIT = 0.2


def drawn(seed: int, rows: int = 500, columns: int = 4, shift: float = 0.0) -> np.ndarray:
    return np.random.default_rng(seed).normal(shift, 1.0, (rows, columns)).astype(np.float32)


def test_the_same_distribution_is_no_drift() -> None:
    """Two samples of one distribution differ by chance alone."""
    (found,) = input_drift({"x": drawn(1)}, {"x": drawn(2)}, LIMIT)
    assert not found.is_drift
    assert 0 < found.statistic < LIMIT


def test_one_column_that_moved_is_found_and_named() -> None:
    """One among others is enough."""
    recorded = drawn(2)
    recorded[:, 2] += 1.5
    (found,) = input_drift({"x": drawn(1)}, {"x": recorded}, LIMIT)
    assert (found.is_drift, found.column) == (True, 2)


def test_a_small_difference_is_none_however_sure() -> None:
    """With very many rows any difference is sure; it must be large as well."""
    (found,) = input_drift({"x": drawn(1, rows=50_000)}, {"x": drawn(2, rows=50_000, shift=0.1)}, LIMIT)
    assert not found.is_drift


def test_a_few_rows_alone_are_no_drift() -> None:
    """Many columns of few rows: the furthest of them is far away by chance."""
    (found,) = input_drift({"x": drawn(1, rows=60, columns=150)}, {"x": drawn(2, rows=60, columns=150)}, 0.1)
    assert found.statistic > 0.1
    assert not found.is_drift


@pytest.mark.parametrize("kind", [object, "S20", "U20"])
def test_of_texts_the_lengths_are_compared(kind: object) -> None:
    """Whatever NumPy holds them in."""
    short = np.array([["a" * (number % 5 + 1)] for number in range(200)]).astype(kind)  # type: ignore[call-overload]
    long = np.array([["a" * (number % 5 + 10)] for number in range(200)]).astype(kind)  # type: ignore[call-overload]
    assert not input_drift({"t": short}, {"t": short}, LIMIT)[0].is_drift
    assert input_drift({"t": short}, {"t": long}, LIMIT)[0].is_drift


def test_another_width_is_drift_and_wide_inputs_are_sampled() -> None:
    """An input of another shape is never the same; of very many columns some are compared."""
    assert input_drift({"x": drawn(1)}, {"x": drawn(1, columns=5)}, LIMIT)[0].is_drift
    wide = drawn(1, rows=60, columns=3 * COLUMNS_LIMIT)
    assert not input_drift({"x": wide}, {"x": wide}, LIMIT)[0].is_drift


def test_rows_are_those_that_every_input_has() -> None:
    """Nothing has none."""
    assert rows_of({}) == 0
    assert rows_of({"x": drawn(1), "y": drawn(1, rows=7)}) == 7


@settings(max_examples=examples(30), deadline=None)
@given(st.integers(0, 2**32 - 1), st.sampled_from([np.nan, np.inf, -np.inf]))
def test_a_sample_never_drifts_from_itself(seed: int, hole: float) -> None:
    """Nor with values that are not finite."""
    values = drawn(seed, rows=80)
    values[0, 0] = hole
    (found,) = input_drift({"x": values}, {"x": values[::-1]}, LIMIT)
    assert (found.statistic, found.is_drift) == (0.0, False)
