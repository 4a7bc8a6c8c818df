"""Small models with the signatures of public ones: images, sounds and texts in, answers of every kind out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from onnx import TensorProto, helper, numpy_helper

FLOAT, INT64, UINT8, STRING = TensorProto.FLOAT, TensorProto.INT64, TensorProto.UINT8, TensorProto.STRING
Size = int | str
_RANDOM = np.random.default_rng(11)


@dataclass(frozen=True)
class Shape:
    """A model, and what is right for it: the kinds that may be proposed, and of which output."""

    make: Callable[[], bytes]
    kinds: tuple[str, ...]
    output: str
    takes_batches: bool
    sure: bool = False


def value(name: str, *sizes: Size, kind: int = FLOAT) -> Any:
    return helper.make_tensor_value_info(name, kind, list(sizes))


def weights(name: str, *shape: int) -> Any:
    return numpy_helper.from_array((_RANDOM.random(shape) - 0.5).astype(np.float32), name)


def whole(name: str, *values: int) -> Any:
    return numpy_helper.from_array(np.asarray(values, dtype=np.int64), name)


def model(inputs: list[Any], outputs: list[Any], constants: list[Any], *nodes: Any) -> bytes:
    graph = helper.make_graph(list(nodes), "graph", inputs, outputs, constants)
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return bytes(made.SerializeToString())


def node(kind: str, given: str, made: str, **attributes: Any) -> Any:
    return helper.make_node(kind, given.split(), made.split(), **attributes)


def image_classifier(batch: Size, size: Size, last: str = "Identity", classes: int = 10) -> bytes:
    """An image in NCHW: scores of classes; `last` is Softmax, Sigmoid or nothing."""
    axis = {"axis": 1} if last == "Softmax" else {}
    return model(
        [value("images", batch, 3, size, size)],
        [value("output", batch, classes)],
        [weights("W", classes, 3, 1, 1)],
        node("Conv", "images W", "map"),
        node("GlobalAveragePool", "map", "pooled"),
        node("Flatten", "pooled", "flat"),
        node(last, "flat", "output", **axis),
    )


def segmentation(last: str, classes: int) -> bytes:
    """A map of classes, as large as the image, whose sides are a multiple of 32."""
    axis = {"axis": 1} if last == "Softmax" else {}
    return model(
        [value("x", "n", 3, "h", "w")],
        [value("out", "n", classes, "oh", "ow")],
        [
            weights("W", classes, 3, 1, 1),
            numpy_helper.from_array(np.asarray([1, 1, 32, 32], dtype=np.float32), "scales"),
        ],
        node("AveragePool", "x", "small", kernel_shape=[32, 32], strides=[32, 32]),
        node("Conv", "small W", "map"),
        helper.make_node("Resize", ["map", "", "scales"], ["whole"], mode="nearest"),
        node(last, "whole", "out", **axis),
    )


def detector() -> bytes:
    """Boxes, scores and classes as outputs of their own, 20 for each image of 64 x 64."""
    return model(
        [value("image", "batch", 3, 64, 64)],
        [
            value("boxes", "batch", 20, 4),
            value("scores", "batch", 20),
            value("labels", "batch", 20, kind=INT64),
        ],
        [weights("B", 192, 80), weights("S", 192, 20), whole("flat", 0, -1), whole("four", 0, 20, 4)],
        node("AveragePool", "image", "small", kernel_shape=[8, 8], strides=[8, 8]),
        node("Reshape", "small flat", "features"),
        node("MatMul", "features B", "numbers"),
        node("Reshape", "numbers four", "boxes"),
        node("MatMul", "features S", "raw"),
        node("Sigmoid", "raw", "scores"),
        node("Cast", "raw", "labels", to=INT64),
    )


def ocr(declared: tuple[Size, ...]) -> bytes:
    """One line of text at a time: scores of 40 characters for each column, with the columns first."""
    return model(
        [value("line", 1, 1, 64, "width")],
        [value("387", *declared)],
        [weights("W", 64, 40), whole("one", 1)],
        node("Squeeze", "line one", "grey"),
        node("Transpose", "grey", "columns", perm=[2, 0, 1]),
        node("MatMul", "columns W", "387"),
    )


def voice(rate: bool) -> bytes:
    """A window of sound with the state of the one before: a probability, and the state."""
    rates = [value("sr", kind=INT64)] if rate else []
    return model(
        [value("input", "batch", "sequence"), value("state", 2, "batch", 8), *rates],
        [value("output", "batch", 1), value("stateN", 2, "batch", 8)],
        [whole("last", 1)],
        node("ReduceMean", "input", "mean", axes=[1], keepdims=1),
        *([node("Cast", "sr", "hz", to=FLOAT), node("Mul", "mean hz", "raw")] if rate else []),
        node("Sigmoid", "raw" if rate else "mean", "output"),
        node("Identity", "state", "stateN"),
    )


def fixed_state() -> bytes:
    """One row at a time, with a state of fixed size that has no axis for rows."""
    return model(
        [value("input", 1, 16), value("state", 2, 1, 8)],
        [value("output", 1, 1), value("stateN", 2, 1, 8)],
        [],
        node("ReduceMean", "input", "mean", axes=[1], keepdims=1),
        node("Sigmoid", "mean", "output"),
        node("Identity", "state", "stateN"),
    )


def embedding(name: str, size: int, normal: bool) -> bytes:
    """A vector of each text, of length 1 or not."""
    last = node("LpNormalization", "raw", name, axis=1, p=2) if normal else node("Identity", "raw", name)
    return model(
        [
            value("input_ids", "batch", "sequence", kind=INT64),
            value("attention_mask", "batch", "sequence", kind=INT64),
        ],
        [value(name, "batch", size)],
        [weights("E", 100, size), whole("two", 2)],
        node("Gather", "E input_ids", "tokens"),
        node("Cast", "attention_mask", "kept", to=FLOAT),
        node("Unsqueeze", "kept two", "wide"),
        node("Mul", "tokens wide", "seen"),
        node("ReduceMean", "seen", "raw", axes=[1], keepdims=0),
        last,
    )


def features() -> bytes:
    """A vector of each window, with sizes of 1 around it."""
    return model(
        [value("input_1", "unk", 12, 8, 1)],
        [value("conv", "unk_1", 1, 1, 24)],
        [weights("W", 96, 24), whole("flat", 0, -1), whole("four", -1, 1, 1, 24)],
        node("Reshape", "input_1 flat", "row"),
        node("MatMul", "row W", "raw"),
        node("Reshape", "raw four", "conv"),
    )


def tokens() -> bytes:
    """Scores of 9 tags for each token."""
    return model(
        [value("input_ids", "batch", "sequence", kind=INT64)],
        [value("logits", "batch", "sequence", 9)],
        [weights("E", 100, 9)],
        node("Gather", "E input_ids", "logits"),
    )


def table(last: str, size: int, output: str = "out") -> bytes:
    """Numbers in, as many numbers out."""
    return model(
        [value("X", "N", 6)],
        [value(output, "N", size)],
        [weights("W", 6, size)],
        node("MatMul", "X W", "raw"),
        node(last, "raw", output),
    )


def temperature() -> bytes:
    """A single number beside the rows."""
    return model(
        [value("X", "N", 4), value("temperature")],
        [value("probabilities", "N", 4)],
        [],
        node("Div", "X temperature", "raw"),
        node("Softmax", "raw", "probabilities", axis=1),
    )


def texts() -> bytes:
    """A text for each text."""
    return model(
        [value("text", "N", kind=STRING)],
        [value("answer", "N", kind=STRING)],
        [],
        node("Identity", "text", "answer"),
    )


def spectrum() -> bytes:
    """Frames of a sound, in which the rows are lost: their number is the sound's length."""
    return model(
        [value("audio", "batch", "samples")],
        [value("frames", "time", "n_frames", 4)],
        [whole("shape", -1, 1, 4)],
        node("Reshape", "audio shape", "frames"),
    )


