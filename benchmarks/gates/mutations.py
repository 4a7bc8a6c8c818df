"""Twenty-odd ways to damage a model, by surgery on its ONNX file: what conversions, exports and releases do wrong.

Each takes a copy of the model, a generator of random numbers and the subject, and returns the damaged model, or None
where it does not apply, such as swapped inputs where there is one.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from benchmarks.gates.subject import Subject
from benchmarks.gates.weights import change, graphs, values_of, weights

Numbers = np.random.Generator
Mutation = Callable[[onnx.ModelProto, Numbers, Subject], onnx.ModelProto | None]

_TYPES = {"FP32": TensorProto.FLOAT, "INT64": TensorProto.INT64, "INT32": TensorProto.INT32}


def _largest(model: onnx.ModelProto, share: float) -> onnx.TensorProto:
    """Return a weight by its place among the larger ones: 0 the first, 1 the last."""
    found = [one for one in weights(model) if sum(size > 1 for size in one.dims) > 1]  # a bias is no layer
    sizes = [int(np.prod(one.dims)) for one in found]
    large = [one for one, size in zip(found, sizes, strict=True) if size >= max(sizes) / 64]
    return large[round(share * (len(large) - 1))]


def _with_weight(share: float, changed: Callable[[Any, Numbers], Any]) -> Mutation:
    def mutate(model: onnx.ModelProto, numbers: Numbers, subject: Subject) -> onnx.ModelProto:
        tensor = _largest(model, share if share >= 0 else float(numbers.random()))
        change(tensor, changed(values_of(tensor), numbers))
        return model

    return mutate


def _one_place(value: float) -> Callable[[Any, Numbers], Any]:
    def changed(values: Any, numbers: Numbers) -> Any:
        values.reshape(-1)[numbers.integers(values.size)] = value
        return values

    return changed


def _noise(values: Any, numbers: Numbers) -> Any:
    return values + numbers.normal(scale=2 * values.std(), size=values.shape)


def _two_levels(values: Any, numbers: Numbers) -> Any:
    return np.where(values > 0, values.max(), values.min())


def _shuffled(values: Any, numbers: Numbers) -> Any:
    return numbers.permutation(values.reshape(-1)).reshape(values.shape)


def _rolled(values: Any, numbers: Numbers) -> Any:
    return np.roll(values, values.shape[0] // 2 or 1, axis=0)


def _after_output(*nodes: tuple[str, list[Any], dict[str, Any]]) -> Mutation:
    """Return a mutation that puts nodes behind the scored output; `None` among the inputs is what goes through."""

    def mutate(model: onnx.ModelProto, numbers: Numbers, subject: Subject) -> onnx.ModelProto:
        return _chained_output(model, subject.output, nodes)

    return mutate


def _chained_output(model: onnx.ModelProto, output: str, nodes: Any) -> onnx.ModelProto:
    inner = f"{output}__before"
    for node in model.graph.node:
        node.input[:] = [inner if name == output else name for name in node.input]
        node.output[:] = [inner if name == output else name for name in node.output]
    last = inner
    for number, (kind, extra, attributes) in enumerate(nodes):
        names = []
        for place, value in enumerate(extra):
            name = last
            if value is not None:
                name = f"{output}__{number}_{place}"
                model.graph.initializer.append(numpy_helper.from_array(np.asarray(value), name))
            names.append(name)
        following = output if number == len(nodes) - 1 else f"{output}__after{number}"
        model.graph.node.append(helper.make_node(kind, names, [following], **attributes))
        last = following
    return model


def _before_input(*nodes: tuple[str, list[Any], dict[str, Any]], kind: str = "FP32") -> Mutation:
    """Return a mutation that puts nodes between the main input and the model: a stale preprocessing."""

    def mutate(model: onnx.ModelProto, numbers: Numbers, subject: Subject) -> onnx.ModelProto | None:
        if subject.input_type != kind:
            return None
        return _chained_input(model, subject.main_input, nodes)

    return mutate


def _chained_input(model: onnx.ModelProto, name: str, nodes: Any) -> onnx.ModelProto:
    last, made, changed = name, [], f"{name}__changed"
    for graph in graphs(model.graph):
        for node in graph.node:
            node.input[:] = [changed if one == name else one for one in node.input]
    for number, (kind, extra, attributes) in enumerate(nodes):
        names = []
        for place, value in enumerate(extra):
            if value is None:
                names.append(last)
                continue
            constant = f"{name}__in{number}_{place}"
            model.graph.initializer.append(numpy_helper.from_array(np.asarray(value), constant))
            names.append(constant)
        last = changed if number == len(nodes) - 1 else f"{name}__step{number}"
        made.append(helper.make_node(kind, names, [last], **attributes))
    for node in reversed(made):
        model.graph.node.insert(0, node)
    return model


def _permuted_labels(model: onnx.ModelProto, numbers: Numbers, subject: Subject) -> onnx.ModelProto | None:
    if subject.width < 2:
        return _chained_output(model, subject.output, [("Sub", [np.float32(1), None], {})])
    order = np.roll(np.arange(subject.width), 1) if subject.width < 4 else numbers.permutation(subject.width)
    return _chained_output(model, subject.output, [("Gather", [None, order.astype(np.int64)], {"axis": 1})])


def _shifted_labels(model: onnx.ModelProto, numbers: Numbers, subject: Subject) -> onnx.ModelProto | None:
    if subject.width < 3:
        return None
    order = np.roll(np.arange(subject.width), 1).astype(np.int64)
    return _chained_output(model, subject.output, [("Gather", [None, order], {"axis": 1})])


def _two_labels(model: onnx.ModelProto, numbers: Numbers, subject: Subject) -> onnx.ModelProto | None:
    if subject.kind != "classification" or subject.width < 3:
        return None
    order = np.arange(subject.width)
    one, other = subject.common_labels[:2]
    order[[one, other]] = order[[other, one]]
    return _chained_output(model, subject.output, [("Gather", [None, order.astype(np.int64)], {"axis": 1})])


def _swapped_inputs(model: onnx.ModelProto, numbers: Numbers, subject: Subject) -> onnx.ModelProto | None:
    if subject.swappable is None:
        return None
    one, other = subject.swappable
    for graph in graphs(model.graph):
        for node in graph.node:
            node.input[:] = [{one: other, other: one}.get(name, name) for name in node.input]
    return model


def _unmasked(model: onnx.ModelProto, numbers: Numbers, subject: Subject) -> onnx.ModelProto | None:
    """Lose the second half of the input: a truncated sequence, a cut image."""
    if subject.steps < 4:
        return None
    half = subject.steps // 2
    kept = np.zeros(
        (subject.steps,), np.float32 if subject.input_type == "FP32" else np.dtype(subject.numpy_type)
    )
    kept[:half] = 1
    return _chained_input(model, subject.main_input, [("Mul", [None, kept], {})])


def _other_activation(model: onnx.ModelProto, numbers: Numbers, subject: Subject) -> onnx.ModelProto | None:
    changed = {
        "Relu": "Identity",
        "Erf": "Identity",
        "Tanh": "Identity",
        "HardSwish": "Identity",
        "Clip": "Abs",
    }
    found = False
    for graph in graphs(model.graph):
        for node in graph.node:
            if node.op_type in changed:
                node.op_type, found = changed[node.op_type], True
                del node.input[1:]
                del node.attribute[:]
    return model if found else None


def _answers_of_others(model: onnx.ModelProto, numbers: Numbers, subject: Subject) -> onnx.ModelProto:
    """Give each row of a batch the answer of the next one: rows of a batch are mixed up."""
    first, rest, ends = np.asarray([0]), np.asarray([1]), np.asarray([2**31])
    output = subject.output
    inner = f"{output}__before"
    for node in model.graph.node:
        node.input[:] = [inner if name == output else name for name in node.input]
        node.output[:] = [inner if name == output else name for name in node.output]
    for name, value in {"f": first, "r": rest, "e": ends}.items():
        model.graph.initializer.append(numpy_helper.from_array(value.astype(np.int64), f"{output}__{name}"))
    named = {name: f"{output}__{name}" for name in "fre"}
    model.graph.node.extend(
        [
            helper.make_node("Slice", [inner, named["f"], named["r"], named["f"]], [f"{output}__one"]),
            helper.make_node("Slice", [inner, named["r"], named["e"], named["f"]], [f"{output}__others"]),
            helper.make_node("Concat", [f"{output}__others", f"{output}__one"], [output], axis=0),
        ]
    )
    return model


def _random_answers(model: onnx.ModelProto, numbers: Numbers, subject: Subject) -> onnx.ModelProto:
    output = subject.output
    _chained_output(model, output, [("Identity", [None], {})])
    model.graph.node[-1].output[0] = f"{output}__known"
    model.graph.node.extend(
        [
            helper.make_node("RandomNormalLike", [f"{output}__known"], [f"{output}__noise"], scale=0.3),
            helper.make_node("Add", [f"{output}__known", f"{output}__noise"], [output]),
        ]
    )
    return model


_HALF = ("Cast", [None], {"to": TensorProto.FLOAT16})
_WHOLE = ("Cast", [None], {"to": TensorProto.FLOAT})

MUTATIONS: Mapping[str, Mutation] = {
    "first layer zeroed": _with_weight(0.0, lambda values, _: values * 0),
    "middle layer zeroed": _with_weight(0.5, lambda values, _: values * 0),
    "last layer zeroed": _with_weight(1.0, lambda values, _: values * 0),
    "weights shuffled": _with_weight(0.3, _shuffled),
    "rows of a weight rolled": _with_weight(0.7, _rolled),
    "weights with noise": _with_weight(0.0, _noise),
    "sign of a layer lost": _with_weight(0.0, lambda values, _: -values),
    "weights cut to two levels": _with_weight(0.5, _two_levels),
    "one weight is NaN": _with_weight(0.2, _one_place(np.nan)),
    "one weight is infinite": _with_weight(0.8, _one_place(np.inf)),
    "one weight is huge": _with_weight(1.0, _one_place(1e9)),
    "activation left out": _other_activation,
    "labels permuted": _permuted_labels,
    "labels shifted by one": _shifted_labels,
    "two labels swapped": _two_labels,
    "inputs swapped": _swapped_inputs,
    "half of the input lost": _unmasked,
    "stale preprocessing: divided by 255": _before_input(("Div", [None, np.float32(255)], {})),
    "stale preprocessing: shifted by one": _before_input(("Add", [None, np.float32(1)], {})),
    "stale preprocessing: sign": _before_input(("Neg", [None], {})),
    "stale tokens: shifted by one": _before_input(
        ("Add", [None, np.int64(1)], {}), ("Clip", [None, np.int64(0), np.int64(30000)], {}), kind="INT64"
    ),
    "stale tokens: another vocabulary": _before_input(
        ("Sub", [np.int64(30000), None], {}), ("Clip", [None, np.int64(0), np.int64(30000)], {}), kind="INT64"
    ),
    "stale bytes: shifted by one": _before_input(
        ("Add", [None, np.int32(1)], {}), ("Min", [None, np.int32(256)], {}), kind="INT32"
    ),
    "stale bytes: complement": _before_input(
        ("Sub", [np.int32(256), None], {}), ("Max", [None, np.int32(0)], {}), kind="INT32"
    ),
    "float16 overflow": _after_output(
        ("Mul", [None, np.float32(1e8)], {}), _HALF, _WHOLE, ("Mul", [None, np.float32(1e-8)], {})
    ),
    "constant output": _after_output(
        ("Mul", [None, np.float32(0)], {}), ("Add", [None, np.float32(0.5)], {})
    ),
    "output of NaN": _after_output(("Mul", [None, np.float32(np.nan)], {})),
    "output cut off": _after_output(("Clip", [None, np.float32(0), np.float32(0.01)], {})),
    "output turned": _after_output(("Neg", [None], {})),
    "answers of other rows": _answers_of_others,
    "random answers": _random_answers,
}


def damaged(name: str, subject: Subject, seed: int) -> bytes | None:
    """Return a subject's model with one kind of damage; None where it does not apply."""
    model = MUTATIONS[name](copy.deepcopy(subject.model), np.random.default_rng(seed), subject)
    return None if model is None else model.SerializeToString()
