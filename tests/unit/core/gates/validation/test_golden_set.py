"""The golden set: its columns are those of the model, its labels those of the kind of answer."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from slipway_core.errors import GoldenSetError
from slipway_core.gates.validation.golden_set import golden_from_arrays
from slipway_core.gates.validation.kinds.text import TextValidation
from slipway_core.gates.validation.kinds.vectors import VectorsValidation
from slipway_core.row_axes import RowAxes
from slipway_core.spec.validation import Validation
from slipway_core.tensors import ModelSignature, TensorSpec

_SIGNATURE = ModelSignature(
    inputs=(
        TensorSpec(name="pixels", datatype="FP32", shape=(-1, 4)),
        TensorSpec(name="text", datatype="BYTES", shape=(-1, 1)),
    ),
    outputs=(TensorSpec(name="probabilities", datatype="FP32", shape=(-1, 3)),),
)


def _arrays(rows: int = 6) -> dict[str, NDArray[Any]]:
    return {
        "pixels": np.linspace(0, 1, rows * 4).reshape(rows, 4),
        "text": np.asarray([["a"]] * rows),
        "label": np.arange(rows) % 3,
    }


def test_a_golden_set_takes_the_models_datatypes() -> None:
    """float64 inputs become float32, text becomes bytes, and all keep their rows."""
    golden = golden_from_arrays(_arrays(), _SIGNATURE, "label")
    assert golden.rows == 6
    assert golden.inputs["pixels"].dtype == np.float32
    assert golden.inputs["text"][0, 0] == b"a"
    assert golden.labels.dtype == np.int64


@given(st.integers(1, 20), st.integers(1, 7))
def test_batches_hold_every_row_once(rows: int, size: int) -> None:
    """Batches are no larger than asked and put together are the golden set again."""
    golden = golden_from_arrays(_arrays(rows), _SIGNATURE, "label")
    batches = list(golden.batches(size))
    assert all(0 < chosen.stop - chosen.start <= size for chosen, _ in batches)
    joined = np.concatenate([inputs["pixels"] for _, inputs in batches])
    assert np.array_equal(joined, golden.inputs["pixels"])


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"pixels": None}, "`pixels` is missing"),
        ({"label": None}, "`label` is missing"),
        ({"pixel": np.zeros(6)}, "`pixel` is not an input of the model"),
        ({"pixels": np.zeros((6, 5))}, r"`pixels` has shape \[6, 5\], the model takes \[-1, 4\]"),
        ({"pixels": np.zeros(6)}, r"`pixels` has shape \[6\]"),
        ({"pixels": np.zeros((5, 4))}, "`pixels` has 5 rows, the labels 6"),
        ({"pixels": np.zeros((6, 4), dtype=complex)}, "`pixels` holds complex128, the model takes FP32"),
        ({"pixels": np.asarray([["a"] * 4] * 6)}, "`pixels` holds <U1"),
        ({"pixels": np.full((6, 4), np.nan)}, "not finite"),
        ({"text": np.zeros((6, 1))}, "`text` holds float64, the model takes BYTES"),
        ({"label": np.zeros(6)}, "`label` holds float64, not whole numbers"),
        ({"label": np.zeros((6, 1), dtype=int)}, r"`label` has shape \[6, 1\]"),
        ({"label": np.zeros(0, dtype=int)}, "`label` has no rows"),
        ({"label": np.asarray(3)}, r"`label` has shape \[\]"),
    ],
)
def test_wrong_columns_are_named(changes: dict[str, Any], words: str) -> None:
    """A missing, unknown, mis-shaped or mistyped column is named with what the model takes."""
    arrays = {name: values for name, values in (_arrays() | changes).items() if values is not None}
    with pytest.raises(GoldenSetError, match=words) as caught:
        golden_from_arrays(arrays, _SIGNATURE, "label")
    assert "`pixels`: FP32[-1, 4]" in (caught.value.expected or "")


def test_whole_number_inputs_are_not_made_from_fractions() -> None:
    """An integer input given as floats is refused, since rounding would change it."""
    signature = ModelSignature(inputs=(TensorSpec(name="n", datatype="INT32", shape=(-1,)),), outputs=())
    with pytest.raises(GoldenSetError, match="the model takes INT32"):
        golden_from_arrays({"n": np.zeros(2), "label": np.zeros(2, dtype=int)}, signature, "label")


def test_several_faults_are_told_at_once() -> None:
    """One message names every column at fault."""
    with pytest.raises(
        GoldenSetError, match=r"`label` is missing; `text` is missing; `extra` is not an input"
    ):
        golden_from_arrays({"pixels": np.zeros((2, 4)), "extra": np.zeros(2)}, _SIGNATURE, "label")


def test_an_optional_input_may_be_left_out() -> None:
    """What the configuration calls optional is taken where it is given, and may be missing; nothing else may."""
    arrays = _arrays()
    assert "text" in golden_from_arrays(arrays, _SIGNATURE, "label", optional={"text"}).inputs
    del arrays["text"]
    assert set(golden_from_arrays(arrays, _SIGNATURE, "label", optional={"text"}).inputs) == {"pixels"}
    with pytest.raises(GoldenSetError, match="`text` is missing"):
        golden_from_arrays(arrays, _SIGNATURE, "label", optional={"pixels"})


@pytest.mark.parametrize(
    ("kind", "labels", "expected"),
    [
        ("regression", np.arange(6), [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]),
        ("regression", np.full(6, 0.5, np.float32), [0.5] * 6),
        ("text", np.array(["ä"] * 6), ["ä"] * 6),
        ("text", np.array(["ä".encode()] * 6), ["ä"] * 6),
    ],
)
def test_labels_are_of_the_kind_of_the_answers(kind: str, labels: NDArray[Any], expected: list[Any]) -> None:
    """A regressor's labels are numbers, a text model's are texts, as bytes or not."""
    golden = golden_from_arrays(
        {**_arrays(), "label": labels}, _SIGNATURE, "label", labelled=Validation.registry.get(kind).labels
    )
    assert golden.labels.tolist() == expected


@pytest.mark.parametrize(
    ("kind", "labels", "words"),
    [
        ("regression", np.array(["1"] * 6), "not numbers"),
        ("regression", np.array([1, 2, 3, 4, 5, np.nan]), "not finite"),
        ("text", np.arange(6), "`label` holds int64, not texts"),
        ("classification", np.array(["a"] * 6), "not whole numbers"),
    ],
)
def test_labels_of_another_kind_are_refused(kind: str, labels: NDArray[Any], words: str) -> None:
    """The message says what the labels hold and what this kind of answer wants."""
    with pytest.raises(GoldenSetError, match=words):
        golden_from_arrays(
            {**_arrays(), "label": labels}, _SIGNATURE, "label", labelled=Validation.registry.get(kind).labels
        )


def test_a_model_without_batches_is_asked_by_its_own_size() -> None:
    """Where the first size is the model's, a request has that many rows, whatever batch is asked for."""
    signature = ModelSignature(
        inputs=(
            TensorSpec(name="prompt", datatype="BYTES", shape=(1,)),
            TensorSpec(name="state", datatype="FP32", shape=(-1, 2)),
        ),
        outputs=(),
    )
    arrays = {"prompt": np.array(["a", "b"]), "state": np.zeros((2, 2)), "label": np.array(["x", "y"])}
    golden = golden_from_arrays(arrays, signature, "label", labelled=TextValidation.labels)
    assert [inputs["prompt"].tolist() for _, inputs in golden.batches(32)] == [[b"a"], [b"b"]]
    wide = ModelSignature(
        inputs=(*signature.inputs[:1], TensorSpec(name="state", datatype="FP32", shape=(2, 2))), outputs=()
    )
    with pytest.raises(GoldenSetError, match="no rows in common"):
        golden_from_arrays(arrays, wide, "label", labelled=TextValidation.labels)


