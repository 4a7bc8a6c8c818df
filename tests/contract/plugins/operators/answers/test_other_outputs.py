"""A second output that was damaged, on a real tritonserver: refused, and named where nobody could look at it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from slipway.hooks.s3_store import ModelStoreHook
from slipway.hooks.triton import TritonHook
from slipway_core.errors import ValidationRefusedError
from tests.support.release.staged_answers import Release, stages_of

pytestmark = pytest.mark.timeout(300)

ROWS = 60
RELEASE = """
model: digits
source: {format: onnx}
serving: {max_batch_size: 5}
validation: {output: scores}
"""
SIGNATURE = {
    "inputs": [{"name": "x", "datatype": "FP32", "shape": [-1, 10]}],
    "outputs": [
        {"name": "scores", "datatype": "FP32", "shape": [-1, 10]},
        {"name": "digit", "datatype": "INT64", "shape": [-1]},
    ],
}


def model(sharpness: float, off_by: int = 0) -> bytes:
    """Scores of ten classes by the softmax of the inputs, and the best class, off by some."""
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        [
            helper.make_node("Mul", ["x", "sharpness"], ["sharp"]),
            helper.make_node("Softmax", ["sharp"], ["scores"], axis=1),
            helper.make_node("ArgMax", ["scores"], ["best"], axis=1, keepdims=0),
            helper.make_node("Add", ["best", "off_by"], ["more"]),
            helper.make_node("Mod", ["more", "ten"], ["digit"]),
        ],
        "digits",
        [value("x", TensorProto.FLOAT, ["n", 10])],
        [value("scores", TensorProto.FLOAT, ["n", 10]), value("digit", TensorProto.INT64, ["n"])],
        [
            numpy_helper.from_array(np.float32(sharpness), "sharpness"),
            numpy_helper.from_array(np.int64(off_by), "off_by"),
            numpy_helper.from_array(np.int64(10), "ten"),
        ],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    return bytes(made.SerializeToString())


def release(store: ModelStoreHook, version: int, content: bytes, stable: int | None = None) -> Release:
    """Publish a version with its golden set."""
    labels = np.arange(ROWS) % 10
    noise = np.random.default_rng(3).normal(scale=0.1, size=(ROWS, 10))
    golden: dict[str, Any] = {"x": (np.eye(10)[labels] * 4 + noise).astype(np.float32), "label": labels}
    return Release(store, RELEASE, version, stable).publish({"model.onnx": content}, SIGNATURE, **golden)


def test_a_damaged_second_output_is_refused_and_a_retrained_one_is_not(
    store: ModelStoreHook, hook: TritonHook
) -> None:
    """The first version names what nobody looked at, on page and record; a batch of five rows is no obstacle."""
    first = release(store, 1, model(1.0)).prepare().load()
    report = first.validate()
    assert (report["outcome"], report["not_looked_at"]) == ("pass", ["digit"])
    assert {one["check"]: one["status"] for one in report["health"]}["batch_invariant"] == "pass"
    assert "Outputs that were not checked" in first.page
    (passed,) = (stage for stage in stages_of(first) if stage.name == "validate")
    assert passed.reason == "outputs that were not checked: digit"

    again = release(store, 2, model(1.4), 1).prepare().load().validate()
    assert (again["outcome"], again["not_looked_at"]) == ("pass", [])
    assert [one["status"] for one in again["other_outputs"]] == ["pass"]

    damaged = release(store, 3, model(1.4, off_by=1), 1).prepare().load()
    with pytest.raises(ValidationRefusedError, match="digit"):
        damaged.validate()
    assert "in the stable version in 100.0%" in damaged.page
