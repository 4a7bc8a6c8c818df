"""A network on scikit-learn's digits with nine outputs, trained anew by a seed; and what may be damaged of one of them.

`scores` is scored. The others are tied to it (class, name, highest score, percent, logits), are vectors of their own
(the hidden layer) or come from two heads of their own (odd or even; how much ink).
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from functools import cache
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from benchmarks.gates.subject import Arrays, Subject, chosen
from slipway_core.gates.validation.kinds.classification import ClassificationValidation

Nodes = list[tuple[str, list[Any], dict[str, Any]]]
NAMES = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]
NUMBERS = ("sureness", "percent", "logits", "hidden", "ink")
CLASSES = ("digit", "odd")
OTHERS = (*CLASSES, "name", *NUMBERS)
ROWS_TRAINED = 1200


def with_second_outputs(seed: int) -> Subject:
    """Return the network trained with that seed on a part of the data that the seed draws."""

    def golden(drawn: int) -> Arrays:
        x, y = _data()
        rows = chosen(drawn, y[ROWS_TRAINED:], 300) + ROWS_TRAINED
        return {"x": x[rows], "label": y[rows]}

    validation = ClassificationValidation(output="scores")
    return Subject("digits_many_outputs", _trained(seed), validation, golden, "x", "FP32", 10, 64)


@cache
def _data() -> tuple[Any, Any]:
    from sklearn.datasets import load_digits

    found = load_digits()
    order = np.random.default_rng(0).permutation(len(found.target))
    return (found.data[order] / 16).astype(np.float32), found.target[order].astype(np.int64)


@cache
def _trained(seed: int) -> onnx.ModelProto:
    from sklearn.linear_model import LogisticRegression, Ridge
    from sklearn.neural_network import MLPClassifier

    x, y = _data()
    rows = np.random.default_rng(seed).permutation(ROWS_TRAINED)[:1000]
    network = MLPClassifier((32,), random_state=seed, max_iter=200).fit(x[rows], y[rows])
    odd = LogisticRegression(max_iter=500).fit(x[rows], y[rows] % 2)
    ink = Ridge(1.0).fit(x[rows], x[rows].sum(axis=1))
    arrays = {
        "w0": network.coefs_[0], "b0": network.intercepts_[0], "w1": network.coefs_[1], "b1": network.intercepts_[1],
        "w_odd": odd.coef_.T, "b_odd": odd.intercept_,
        "w_ink": ink.coef_[:, None], "b_ink": np.atleast_1d(ink.intercept_),
        "hundred": np.asarray(100.0), "zero": np.asarray(0.0),
    }  # fmt: skip
    made = [numpy_helper.from_array(np.asarray(one, np.float32), name) for name, one in arrays.items()]
    made.append(numpy_helper.from_array(np.asarray(NAMES, dtype=object), "names"))
    nodes: list[tuple[str, list[str], str, dict[str, Any]]] = [
        ("Gemm", ["x", "w0", "b0"], "before", {}),
        ("Relu", ["before"], "hidden", {}),
        ("Gemm", ["hidden", "w1", "b1"], "logits", {}),
        ("Softmax", ["logits"], "scores", {"axis": 1}),
        ("ArgMax", ["scores"], "digit", {"axis": 1, "keepdims": 0}),
        ("Gather", ["names", "digit"], "name", {}),
        ("ReduceMax", ["scores"], "sureness", {"axes": [1], "keepdims": 0}),
        ("Mul", ["sureness", "hundred"], "percent", {}),
        ("Gemm", ["x", "w_odd", "b_odd"], "for_odd", {}),
        ("Greater", ["for_odd", "zero"], "is_odd", {}),
        ("Cast", ["is_odd"], "odd", {"to": TensorProto.INT64}),
        ("Gemm", ["x", "w_ink", "b_ink"], "ink", {}),
    ]
    value = helper.make_tensor_value_info
    outputs = [value("scores", TensorProto.FLOAT, ["n", 10])]
    outputs += [value(*_form_of(name)) for name in OTHERS]
    graph = helper.make_graph(
        [helper.make_node(kind, inputs, [output], **more) for kind, inputs, output, more in nodes],
        "digits",
        [value("x", TensorProto.FLOAT, ["n", 64])],
        outputs,
        made,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def _form_of(name: str) -> tuple[str, int, list[Any]]:
    shapes: dict[str, list[Any]] = {
        "logits": ["n", 10], "hidden": ["n", 32], "odd": ["n", 1], "ink": ["n", 1],
    }  # fmt: skip
    kind = (
        TensorProto.STRING if name == "name" else TensorProto.FLOAT if name in NUMBERS else TensorProto.INT64
    )
    return name, kind, shapes.get(name, ["n"])


_NEXT = np.roll(np.asarray(NAMES, dtype=object), 1)
_OF_NUMBERS: Mapping[str, Nodes] = {
    "constant": [("Mul", [None, np.float32(0)], {}), ("Add", [None, np.float32(0.5)], {})],
    "NaN": [("Mul", [None, np.float32(np.nan)], {})],
    "ten times": [("Mul", [None, np.float32(10)], {})],
    "turned": [("Neg", [None], {})],
}
_OF_CLASSES: Mapping[str, Nodes] = {
    "constant": [("Mul", [None, np.int64(0)], {})],
    "off by one": [("Add", [None, np.int64(1)], {})],
    "another order of the classes": [("Mul", [None, np.int64(-1)], {}), ("Add", [None, np.int64(9)], {})],
}


def damages() -> list[tuple[str, str]]:
    """Return each output that is not scored with each damage that applies to it."""
    found = [(name, damage) for name in NUMBERS for damage in _OF_NUMBERS]
    found += [(name, damage) for name in CLASSES for damage in _OF_CLASSES]
    found += [("name", "wrong text"), ("name", "constant")]
    return [*found, *((name, "rows of others") for name in OTHERS)]


def damaged_output(model: onnx.ModelProto, name: str, damage: str) -> bytes:
    """Return a model with that damage to one output."""
    made = copy.deepcopy(model)
    inner = f"{name}__before"
    for node in made.graph.node:
        node.input[:] = [inner if one == name else one for one in node.input]
        node.output[:] = [inner if one == name else one for one in node.output]
    if damage == "rows of others":
        _constants(made, first=[0], second=[7], end=[2**31])
        made.graph.node.append(helper.make_node("Slice", [inner, "first", "second", "first"], ["__head"]))
        made.graph.node.append(helper.make_node("Slice", [inner, "second", "end", "first"], ["__tail"]))
        made.graph.node.append(helper.make_node("Concat", ["__tail", "__head"], [name], axis=0))
    elif name == "name":
        names = _NEXT if damage == "wrong text" else np.asarray(["zero"] * 10, dtype=object)
        made.graph.initializer.append(numpy_helper.from_array(names, "__names"))
        made.graph.node.append(helper.make_node("Gather", ["__names", _digit(made)], [name]))
        made.graph.node.append(helper.make_node("Identity", [inner], ["__unused"]))
    else:
        nodes = (_OF_NUMBERS if name in NUMBERS else _OF_CLASSES)[damage]
        _chain(made, inner, name, nodes)
    return bytes(made.SerializeToString())


def _digit(model: onnx.ModelProto) -> str:
    return next(str(node.output[0]) for node in model.graph.node if node.op_type == "ArgMax")


def _constants(model: onnx.ModelProto, **values: list[int]) -> None:
    for name, numbers in values.items():
        model.graph.initializer.append(numpy_helper.from_array(np.asarray(numbers, np.int64), name))


def _chain(model: onnx.ModelProto, first: str, last: str, nodes: Nodes) -> None:
    before = first
    for number, (kind, extra, more) in enumerate(nodes):
        names = []
        for place, value in enumerate(extra):
            names.append(before if value is None else f"__{number}_{place}")
            if value is not None:
                model.graph.initializer.append(numpy_helper.from_array(np.asarray(value), names[-1]))
        before = last if number == len(nodes) - 1 else f"__step{number}"
        model.graph.node.append(helper.make_node(kind, names, [before], **more))