_VOICE = ModelSignature(
    inputs=(
        TensorSpec(name="input", datatype="FP32", shape=(-1, -1)),
        TensorSpec(name="sr", datatype="INT64", shape=(1,)),
        TensorSpec(name="state", datatype="FP32", shape=(2, -1, 3)),
    ),
    outputs=(TensorSpec(name="output", datatype="FP32", shape=(-1, 1)),),
)


def _voice(rows: int = 5) -> dict[str, NDArray[Any]]:
    state = np.arange(2 * rows * 3, dtype=np.float32).reshape(2, rows, 3)
    return {
        "input": np.ones((rows, 7), np.float32),
        "sr": np.asarray(16000),
        "state": state,
        "label": np.arange(rows) % 2,
    }


def test_a_state_with_the_batch_second_and_a_single_number_are_asked() -> None:
    """A voice detector's state has its rows on the second axis, and the rate is the same in each request."""
    golden = golden_from_arrays(_voice(), _VOICE, "label")
    rows, inputs = list(golden.batches(2))[1]
    assert (rows.start, rows.stop) == (2, 4)
    assert {name: values.shape for name, values in inputs.items()} == {
        "input": (2, 7),
        "sr": (1,),
        "state": (2, 2, 3),
    }
    assert np.array_equal(inputs["state"], _voice()["state"][:, 2:4])
    assert golden.axes.describe().count("(guessed)") == 3
    assert golden.first(3).inputs["state"].shape == (2, 3, 3)


