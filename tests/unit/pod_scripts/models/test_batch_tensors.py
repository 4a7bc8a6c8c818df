"""What Triton makes of a batch, as a converter emulates it for a request of one row."""

from __future__ import annotations

import argparse
import json
from typing import Any

import numpy as np
import pytest

from slipway_core.triton_config.pbtxt import from_pbtxt
from slipway_core.triton_config.ragged import batch_tensors_arguments, is_asked_row_by_row
from slipway_pod.models.batch_tensors import BatchTensors, Made, batch_tensors
from slipway_pod.models.rows import GoldenRows
from slipway_pod.models.tensors import Tensor

CONFIG = """
max_batch_size: 8
input { name: "x" data_type: TYPE_FP32 dims: [ -1, 3 ] allow_ragged_batch: true }
input { name: "scale" data_type: TYPE_FP32 dims: 1 }
output { name: "y" data_type: TYPE_FP32 dims: [ -1, 3 ] }
batch_input { kind: BATCH_ITEM_SHAPE target_name: "sizes" data_type: TYPE_INT32 source_input: "x" }
batch_output { target_name: "y" kind: BATCH_SCATTER_WITH_INPUT_SHAPE source_input: "x" }
"""
UNKNOWN = {"kind": "K", "datatype": "FP32", "source": "x", "targets": []}


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("BATCH_ELEMENT_COUNT", [6]),
        ("BATCH_ACCUMULATED_ELEMENT_COUNT", [6]),
        ("BATCH_ACCUMULATED_ELEMENT_COUNT_WITH_ZERO", [0, 6]),
        ("BATCH_MAX_ELEMENT_COUNT_AS_SHAPE", [0, 0, 0, 0, 0, 0]),
        ("BATCH_ITEM_SHAPE", [[2, 3]]),
        ("BATCH_ITEM_SHAPE_FLATTEN", [2, 3]),
    ],
)
def test_each_kind_counts_one_request(kind: str, expected: Any) -> None:
    """Of a request with one row of two by three elements, as `backend_input_collector.cc` has it."""
    values = Made(kind, "INT32", "x", ("n",)).of((1, 2, 3))
    assert (values.dtype.name, values.tolist()) == ("int32", expected)


def told(text: str = CONFIG, size: int = 8) -> BatchTensors:
    """The argument that the operator makes of a configuration, as the converter reads it."""
    option, value = batch_tensors_arguments(from_pbtxt(text), size)
    assert option == "--batch-tensors"
    return batch_tensors(value)


def test_a_request_is_fed_as_triton_feeds_it() -> None:
    """Clients send rows without what Triton makes; the model gets one flat tensor, and clients the input's shape."""
    batch = told()
    own = (Tensor("x", "FP32", (-1,)), Tensor("scale", "FP32", (-1, 1)), Tensor("sizes", "INT32", (-1, 2)))
    assert [(one.name, one.shape) for one in batch.sent(own)] == [("x", (-1, -1, 3)), ("scale", (-1, 1))]
    x, scale = np.arange(12, dtype=np.float32).reshape(2, 2, 3), np.ones((2, 1), np.float32)
    golden = GoldenRows({"x": x, "scale": scale}, {}, 2, batch=batch)
    feeds = golden.first(2).take([1])
    assert feeds["x"].tolist() == [6, 7, 8, 9, 10, 11]
    assert feeds["scale"].shape == (1, 1)
    assert feeds["sizes"].tolist() == [[2, 3]]
    assert golden.answered("y", np.zeros(6), [1]).shape == (1, 2, 3)
    assert golden.answered("other", np.zeros((1, 5)), [1]).shape == (1, 5)


def test_without_batches_the_flat_input_is_a_row() -> None:
    """`max_batch_size: 0` gives requests no dimension for a batch."""
    assert told(size=0).ragged == {"x": (-1, 3)}


def test_other_models_are_told_nothing() -> None:
    """A configuration without such tensors makes no argument, and requests of any number of rows."""
    config = from_pbtxt('max_batch_size: 8 input { name: "x" data_type: TYPE_FP32 dims: 3 }')
    assert batch_tensors_arguments(config, 8) == ()
    assert not is_asked_row_by_row(config)


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "[]",
        '{"ragged": {}, "made": []}',
        '{"ragged": {"x": 3}, "made": [], "scattered": {}}',
        json.dumps({"ragged": {}, "scattered": {}, "made": [UNKNOWN]}),
    ],
    ids=["no-json", "no-object", "incomplete", "no-shape", "unknown-kind"],
)
def test_what_is_no_such_argument_is_refused(text: str) -> None:
    """The converter ends with its usage, and does not guess."""
    with pytest.raises(argparse.ArgumentTypeError):
        batch_tensors(text)
