"""Models whose graph is written here: what exporters of other libraries leave, and what is seldom."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from benchmarks.gates.second_outputs import with_second_outputs
from benchmarks.gates.subjects import magika
from benchmarks.good_models.family import Array, Family, Landed
from benchmarks.good_models.pipelines import digits

Node = tuple[str, list[str], list[str], dict[str, Any]]
FLOAT = TensorProto.FLOAT
_ONNX = "source: {format: onnx}\n"
_PARITY = "parity: {measure: top_k, agreement_min: 0.97}"


def graphs() -> list[Family]:
    """Return the families of this module."""
    one_by_one = "serving: {max_batch_size: 0, dynamic_batching: null}\n"
    regression = "validation: {kind: regression, output: score, mae_max: 0.2, abs_tolerance: 0.1}\n"
    return [
        Family(
            "slow-scores",
            "0.4 s a row on one thread",
            f"{_ONNX}serving: {{max_batch_size: 4}}\nsmoke_test: {{loads: 1, memory_timeout_s: 15}}\n",
            _slow,
        ),
        Family(
            "file-types",
            "magika, as Google publishes it; the second version has weights moved by a thousandth",
            f"{_ONNX}validation: {{output: target_label}}\n",
            _magika,
        ),
        Family(
            "nine-outputs",
            "eight outputs that are not scored",
            f"{_ONNX}validation: {{output: scores}}\n",
            _nine,
        ),
        Family(
            "voice-gate",
            "a single number as an input, and a state whose second axis is the batch",
            _ONNX + one_by_one + regression,
            _voice,
        ),
        Family("eight-at-once", "a fixed first size of 8", _ONNX + one_by_one, _fixed),
        Family("bytes-and-halves", "UINT8 images by rows and columns go in, FP16 comes out", _ONNX, _bytes),
        Family(
            "digits-dynamic",
            "made int8 in the conversion, scaled by each request",
            f"{_ONNX}conversion: {{target: onnx, precision: int8, {_PARITY}}}\n",
            _plain,
        ),
        Family(
            "digits-static",
            "made int8 in the conversion, with calibration rows",
            f"{_ONNX}conversion: {{target: onnx, precision: int8, {_PARITY}, "
            "quantization: {method: static, calibration_file: calibration.npz}}\n",
            _plain,
        ),
        Family(
            "ten-documents", "scores of ten documents", f"{_ONNX}validation: {{kind: ranking}}\n", _ranking
        ),
    ]


def graph_of(
    nodes: Sequence[Node],
    inputs: Sequence[tuple[str, int, list[Any]]],
    outputs: Sequence[tuple[str, int, list[Any]]],
    weights: Mapping[str, Array],
) -> bytes:
    """Return a checked ONNX model of these nodes: (operator, inputs, outputs, attributes)."""
    graph = helper.make_graph(
        [helper.make_node(kind, given, made, **more) for kind, given, made, more in nodes],
        "graph",
        [helper.make_tensor_value_info(*one) for one in inputs],
        [helper.make_tensor_value_info(*one) for one in outputs],
        [numpy_helper.from_array(np.asarray(one, order="C"), name) for name, one in weights.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    onnx.checker.check_model(model, full_check=True)
    return bytes(model.SerializeToString())


def _weights(version: int) -> dict[str, Array]:
    """Return a trained network of one hidden layer on the digits."""
    from sklearn.neural_network import MLPClassifier

    pixels, labels, _, _ = digits(version)
    network = MLPClassifier((32,), random_state=version, max_iter=250).fit(pixels, labels)
    (w0, w1), (b0, b1) = network.coefs_, network.intercepts_
    return {name: one.astype(np.float32) for name, one in (("w0", w0), ("b0", b0), ("w1", w1), ("b1", b1))}


_LAYERS: list[Node] = [
    ("Gemm", ["flat", "w0", "b0"], ["before"], {}),
    ("Relu", ["before"], ["hidden"], {}),
    ("Gemm", ["hidden", "w1", "b1"], ["logits"], {}),
    ("Softmax", ["logits"], ["scores"], {"axis": 1}),
]


def plain_digits(version: int) -> tuple[bytes, Array, Array]:
    """Return a network of pixels (n x 64) to probabilities (n x 10), and golden pixels and labels."""
    nodes = [
        ("Identity", ["pixels"], ["flat"], {}),
        *_LAYERS,
        ("Identity", ["scores"], ["probabilities"], {}),
    ]
    golden, label = digits(version)[2:]
    inputs, outputs = [("pixels", FLOAT, ["n", 64])], [("probabilities", FLOAT, ["n", 10])]
    return graph_of(nodes, inputs, outputs, _weights(version)), golden, label


def _plain(folder: Path, version: int) -> Landed:
    content, golden, label = plain_digits(version)
    calibration = Landed({}, {"pixels": digits(version)[0][:200]}).golden_file()
    return Landed({"model.onnx": content, "calibration.npz": calibration}, {"pixels": golden, "label": label})


def _fixed(folder: Path, version: int) -> Landed:
    nodes = [
        ("Identity", ["pixels"], ["flat"], {}),
        *_LAYERS,
        ("Identity", ["scores"], ["probabilities"], {}),
    ]
    golden, label = digits(version)[2:]
    content = graph_of(
        nodes, [("pixels", FLOAT, [8, 64])], [("probabilities", FLOAT, [8, 10])], _weights(version)
    )
    return Landed({"model.onnx": content}, {"pixels": golden[:240], "label": label[:240]})


def _bytes(folder: Path, version: int) -> Landed:
    nodes: list[Node] = [
        ("Cast", ["image"], ["numbers"], {"to": FLOAT}),
        ("Mul", ["numbers", "scale"], ["scaled"], {}),
        ("Flatten", ["scaled"], ["flat"], {"axis": 1}),
        *_LAYERS,
        ("Cast", ["scores"], ["probabilities"], {"to": TensorProto.FLOAT16}),
    ]
    weights = {**_weights(version), "scale": np.asarray(1 / 240, np.float32)}
    golden, label = digits(version)[2:]
    content = graph_of(
        nodes,
        [("image", TensorProto.UINT8, ["n", 8, 8, 1])],
        [("probabilities", TensorProto.FLOAT16, ["n", 10])],
        weights,
    )
    image = (golden * 240).astype(np.uint8).reshape(-1, 8, 8, 1)
    return Landed({"model.onnx": content}, {"image": image, "label": label})


def _slow(folder: Path, version: int) -> Landed:
    """Return the digits' network behind a loop whose work, for each row, changes nothing."""
    size, turns = 512, 190
    body = helper.make_graph(
        [
            helper.make_node("MatMul", ["work", "matrix"], ["product"]),
            helper.make_node("Tanh", ["product"], ["next_work"]),
            helper.make_node("Identity", ["again"], ["again_out"]),
        ],
        "turn",
        [
            helper.make_tensor_value_info("turn", TensorProto.INT64, []),
            helper.make_tensor_value_info("again", TensorProto.BOOL, []),
            helper.make_tensor_value_info("work", FLOAT, ["n", size, size]),
        ],
        [
            helper.make_tensor_value_info("again_out", TensorProto.BOOL, []),
            helper.make_tensor_value_info("next_work", FLOAT, ["n", size, size]),
        ],
    )
    nodes: list[Node] = [
        ("ReduceMean", ["pixels"], ["ink"], {"axes": [1], "keepdims": 1}),
        ("Unsqueeze", ["ink", "last"], ["ink_3"], {}),
        ("Mul", ["ink_3", "matrix"], ["start"], {}),
        ("Loop", ["turns", "yes", "start"], ["worked"], {"body": body}),
        ("ReduceMean", ["worked"], ["mean"], {"axes": [1, 2], "keepdims": 0}),
        ("Mul", ["mean", "nothing"], ["zero"], {}),
        ("Unsqueeze", ["zero", "one"], ["zeros"], {}),
        ("Add", ["pixels", "zeros"], ["flat"], {}),
        *_LAYERS,
        ("Identity", ["scores"], ["probabilities"], {}),
    ]
    numbers = np.random.default_rng(0)
    weights = {
        **_weights(version),
        "matrix": numbers.normal(0, 0.05, (size, size)).astype(np.float32),
        "turns": np.asarray(turns, np.int64),
        "yes": np.asarray(True),
        "nothing": np.asarray(0, np.float32),
        "last": np.asarray([2], np.int64),
        "one": np.asarray([1], np.int64),
    }
    golden, label = digits(version)[2:]
    content = graph_of(nodes, [("pixels", FLOAT, ["n", 64])], [("probabilities", FLOAT, ["n", 10])], weights)
    return Landed({"model.onnx": content}, {"pixels": golden[:16], "label": label[:16]})


