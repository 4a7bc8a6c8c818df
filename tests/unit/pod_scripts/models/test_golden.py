"""The golden set: what is wrong with one is told before a model sees it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from slipway_pod.errors import PodError
from slipway_pod.models.answers import rows_of_a_request
from slipway_pod.models.golden import read_arrays, read_golden
from slipway_pod.models.rows import GoldenRows
from slipway_pod.models.tensors import Signature, Tensor

PIXELS = Tensor("pixels", "FP32", (-1, 4))
WORDS = Tensor("words", "BYTES", (-1, 1))
FLOATS = np.zeros((3, 4), np.float32)


def golden_set(folder: Path, **arrays: Any) -> Path:
    np.savez(folder / "golden.npz", **arrays)
    return folder / "golden.npz"


def problem_of(path: Path, *inputs: Tensor) -> PodError:
    with pytest.raises(PodError) as raised:
        read_golden(path, "s3://b/golden.npz", inputs)
    assert raised.value.kind == "GoldenSetError"
    assert "s3://b/golden.npz" in raised.value.what
    assert raised.value.remedy
    return raised.value


def test_inputs_are_read_and_labels_left(tmp_path: Path) -> None:
    """What comes back is one array for each input, text as well as numbers."""
    path = golden_set(tmp_path, pixels=FLOATS, words=np.array([["a"], ["b"], ["c"]]), label=np.zeros(3))
    found = read_golden(path, "golden", (PIXELS, WORDS))
    assert {name: array.shape for name, array in found.items()} == {"pixels": (3, 4), "words": (3, 1)}


def test_an_optional_input_may_be_missing(tmp_path: Path) -> None:
    """It is left out where the golden set lacks it, and checked like any other where it is there."""
    optional = Tensor("words", "BYTES", (-1, 1), optional=True)
    assert set(read_golden(golden_set(tmp_path, pixels=FLOATS), "golden", (PIXELS, optional))) == {"pixels"}
    error = problem_of(golden_set(tmp_path, pixels=FLOATS, words=FLOATS), PIXELS, optional)
    assert "'words'" in error.what


def test_a_missing_column_is_told_with_what_looks_like_it(tmp_path: Path) -> None:
    """A column of nearly the right name is hinted at."""
    error = problem_of(golden_set(tmp_path, pixel=FLOATS), PIXELS)
    assert (error.expected, error.found) == ("one array for each of pixels", "pixel")
    assert "'pixel' looks like 'pixels'" in str(error.remedy)


@pytest.mark.parametrize(
    ("array", "found"),
    [
        (FLOATS.astype(np.float64), "float64 of shape [3, 4]"),
        (FLOATS[:, :2], "float32 of shape [3, 2]"),
        (FLOATS[0], "float32 of shape [4]"),
        (FLOATS.astype(str), "str1024 of shape [3, 4]"),
    ],
)
def test_a_column_of_another_type_or_shape_is_told(tmp_path: Path, array: Any, found: str) -> None:
    """Type and shape must be the input's, but for the number of rows."""
    error = problem_of(golden_set(tmp_path, pixels=array), PIXELS)
    assert error.expected == "float32 of shape ['rows', 4] (-1: any size)"
    assert error.found == found


def test_an_input_of_unknown_rank_takes_any(tmp_path: Path) -> None:
    """Where the model does not state a rank, the golden set's is taken."""
    path = golden_set(tmp_path, pixels=FLOATS)
    assert set(read_golden(path, "golden", (Tensor("pixels", "FP32", ()),))) == {"pixels"}


@pytest.mark.parametrize("words", [np.empty((0, 1), "U1"), np.array([["a"], ["b"]])])
def test_rows_must_be_there_and_as_many_in_each_column(tmp_path: Path, words: Any) -> None:
    """An empty set, or columns of different length, are told with their rows."""
    pixels = FLOATS[: len(words)] if len(words) == 0 else FLOATS
    error = problem_of(golden_set(tmp_path, pixels=pixels, words=words), PIXELS, WORDS)
    assert error.found == f"pixels: {len(pixels)}, words: {len(words)}"


@pytest.mark.parametrize("content", [b"", b"no archive", b"PK\x03\x04broken"])
def test_what_is_no_archive_is_told(tmp_path: Path, content: bytes) -> None:
    """A file that NumPy cannot read is named with its size."""
    path = tmp_path / "golden.npz"
    path.write_bytes(content)
    assert f"{len(content)} bytes" in str(problem_of(path, PIXELS).found)


def test_nothing_is_unpickled(tmp_path: Path) -> None:
    """An archive of objects would be a pickle, and is refused."""
    path = golden_set(tmp_path, pixels=np.array([{"a": 1}], dtype=object))
    with pytest.raises(PodError, match="cannot be read"):
        read_arrays(path, "golden")


def test_a_model_says_how_many_rows_it_wants() -> None:
    """A fixed first dimension is the number of rows at a time; 0 is any number."""
    fixed = Tensor("pixels", "FP32", (8, 4))
    found = [
        rows_of_a_request(Signature((tensor,), ()), GoldenRows({"pixels": FLOATS}, {"pixels": 0}, 3))
        for tensor in (PIXELS, fixed)
    ]
    assert found == [0, 8]
    whole = GoldenRows({"pixels": FLOATS}, {"pixels": "request"}, 3)
    assert rows_of_a_request(Signature((PIXELS,), ()), whole) == 1


VOICE = (Tensor("input", "FP32", (-1, -1)), Tensor("state", "FP32", (2, -1, 3)), Tensor("rate", "INT64", ()))


def voice(**changes: Any) -> dict[str, Any]:
    arrays = {
        "input": np.zeros((5, 4), np.float32),
        "state": np.arange(30, dtype=np.float32).reshape(2, 5, 3),
        "rate": np.asarray(16000),
    }
    return arrays | changes


def test_rows_may_lie_on_another_axis_or_on_none(tmp_path: Path) -> None:
    """A state's second axis is found to be the batch, and a single number is the same in every request."""
    found = read_golden(golden_set(tmp_path, **voice()), "golden", VOICE)
    assert (found.rows, found.axes) == (5, {"input": 0, "state": 1, "rate": "none"})
    taken = found.take([3, 1])
    assert (taken["state"].shape, taken["rate"].shape) == ((2, 2, 3), ())
    assert taken["state"][0, 0].tolist() == [9, 10, 11]
    assert found.first(2)["state"].shape == (2, 2, 3)


def test_what_is_said_of_an_axis_counts(tmp_path: Path) -> None:
    """`--row-axis` comes before what shapes tell, and a wrong one is told with the column."""
    path = golden_set(tmp_path, **voice())
    with pytest.raises(PodError) as raised:
        read_golden(path, "golden", VOICE, [("state", 0)])
    assert "not the same number in each column" in raised.value.what
    assert "state: 2" in str(raised.value.found)


def test_a_single_number_is_served_as_a_tensor_of_one_element(tmp_path: Path) -> None:
    """The converted model takes [1] where its source takes a number."""
    served = (*VOICE[:2], Tensor("rate", "INT64", (1,)))
    found = read_golden(golden_set(tmp_path, **voice()), "golden", served)
    assert found.take([0])["rate"].tolist() == [16000]
