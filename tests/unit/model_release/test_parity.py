"""Parity of source and converted model."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.typing import NDArray

from include.model_release.errors import ParityRefusedError, SlipwayError
from include.model_release.parity import OutputParity, compare, parse_parity, require_parity

_TYPES: list[np.dtype[Any]] = [np.dtype("f4"), np.dtype("i8"), np.dtype("?")]
_ARRAYS: st.SearchStrategy[NDArray[Any]] = hnp.arrays(
    st.sampled_from(_TYPES), hnp.array_shapes(max_dims=3, max_side=4)
)


def _one(source: Any, converted: Any, abs_tolerance: float = 0.0, rel_tolerance: float = 0.0) -> OutputParity:
    (parity,) = compare({"y": np.asarray(source)}, {"y": np.asarray(converted)}, abs_tolerance, rel_tolerance)
    return parity


@given(_ARRAYS)
def test_everything_agrees_with_itself(values: NDArray[Any]) -> None:
    """Any output, NaN and infinities included, agrees with itself without tolerance."""
    parity = _one(values, values.copy())
    assert parity.passed
    assert (parity.max_abs_diff, parity.mismatched_rows, parity.rows) == (0.0, 0, values.shape[0])


@given(
    hnp.arrays(np.float64, (5, 3), elements=st.floats(-10, 10)),
    hnp.arrays(np.float64, (5, 3), elements=st.floats(-10, 10)),
    st.floats(0, 1),
    st.floats(0, 1),
)
def test_the_rule_is_that_of_allclose(
    one: NDArray[Any], other: NDArray[Any], absolute: float, relative: float
) -> None:
    """Rows pass exactly when |source - converted| <= abs + rel * |source| for all their elements."""
    parity = _one(one, other, absolute, relative)
    close = np.abs(one - other) <= absolute + relative * np.abs(one)
    assert parity.mismatched_rows == int((~close.all(axis=1)).sum())
    assert parity.passed == close.all()


def test_numbers_and_worst_rows_are_told() -> None:
    """The largest differences and the worst rows, worst first, are in the result."""
    parity = _one([[1.0, 2.0], [1.0, 2.0], [4.0, 0.0]], [[1.0, 2.0], [1.5, 2.0], [4.0, 1.0]], 1e-3)
    assert parity.max_abs_diff == 1.0
    assert parity.mismatched_rows == 2
    assert [row["row"] for row in parity.worst] == [2, 1]
    assert parity.worst[1] == {"row": 1, "source": [1.0, 2.0], "converted": [1.5, 2.0]}


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_on_one_side_never_agrees(bad: float) -> None:
    """NaN or infinity against a number fails however wide the tolerance; the result is still valid JSON."""
    parity = _one([1.0, 2.0], [1.0, bad], 1e9, 1e9)
    assert not parity.passed
    assert parity.mismatched_rows == 1
    json.loads(parity.model_dump_json())
    assert "NaN" not in json.dumps(parity.model_dump(mode="json"))


def test_outputs_that_cannot_be_compared_do_not_pass() -> None:
    """A missing output or another shape is a failure with a reason, not an exception."""
    results = compare({"a": np.zeros(2), "b": np.zeros(2)}, {"b": np.zeros((2, 1)), "c": np.zeros(2)}, 1, 1)
    assert [result.passed for result in results] == [False, False, False]
    assert [result.note for result in results] == [
        "the converted model has no such output",
        "the shape was [2] and is [2, 1]",
        "the source has no such output",
    ]


def test_text_must_be_equal() -> None:
    """Text outputs agree only when they are the same."""
    assert _one(["a", "b"], ["a", "b"]).passed
    parity = _one([b"a", b"b"], [b"a", b"c"], 1e9)
    assert (parity.passed, parity.mismatched_rows, parity.max_abs_diff) == (False, 1, None)
    assert parity.worst[0]["converted"] == ["c"]


def test_no_rows_are_no_pass() -> None:
    """An empty golden set proves nothing."""
    assert not _one(np.zeros((0, 3)), np.zeros((0, 3))).passed


def test_the_pods_json_is_read() -> None:
    """What the conversion pod writes is read, with `pass` as the pod spells it, and written alike."""
    entry = {
        "output": "probabilities",
        "max_abs_diff": 1e-7,
        "max_rel_diff": 1e-6,
        "rows": 360,
        "mismatched_rows": 0,
        "pass": True,
        "measure": "top_k",
        "within_share": 0.97,
        "cosine_min": 0.9998,
        "top_1_agreement": 0.99,
        "top_k": 3,
        "top_k_agreement": 0.995,
        "worst": [],
    }
    (parity,) = parse_parity([entry])
    assert parity.passed
    assert parity.model_dump(mode="json", by_alias=True, exclude={"note"}) == entry


@pytest.mark.parametrize(
    "value", [None, {}, [3], [{"output": "y"}], [{"output": "y", "pass": True, "rows": -1}]]
)
def test_broken_json_is_refused(value: object) -> None:
    """What is no list of parities is an error of the pod, in plain words."""
    with pytest.raises(SlipwayError, match="no readable `parity`"):
        parse_parity(value)


def test_the_gate_refuses_with_numbers() -> None:
    """The refusal names model, output, rows and the largest difference; nothing compared is refused too."""
    require_parity([_one([1.0], [1.0])], "digits")
    with pytest.raises(ParityRefusedError, match=r"digits.*`y`: 1 of 2 rows differ, largest difference 3"):
        require_parity([_one([1.0, 2.0], [1.0, 5.0])], "digits")
    with pytest.raises(ParityRefusedError, match="no output was compared"):
        require_parity([], "digits")
