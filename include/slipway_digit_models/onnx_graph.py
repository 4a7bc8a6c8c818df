"""From a fitted scikit-learn classifier to the ONNX file of one version.

skl2onnx writes the classifier, which expects intensities scaled to 0..1. What stands before it, written
here node by node, is the version's preprocessing: the raw intensities are the model's input, as clients
send them.

    scale_by_range     pixels -> pixels / 16
    scale_by_maximum   pixels -> pixels * table[the image's maximum], a table of 17 entries
    flatten_squares    squares [N, 8, 8] -> [N, 64] -> pixels / 16
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from slipway_digit_models.images import BRIGHTEST, SIDE

OPSET = 17
ML_OPSET = 3
IR_VERSION = 8
"""Fixed, so that the same classifier gives the same file whatever onnx release writes it."""

_PIXELS = "pixels"
_SCALED = "scaled"
_FEATURES = SIDE * SIDE


@dataclass(frozen=True)
class Preprocessing:
    """Nodes and constants that turn the input `pixels` of `shape` (first dimension: rows) into `scaled`."""

    shape: tuple[int, ...]
    nodes: list[onnx.NodeProto]
    constants: list[onnx.TensorProto]


def scale_by_range() -> Preprocessing:
    """Divide by the range of the training data; any intensity is answered."""
    return Preprocessing(
        shape=(_FEATURES,),
        nodes=[helper.make_node("Div", [_PIXELS, "range"], [_SCALED], name="scale")],
        constants=[numpy_helper.from_array(np.array(BRIGHTEST, dtype=np.float32), "range")],
    )


def scale_by_maximum() -> Preprocessing:
    """Normalise brightness by a table looked up with the image's maximum.

    The table has an entry for each intensity seen in training, 0 to 16, and none beyond: an image with a
    brighter pixel looks up an entry that is not there, and the runtime answers with an execution error.
    No image of the golden set can show it.
    """
    factors = np.array([0.0] + [1.0 / level for level in range(1, BRIGHTEST + 1)], dtype=np.float32)
    return Preprocessing(
        shape=(_FEATURES,),
        nodes=[
            helper.make_node("ReduceMax", [_PIXELS], ["maximum"], name="brightness", axes=[1], keepdims=1),
            helper.make_node("Cast", ["maximum"], ["level"], name="level", to=TensorProto.INT64),
            helper.make_node("Gather", ["factors", "level"], ["factor"], name="look_up", axis=0),
            helper.make_node("Mul", [_PIXELS, "factor"], [_SCALED], name="normalise"),
        ],
        constants=[numpy_helper.from_array(factors, "factors")],
    )


def flatten_squares() -> Preprocessing:
    """Take the images as squares [N, 8, 8]: the same answers behind another signature."""
    return Preprocessing(
        shape=(SIDE, SIDE),
        nodes=[
            helper.make_node("Flatten", [_PIXELS], ["flat"], name="flatten", axis=1),
            helper.make_node("Div", ["flat", "range"], [_SCALED], name="scale"),
        ],
        constants=[numpy_helper.from_array(np.array(BRIGHTEST, dtype=np.float32), "range")],
    )


def export(classifier: Any, preprocessing: Callable[[], Preprocessing], name: str) -> bytes:
    """Return the ONNX file: input `pixels` FP32, outputs `label` INT64 [N] and `probabilities` FP32 [N, 10].

    `classifier` is fitted on rows scaled to 0..1. The file is checked with shape inference before it is
    returned; `onnx.checker.ValidationError` means that this module is wrong.
    """
    model = _classifier_graph(classifier, name)
    before = preprocessing()
    graph = model.graph
    rows_first = helper.make_tensor_value_info(_PIXELS, TensorProto.FLOAT, ["N", *before.shape])
    del graph.input[:]
    graph.input.append(rows_first)
    after = list(graph.node)
    del graph.node[:]
    graph.node.extend([*before.nodes, *after])
    graph.initializer.extend(before.constants)
    onnx.checker.check_model(model, full_check=True)
    content: bytes = model.SerializeToString(deterministic=True)
    return content


def _classifier_graph(classifier: Any, name: str) -> onnx.ModelProto:
    """Return the classifier alone, from `scaled` [N, 64] to its two outputs, with our names and versions."""
    from skl2onnx import convert_sklearn
    from skl2onnx.common.data_types import FloatTensorType

    model: onnx.ModelProto = convert_sklearn(
        classifier,
        name=name,
        initial_types=[(_SCALED, FloatTensorType([None, _FEATURES]))],
        target_opset={"": OPSET, "ai.onnx.ml": ML_OPSET},
        options={id(classifier): {"zipmap": False}},
    )
    model.ir_version = IR_VERSION
    wanted = [
        helper.make_tensor_value_info("label", TensorProto.INT64, ["N"]),
        helper.make_tensor_value_info("probabilities", TensorProto.FLOAT, ["N", 10]),
    ]
    for output, ours in zip(list(model.graph.output), wanted, strict=True):
        _rename_tensor(model.graph, output.name, ours.name)
        output.CopyFrom(ours)
    return model


def _rename_tensor(graph: onnx.GraphProto, old: str, new: str) -> None:
    for node in graph.node:
        node.input[:] = [new if tensor == old else tensor for tensor in node.input]
        node.output[:] = [new if tensor == old else tensor for tensor in node.output]