def _voice(folder: Path, version: int) -> Landed:
    """Return a detector that keeps a state; its weights are those of one training, moved by a little."""
    numbers, moved = np.random.default_rng(0), np.random.default_rng(version)
    shapes = {"of_sound": (64, 16), "of_state": (16, 16), "to_odds": (16, 1)}
    weights: dict[str, Array] = {
        name: (numbers.normal(0, 0.3, shape) + moved.normal(0, 0.003, shape)).astype(np.float32)
        for name, shape in shapes.items()
    }
    nodes: list[Node] = [
        ("Cast", ["sr"], ["rate"], {"to": FLOAT}),
        ("Div", ["rate", "usual"], ["faster"], {}),
        ("Mul", ["input", "faster"], ["sound"], {}),
        ("MatMul", ["sound", "of_sound"], ["from_sound"], {}),
        ("ReduceMean", ["state"], ["before"], {"axes": [0], "keepdims": 0}),
        ("MatMul", ["before", "of_state"], ["from_state"], {}),
        ("Add", ["from_sound", "from_state"], ["sum"], {}),
        ("Tanh", ["sum"], ["now"], {}),
        ("Unsqueeze", ["now", "first"], ["now_3"], {}),
        ("Concat", ["now_3", "now_3"], ["state_out"], {"axis": 0}),
        ("MatMul", ["now", "to_odds"], ["odds"], {}),
        ("Sigmoid", ["odds"], ["score"], {}),
    ]
    state: list[Any] = [2, "n", 16]
    content = graph_of(
        nodes,
        [("input", FLOAT, ["n", 64]), ("state", FLOAT, state), ("sr", TensorProto.INT64, [])],
        [("score", FLOAT, ["n", 1]), ("state_out", FLOAT, state)],
        {**weights, "usual": np.asarray(16000, np.float32), "first": np.asarray([0], np.int64)},
    )
    drawn = np.random.default_rng(100)
    golden: dict[str, Array] = {
        "input": drawn.normal(size=(150, 64)).astype(np.float32),
        "state": drawn.normal(size=(2, 150, 16)).astype(np.float32),
        "sr": np.asarray(16000, np.int64),
    }
    return Landed({"model.onnx": content}, {**golden, "label": _answers(content, golden, "score")[:, 0]})


