"""Sample versions to try releases with: a good one, and three that a gate must refuse, each at another stage.

good     a small neural network: it is promoted
slow     the same answers after some tens of milliseconds of needless work: the benchmark refuses it
wrong    every digit is answered with the next one: validation refuses it
broken   a file that was cut in the middle, as an upload that nobody checked: the conversion refuses it
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Literal, get_args

import numpy as np
import onnx
from onnx import helper, numpy_helper

from slipway_digit_models.training import DATASET_VERSION, golden_set, train

SampleKind = Literal["good", "slow", "wrong", "broken"]
KINDS: tuple[SampleKind, ...] = get_args(SampleKind)

_GOOD = 2
# Two products of square matrices with so many rows are 2 GFLOP: tens of milliseconds on one core.
_NEEDLESS_ROWS = 800


def make_sample(
    kind: SampleKind, model: str, version: int, *, trained_at: datetime, by_hand: bool
) -> dict[str, bytes]:
    """Return the files of a sample by name, in the order to upload them: `ready.json` is last.

    The same kind always gives the same model.

    :param by_hand: nothing starts by itself when it lands.
    :raises ImportError: scikit-learn, skl2onnx or onnx are not installed.
    """
    trained = train(_GOOD)
    data = {"model.onnx": _CHANGES[kind](trained.onnx), "golden.npz": golden_set(_GOOD)}
    ready = {
        "model": model,
        "version": version,
        "files": {name: hashlib.sha256(content).hexdigest() for name, content in data.items()},
        "dataset_version": DATASET_VERSION,
        "accuracy": round(trained.accuracy, 4),
        "trained_at": trained_at.isoformat(timespec="seconds"),
        "framework": "scikit-learn",
        "start": "by_hand" if by_hand else "automatic",
    }
    return {**data, "ready.json": json.dumps(ready, indent=2).encode()}


def _slow(good: bytes) -> bytes:
    """Add zero to the probabilities, by way of products that depend on the input: no optimiser removes them."""
    model = onnx.load_from_string(good)
    graph = model.graph
    _rename_output(graph, "probabilities", "probabilities_before")
    size = np.array([_NEEDLESS_ROWS, _NEEDLESS_ROWS], dtype=np.int64)
    graph.initializer.extend(
        [
            numpy_helper.from_array(size, "needless_size"),
            numpy_helper.from_array(np.array(0, dtype=np.float32), "needless_zero"),
        ]
    )
    graph.node.extend(
        [
            helper.make_node("ReduceMax", ["pixels"], ["needless_brightest"], keepdims=0),
            helper.make_node("Mul", ["needless_brightest", "needless_zero"], ["needless_none"]),
            helper.make_node("Expand", ["needless_none", "needless_size"], ["needless_square"]),
            helper.make_node("MatMul", ["needless_square", "needless_square"], ["needless_product"]),
            helper.make_node("MatMul", ["needless_product", "needless_square"], ["needless_again"]),
            helper.make_node("ReduceMax", ["needless_again"], ["needless_result"], keepdims=0),
            helper.make_node("Add", ["probabilities_before", "needless_result"], ["probabilities"]),
        ]
    )
    return _checked(model)


def _wrong(good: bytes) -> bytes:
    """Shift the probabilities by one class."""
    model = onnx.load_from_string(good)
    _rename_output(model.graph, "probabilities", "probabilities_before")
    order = np.roll(np.arange(10, dtype=np.int64), 1)
    model.graph.initializer.append(numpy_helper.from_array(order, "shifted"))
    model.graph.node.append(
        helper.make_node("Gather", ["probabilities_before", "shifted"], ["probabilities"], axis=1)
    )
    return _checked(model)


def _rename_output(graph: onnx.GraphProto, name: str, other: str) -> None:
    """Call the tensor that makes an output otherwise, so that something can stand between both."""
    for node in graph.node:
        for names in (node.input, node.output):
            for place, one in enumerate(names):
                if one == name:
                    names[place] = other


def _checked(model: onnx.ModelProto) -> bytes:
    onnx.checker.check_model(model, full_check=True)
    content: bytes = model.SerializeToString(deterministic=True)
    return content


_CHANGES: Mapping[SampleKind, Callable[[bytes], bytes]] = {
    "good": lambda good: good,
    "slow": _slow,
    "wrong": _wrong,
    "broken": lambda good: good[: len(good) // 2],
}
EXPECTED: Mapping[SampleKind, str] = {
    "good": "it is promoted. The first version gets all users after its gates; a later one goes through a canary, "
    "which users' requests decide (in the sandbox: make traffic).",
    "slow": "the benchmark refuses it, since it is slower than the version that is live.",
    "wrong": "validation refuses it, since its accuracy on the golden set is too low.",
    "broken": "the conversion refuses it, since its file cannot be read.",
}