def test_a_model_without_an_axis_for_rows_gets_one_request_a_row() -> None:
    """The golden set holds the tensors of all rows, rows first; each request carries one of them, as it is."""
    signature = ModelSignature(
        inputs=(TensorSpec(name="image", datatype="FP32", shape=(3, 4, 4)),), outputs=()
    )
    arrays = {"image": np.zeros((5, 3, 4, 4), np.float32), "label": np.zeros(5, dtype=int)}
    golden = golden_from_arrays(arrays, signature, "label")
    assert [values["image"].shape for _, values in golden.batches(32)] == [(3, 4, 4)] * 5


@pytest.mark.parametrize(
    ("row_axis", "words"),
    [
        ({"state": 0}, r"`state` has 2 rows, the labels 5"),
        ({"state": 2}, r"`state` has shape \[2, 5, 3\], the model takes \[2, -1, 3\]|`state` has 3 rows"),
        ({"stat": 1}, r"`golden\.row_axis\.stat` is not a tensor of the model"),
        ({"input": "none"}, None),
    ],
)
def test_what_the_release_file_says_counts(row_axis: Any, words: str | None) -> None:
    """`golden.row_axis` is taken at its word, and a wrong one is an error that names the input."""
    if words is None:
        assert golden_from_arrays(_voice(), _VOICE, "label", row_axis=row_axis).rows == 5
        return
    with pytest.raises(GoldenSetError, match=words):
        golden_from_arrays(_voice(), _VOICE, "label", row_axis=row_axis)


def test_a_set_without_labels_is_for_kinds_that_can_be_compared() -> None:
    """Vectors can be held against the stable version's alone; a classifier needs labels."""
    arrays = {name: values for name, values in _voice().items() if name != "label"}
    golden = golden_from_arrays(arrays, _VOICE, "label", labelled=VectorsValidation.labels)
    assert (golden.rows, golden.has_labels) == (5, False)
    with pytest.raises(GoldenSetError, match="`label` is missing"):
        golden_from_arrays(arrays, _VOICE, "label")


def test_a_text_for_each_row_is_a_column() -> None:
    """Triton serves a model's own [rows] as [rows, 1], and the golden set is as its training wrote it."""
    arrays = _arrays() | {"text": np.asarray(["a", "b", "c", "d", "e", "f"])}
    golden = golden_from_arrays(arrays, _SIGNATURE, "label")
    assert golden.inputs["text"].shape == (6, 1)
    assert golden.inputs["text"][1, 0] == b"b"


def test_what_was_guessed_is_said() -> None:
    """The log tells for each input how its rows are taken, and which of that nobody has written."""
    axes = RowAxes({"state": 1, "rate": "none", "image": "request"}, guessed=frozenset({"state"}))
    assert axes.describe() == (
        "`state`: axis 1 (guessed), `rate`: the same in every request, `image`: a request for each row"
    )
