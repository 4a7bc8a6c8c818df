"""Models trained on real data, each with the release file that converts it and what its own library answers."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from numpy.typing import NDArray
from onnx import TensorProto, helper

from slipway_digit_models.images import training_and_held_out
from slipway_digit_models.training import golden_set
from slipway_digit_models.training import train as train_digits
from slipway_sandbox.host.images import build_image, is_built
from tests.support.pods.networks import train_network
from tests.support.pods.support import npz, train

QUEUE_DELAY_S = 1
# One golden row warms the model up, four times in one batch. Four or eight rows are a batch at once, fewer only
# after the delay.
SERVING = f"""
serving:
  max_batch_size: 512
  dynamic_batching: {{max_queue_delay_us: {QUEUE_DELAY_S * 1_000_000}, preferred_batch_sizes: [4, 8]}}
  warmup: [{{name: golden, row: 1, batch_size: 4, count: 2}}]
"""
CACHED = "  response_cache: true\n"
TOP_1 = "{measure: top_k, agreement_min: 0.97}"
_TRAINING = threading.Lock()
FOREST = "sklearn, trusted_types: [sklearn.tree._tree.Tree]"


@dataclass(frozen=True)
class Trained:
    """What training leaves: files beside `ready.json`, the golden set, and the model's own answers to it by output."""

    files: Mapping[str, bytes]
    golden: bytes
    answers: Mapping[str, NDArray[np.generic]]


@dataclass(frozen=True)
class Case:
    """A release file's text, and which of the trained models it is about."""

    release_file: str
    trained: Callable[[Path], Trained]


def release_file(name: str, source: str, conversion: str, more: str = SERVING) -> str:
    """The text of a release file of the model `name`."""
    return f"model: {name}\nsource: {{format: {source}}}\nconversion: {{target: {conversion}}}\n{more}"


def digits(_: Path) -> Trained:
    """The demo's network on handwritten digits, as ONNX, with calibration rows of its training."""
    return _of_onnx(_digits_model(), golden_set(2), np.float32)


def half_digits(_: Path) -> Trained:
    """The same with FP16 going in and coming out."""
    held_out = training_and_held_out()[1]
    golden = npz(pixels=held_out.pixels.astype(np.float16), label=held_out.label)
    return _of_onnx(_with_half_tensors(_digits_model()), golden, np.float16)


def forest(folder: Path) -> Trained:
    """A random forest that names iris species by text."""
    home = _estimators(folder)
    answers = {"probabilities": "forest.skops.npy", "label": "forest.skops.label.npy"}
    return _of_estimator(
        home, "forest.skops", "iris", {name: np.load(home / file) for name, file in answers.items()}
    )


def boosted(folder: Path) -> Trained:
    """XGBoost's classifier of the same, by whole numbers."""
    home = _estimators(folder)
    probabilities = np.load(home / "xgboost-iris.ubj.npy")
    answers = {"probabilities": probabilities, "label": probabilities.argmax(axis=1)}
    return _of_estimator(home, "xgboost-iris.ubj", "iris", answers)


def leaves(folder: Path) -> Trained:
    """LightGBM's regression of a disease's progression."""
    home = _estimators(folder)
    answers = {"prediction": np.load(home / "lightgbm-people.txt.npy")}
    return _of_estimator(home, "lightgbm-people.txt", "people", answers)


def digits_network(folder: Path) -> Trained:
    """A network on handwritten digits as TorchScript. Its image is the largest: it is not built here."""
    if not is_built("pytorch"):
        pytest.skip("NOT TESTED, image not built: python -m slipway_sandbox.host.images pytorch")
    network = train_network(folder / "network")
    return Trained({"model.pt": network.script}, network.golden, network.answers)


CASES: Mapping[str, Case] = {
    "onnx-fp16": Case(
        release_file("half", "onnx", "onnx, precision: fp16, parity: {abs_tolerance: 5e-3}"), digits
    ),
    "onnx-fp16-in-and-out": Case(
        release_file("half-tensors", "onnx", "onnx, precision: fp16, parity: {abs_tolerance: 1e-2}"),
        half_digits,
    ),
    "onnx-int8-dynamic": Case(
        release_file("quick", "onnx", f"onnx, precision: int8, parity: {TOP_1}"), digits
    ),
    "onnx-int8-static": Case(
        release_file(
            "quicker",
            "onnx",
            "onnx, precision: int8, quantization: {method: static, calibration_file: calibration.npz}, "
            f"parity: {TOP_1}",
        ),
        digits,
    ),
    "onnx-fastest-of-two": Case(
        release_file(
            "several",
            "onnx",
            f"onnx, variants: {{whole: {{}}, quick: {{precision: int8, parity: {TOP_1}}}}}, choose: fastest",
        ),
        digits,
    ),
    "sklearn-text-labels": Case(release_file("forest", "sklearn", FOREST, SERVING + CACHED), forest),
    "xgboost": Case(release_file("boosted", "xgboost", "xgboost"), boosted),
    "lightgbm-regression": Case(release_file("leaves", "lightgbm", "lightgbm"), leaves),
    "pytorch": Case(
        release_file("network", "pytorch", "pytorch, outputs: [label, probabilities]"),
        digits_network,
    ),
}
"""By what is converted; each model has a name of its own."""


@cache
def _digits_model() -> bytes:
    """The demo's network, trained once."""
    return train_digits(2).onnx


def _estimators(folder: Path) -> Path:
    """Where `training/estimators.py` has written its models; run once for a folder."""
    home = folder / "estimators"
    with _TRAINING:
        if not home.exists():
            home.mkdir()
            train(build_image("sklearn"), "estimators.py", home)
    return home


def _of_estimator(home: Path, model: str, golden: str, answers: Mapping[str, NDArray[np.generic]]) -> Trained:
    files = {f"model{Path(model).suffix}": (home / model).read_bytes()}
    return Trained(files, (home / f"{golden}.npz").read_bytes(), answers)


def _of_onnx(model: bytes, golden: bytes, kind: type[np.floating]) -> Trained:
    session = onnxruntime.InferenceSession(model)
    training, held_out = training_and_held_out()
    answers = session.run(["probabilities"], {"pixels": held_out.pixels.astype(kind)})
    calibration = npz(pixels=training.pixels[:200].astype(kind))
    files = {"model.onnx": model, "calibration.npz": calibration}
    return Trained(files, golden, {"probabilities": answers[0]})


def _with_half_tensors(content: bytes) -> bytes:
    """The model with its pixels and its probabilities cast from and to FP16."""
    model = onnx.load_from_string(content)
    graph, whole = model.graph, {"pixels": "whole_pixels", "probabilities": "whole_probabilities"}
    for node in graph.node:
        node.input[:] = [whole.get(name, name) for name in node.input]
        node.output[:] = [whole.get(name, name) for name in node.output]
    graph.node.insert(0, helper.make_node("Cast", ["pixels"], ["whole_pixels"], to=TensorProto.FLOAT))
    graph.node.append(
        helper.make_node("Cast", ["whole_probabilities"], ["probabilities"], to=TensorProto.FLOAT16)
    )
    for value in (one for one in (*graph.input, *graph.output) if one.name in whole):
        value.type.tensor_type.elem_type = TensorProto.FLOAT16
    onnx.checker.check_model(model)
    return bytes(model.SerializeToString())