def _ranking(folder: Path, version: int) -> Landed:
    """Return a linear ranker, fitted to relevances with noise."""

    def questions(seed: int, rows: int) -> tuple[Array, Array]:
        numbers = np.random.default_rng(seed)
        x = numbers.normal(size=(rows, 10, 6)).astype(np.float32)
        liked = x @ np.array([3, -2, 1, 0.5, 0, 0]) + numbers.normal(0, 0.3, (rows, 10))
        return x, np.clip(np.round(liked + 1), 0, 4).astype(np.int64)

    x, relevance = questions(version, 500)
    weights = np.linalg.lstsq(x.reshape(-1, 6), relevance.reshape(-1), rcond=None)[0].astype(np.float32)
    nodes: list[Node] = [("MatMul", ["documents", "w"], ["scores"], {})]
    content = graph_of(
        nodes, [("documents", FLOAT, ["n", 10, 6])], [("scores", FLOAT, ["n", 10])], {"w": weights}
    )
    golden, label = questions(100, 120)
    return Landed({"model.onnx": content}, {"documents": golden, "label": label})


def _nine(folder: Path, version: int) -> Landed:
    subject = with_second_outputs(version)
    return Landed({"model.onnx": subject.model.SerializeToString()}, subject.golden(100))


def _magika(folder: Path, version: int) -> Landed:
    subject = magika()
    model = onnx.ModelProto()
    model.CopyFrom(subject.model)
    moved = np.random.default_rng(version)
    for one in model.graph.initializer:
        values = numpy_helper.to_array(one)
        if version > 1 and values.dtype == np.float32 and values.ndim >= 2:
            shaken = values * (1 + 1e-3 * moved.normal(size=values.shape))
            one.CopyFrom(numpy_helper.from_array(shaken.astype(np.float32), one.name))
    return Landed({"model.onnx": model.SerializeToString()}, subject.golden(100))


def _answers(content: bytes, inputs: Mapping[str, Array], output: str) -> Array:
    import onnxruntime

    session = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])
    found: Array = session.run([output], dict(inputs))[0]
    return found
