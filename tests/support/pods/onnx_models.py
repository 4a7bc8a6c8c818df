"""Small ONNX models, made node by node."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

ROWS = 150
RANDOM = np.random.default_rng(7)


def tensor(name: str, *shape: int, kind: int = TensorProto.FLOAT) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, kind, ["rows", *shape])


def constant(name: str, *shape: int, scale: float = 1.0) -> onnx.TensorProto:
    return numpy_helper.from_array((RANDOM.random(shape) * scale + 0.1).astype(np.float32), name)


def model_of(nodes: list[Any], inputs: list[Any], outputs: list[Any], constants: list[Any]) -> bytes:
    graph = helper.make_graph(nodes, "graph", inputs, outputs, constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return bytes(model.SerializeToString())


def classifier() -> bytes:
    """A linear classifier with two nodes that do nothing: X [rows, 4] → probabilities [rows, 3], label [rows]."""
    nodes = [
        helper.make_node("Identity", ["X"], ["same"]),
        helper.make_node("MatMul", ["same", "W"], ["scores"]),
        helper.make_node("Identity", ["scores"], ["kept"]),
        helper.make_node("Softmax", ["kept"], ["probabilities"], axis=1),
        helper.make_node("ArgMax", ["probabilities"], ["label"], axis=1, keepdims=0),
    ]
    outputs = [tensor("probabilities", 3), tensor("label", kind=TensorProto.INT64)]
    return model_of(nodes, [tensor("X", 4)], outputs, [constant("W", 4, 3)])


def normalised_convolution() -> bytes:
    """A convolution and a batch normalisation, which the optimiser folds into one: the last bits change."""
    nodes = [
        helper.make_node("Conv", ["X", "W"], ["convolved"], kernel_shape=[3, 3]),
        helper.make_node("BatchNormalization", ["convolved", "scale", "bias", "mean", "variance"], ["Y"]),
    ]
    vectors = [constant(name, 8, scale=3.0) for name in ("scale", "bias", "mean", "variance")]
    return model_of(
        nodes, [tensor("X", 3, 8, 8)], [tensor("Y", 8, 6, 6)], [constant("W", 8, 3, 3, 3), *vectors]
    )