def image_without_batch() -> bytes:
    """One image, without an axis for several."""
    return model(
        [value("image", 3, 32, 32)],
        [value("probabilities", 10)],
        [weights("W", 3072, 10), whole("flat", 1, -1), whole("ten", 10)],
        node("Reshape", "image flat", "row"),
        node("MatMul", "row W", "raw"),
        node("Softmax", "raw", "soft", axis=1),
        node("Reshape", "soft ten", "probabilities"),
    )


def picky(size: int) -> bytes:
    """An image of free height, which must be `size`, as the file does not say."""
    return model(
        [value("x", "n", 3, "h", "w")],
        [value("y", "n", 5)],
        [weights("W", 5, 3, size, 1)],
        node("Conv", "x W", "row"),
        node("ReduceMean", "row", "flat", axes=[2, 3], keepdims=0),
        node("Softmax", "flat", "y", axis=1),
    )


SHAPES: dict[str, Shape] = {
    "nchw-softmax": Shape(
        lambda: image_classifier("N", 64, "Softmax"), ("classification",), "output", True, True
    ),
    "nchw-logits": Shape(lambda: image_classifier("N", "side"), ("classification",), "output", True),
    "nchw-one-by-one": Shape(
        lambda: image_classifier(1, 64, "Softmax"), ("classification",), "output", False, True
    ),
    "multi-label": Shape(lambda: image_classifier("N", 64, "Sigmoid"), ("custom",), "output", True, True),
    "mask-of-one": Shape(lambda: segmentation("Sigmoid", 1), ("segmentation",), "out", True, True),
    "mask-of-many": Shape(lambda: segmentation("Softmax", 21), ("segmentation",), "out", True, True),
    "detector-of-three": Shape(detector, ("detections",), "boxes", True, True),
    "ocr": Shape(lambda: ocr(("T", 1, 40)), ("custom",), "387", False),
    "ocr-declared-otherwise": Shape(lambda: ocr((1, "S")), ("custom",), "387", False),
    "voice": Shape(lambda: voice(rate=False), ("custom",), "output", False, True),
    "voice-with-rate": Shape(lambda: voice(rate=True), ("custom",), "output", False, True),
    "fixed-state": Shape(fixed_state, ("custom",), "output", False, True),
    "embedding": Shape(
        lambda: embedding("sentence_embedding", 16, False), ("vectors",), "sentence_embedding", True, True
    ),
    "unit-vectors": Shape(lambda: embedding("out", 24, True), ("vectors",), "out", True, True),
    "long-vectors": Shape(lambda: table("Identity", 384), ("vectors",), "out", True),
    "vector-of-four-sizes": Shape(features, ("vectors",), "conv", takes_batches=True),
    "tags": Shape(tokens, ("custom",), "logits", True),
    "sigmoid": Shape(lambda: table("Sigmoid", 1), ("custom",), "out", True, True),
    "number": Shape(lambda: table("Identity", 1, "price"), ("regression",), "price", True),
    "single-number": Shape(temperature, ("classification",), "probabilities", False, True),
    "texts": Shape(texts, ("text",), "answer", True, True),
    "rows-lost": Shape(spectrum, ("custom",), "frames", False),
    "no-batch": Shape(image_without_batch, ("classification",), "probabilities", False, True),
    "picky-height": Shape(lambda: picky(48), ("classification",), "y", True, True),
}
NOT_FINITE = Shape(lambda: table("Log", 3), ("classification",), "out", takes_batches=True)
"""Of negative numbers there is no logarithm."""
