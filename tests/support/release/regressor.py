"""A regressor of one number, published as training and the converter leave it."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper

from slipway.hooks.s3_store import ModelStoreHook
from tests.support.release.staged_answers import RENT, Release


def linear_model(slope: float, shape: list[Any]) -> bytes:
    """Return an ONNX model: prediction = slope × area."""
    graph = helper.make_graph(
        [helper.make_node("Mul", ["area", "slope"], ["prediction"])],
        "rent",
        [helper.make_tensor_value_info("area", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("prediction", TensorProto.FLOAT, shape)],
        [helper.make_tensor("slope", TensorProto.FLOAT, [1], [slope])],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    onnx.checker.check_model(model)
    return bytes(model.SerializeToString())


def rent(
    store: ModelStoreHook,
    version: int,
    slope: float,
    stable: int | None = None,
    text: str = RENT,
    **golden: Any,
) -> Release:
    """Publish a version of the regressor, with further arrays in its golden set."""
    area = np.arange(1, 21, dtype=np.float32).reshape(-1, 1)
    tensor = {"datatype": "FP32", "shape": [-1, 1]}
    signature = {"inputs": [{"name": "area", **tensor}], "outputs": [{"name": "prediction", **tensor}]}
    files = {"model.onnx": linear_model(slope, ["rows", 1])}
    label = 2.0 * area[:, 0].astype(np.float64)
    release = Release(store, text, version, stable)
    return release.publish(files, signature, area=area, label=label, **golden)
