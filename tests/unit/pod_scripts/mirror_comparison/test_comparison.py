"""How two answers are held against each other, and what all pairs come to."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as st_numpy

from slipway_pod.mirror_comparison.comparison import classes_of, compare
from slipway_pod.mirror_comparison.report import ComparisonReport, quantiles
from slipway_pod.mirror_comparison.requests import Request
from slipway_pod.models.protocol import Answer, Tensor

_FLOATS = st_numpy.arrays(np.float32, st.tuples(st.integers(1, 4), st.integers(1, 4)))
_TOLERANCES = st.floats(0, 1)


def tensor(values: Any, datatype: str = "FP32", dtype: Any = np.float32) -> Tensor:
    return Tensor(datatype, np.array(values, dtype=dtype))


def differences(stable: Tensor, candidate: Tensor, *, absolute: float = 0.0, relative: float = 0.0) -> Any:
    return compare({"y": stable}, {"y": candidate}, absolute, relative, "y").differences


@given(values=_FLOATS, absolute=_TOLERANCES, relative=_TOLERANCES)
def test_an_answer_equals_itself(values: Any, absolute: float, relative: float) -> None:
    """Whatever is in it, NaN and infinities too, an answer does not differ from itself."""
    one = Tensor("FP32", values)
    assert differences(one, one, absolute=absolute, relative=relative) == ()


@given(
    stable=st.floats(-1e6, 1e6),
    candidate=st.floats(-1e6, 1e6),
    absolute=_TOLERANCES,
    relative=_TOLERANCES,
)
def test_the_tolerance_is_absolute_plus_relative_to_stable(
    stable: float, candidate: float, absolute: float, relative: float
) -> None:
    """Two numbers differ exactly when |a - b| > abs + rel * |a|, a being stable's."""
    found = differences(
        tensor([[stable]], "FP64", np.float64),
        tensor([[candidate]], "FP64", np.float64),
        absolute=absolute,
        relative=relative,
    )
    assert bool(found) == (abs(stable - candidate) > absolute + relative * abs(stable))


def test_the_element_that_is_furthest_beyond_is_told() -> None:
    """Of several that differ the worst in multiples of its tolerance is told, with its place; all are counted."""
    (found,) = differences(
        tensor([[100.0, 1.0, 5.0]]), tensor([[101.0, 1.75, 5.0]]), absolute=0.1, relative=0.001
    )
    assert (found.kind, found.index, found.elements) == ("values", (0, 1), 2)
    assert (found.stable, found.candidate) == (1.0, 1.75)


@pytest.mark.parametrize(("candidate", "shown"), [(math.nan, "nan"), (math.inf, "inf"), (-math.inf, "-inf")])
def test_what_is_not_finite_differs_and_can_be_written(candidate: float, shown: str) -> None:
    """A number that became none is a difference under any tolerance, and JSON can hold it."""
    (found,) = differences(tensor([[1.0]]), tensor([[candidate]]), absolute=1e9, relative=1.0)
    assert found.candidate == shown
    json.dumps(found.to_json(), allow_nan=False)


def test_other_shapes_types_and_names_differ() -> None:
    """A shape, a datatype or an output that only one side has is a difference whatever the values are."""
    kinds = {
        "shape": (tensor([[1.0]]), tensor([1.0])),
        "datatype": (tensor([[1.0]]), tensor([[1.0]], "FP64", np.float64)),
    }
    for kind, pair in kinds.items():
        assert [one.kind for one in differences(*pair, absolute=1e9)] == [kind]
    found = compare({"y": tensor([1.0])}, {"z": tensor([1.0])}, 0, 0, None).differences
    assert [(one.output, one.stable, one.candidate) for one in found] == [
        ("y", "there", "missing"),
        ("z", "missing", "there"),
    ]


def test_text_is_compared_and_never_told() -> None:
    """Texts must be equal; a difference says where, and not what anybody wrote."""
    one, other = (tensor([text], "BYTES", object) for text in (b"a user's words", b"others"))
    assert differences(one, one) == ()
    (found,) = differences(one, other)
    assert found.index == (0,)
    assert "words" not in json.dumps(found.to_json())


@pytest.mark.parametrize(
    ("values", "dtype", "classes"),
    [
        ([[0.1, 0.9], [0.8, 0.2]], np.float32, [1, 0]),
        ([[0.1, math.nan]], np.float32, [-1]),
        ([3, 1], np.int64, [3, 1]),
        ([[3], [1]], np.int64, [3, 1]),
        ([0.5, 0.1], np.float32, None),
        ([[[1.0, 2.0]]], np.float32, None),
    ],
)
def test_the_class_of_a_row(values: Any, dtype: Any, classes: list[int] | None) -> None:
    """Scores show the place of the highest, whole numbers themselves; anything else is no classification."""
    assert classes_of(Tensor("any", np.array(values, dtype))) == classes


def test_the_worst_differences_are_kept() -> None:
    """Of more differences than are kept the smallest go; a request that comes again is told once, with its times."""
    report = ComparisonReport(worst_kept=2)
    for body, value in ((b"a", 2.0), (b"b", 9.0), (b"a", 2.0), (b"c", 5.0)):
        ours, theirs = {"y": tensor([[1.0]])}, {"y": tensor([[value]])}
        report.add(
            Request(body), Answer(ours, "", 1), Answer(theirs, "", 1), compare(ours, theirs, 0.1, 0, None)
        )
    told = report.to_json()
    assert [one["candidate"] for one in told["differences"]] == [9.0, 5.0]
    assert told["counts"]["differ"] == 4
    assert told["outputs"] == {"y": {"compared": 4, "differ": 4}}


@given(
    st.lists(
        st.tuples(st.sampled_from(["", "HTTP 500"]), st.sampled_from(["", "HTTP 503"]), st.floats(0, 2)),
        max_size=30,
    )
)
def test_every_request_is_counted_in_one_place(pairs: list[tuple[str, str, float]]) -> None:
    """Compared, failed on one, on the other, on both: the counts sum up, and equal and differ to the compared."""
    report = ComparisonReport(worst_kept=5)
    for stable_failure, candidate_failure, value in pairs:
        ours = None if stable_failure else {"y": tensor([[1.0, 0.0]])}
        theirs = None if candidate_failure else {"y": tensor([[value, 1.0]])}
        found = None if ours is None or theirs is None else compare(ours, theirs, 0.5, 0, "y")
        report.add(Request(b""), Answer(ours, stable_failure, 1), Answer(theirs, candidate_failure, 1), found)
    counts = report.to_json()["counts"]
    outcomes = ("compared", "candidate_failed", "stable_failed", "both_failed")
    assert sum(counts[name] for name in outcomes) == len(pairs)
    assert counts["equal"] + counts["differ"] == counts["compared"] == counts["agree"] + counts["disagree"]
    assert report.judged == sum(1 for stable_failure, _, _ in pairs if not stable_failure)


def test_percentiles_are_of_what_was_measured() -> None:
    """Nearest rank: each percentile is a latency that was seen; without any there is none."""
    assert quantiles([]) is None
    found = quantiles([float(one) for one in range(1, 101)])
    assert found == {"avg": 50.5, "p50": 50.0, "p90": 90.0, "p99": 99.0}
