"""Models whose batch is not the first axis, or who have none, on a real tritonserver."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from slipway.hooks.s3_store import ModelStoreHook
from slipway.hooks.triton import TritonHook
from slipway_core.errors import ValidationRefusedError
from tests.support.release.staged_answers import Release

pytestmark = pytest.mark.timeout(600)

_VOICE = """
model: voice
source: {format: onnx}
serving: {max_batch_size: 0, dynamic_batching: null, warmup: [{name: first}]}
validation: {kind: regression, output: speech, mae_max: 0.1}
"""
_ENCODER = """
model: encoder
source: {format: onnx}
serving: {max_batch_size: 0, dynamic_batching: null}
validation: {kind: vectors}
golden: {row_axis: {bias: none}}
"""
_NUMBERS = np.random.default_rng(3)


def _model(nodes: list[Any], inputs: list[Any], outputs: list[Any], **weights: Any) -> bytes:
    constants = [numpy_helper.from_array(np.asarray(value), name) for name, value in weights.items()]
    graph = helper.make_graph(nodes, "tested", inputs, outputs, constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    onnx.checker.check_model(model, full_check=True)
    return bytes(model.SerializeToString())


def _voice(store: ModelStoreHook, version: int, gain: float, stable: int | None = None) -> Release:
    """Publish speech = (mean of the signal + sum of the state's first half) x gain; the rate is a single number."""
    node, value = helper.make_node, helper.make_tensor_value_info
    content = _model(
        [
            node("ReduceMean", ["signal"], ["mean"], axes=[1], keepdims=1),
            node("Gather", ["state", "first"], ["half"], axis=0),
            node("ReduceSum", ["half", "columns"], ["sum"], keepdims=1),
            node("Reshape", ["rate", "single"], ["one"]),
            node("Cast", ["one"], ["rate_"], to=TensorProto.FLOAT),
            node("Div", ["rate_", "usual"], ["share"]),
            node("Add", ["mean", "sum"], ["whole"]),
            node("Mul", ["whole", "gain"], ["louder"]),
            node("Mul", ["louder", "share"], ["speech"]),
        ],
        [
            value("signal", TensorProto.FLOAT, ["batch", "samples"]),
            value("state", TensorProto.FLOAT, [2, "batch", 3]),
            value("rate", TensorProto.INT64, [1]),
        ],
        [value("speech", TensorProto.FLOAT, ["batch", 1])],
        single=np.zeros(0, np.int64),
        first=np.int64(0),
        columns=np.asarray([1]),
        usual=np.float32(16000),
        gain=np.float32(gain),
    )
    signal = _NUMBERS.normal(size=(40, 8)).astype(np.float32)
    state = _NUMBERS.normal(size=(2, 40, 3)).astype(np.float32)
    signature = {
        "inputs": [
            {"name": "signal", "datatype": "FP32", "shape": [-1, -1]},
            {"name": "state", "datatype": "FP32", "shape": [2, -1, 3]},
            {"name": "rate", "datatype": "INT64", "shape": [1]},
        ],
        "outputs": [{"name": "speech", "datatype": "FP32", "shape": [-1, 1]}],
    }
    label = (signal.mean(axis=1) + state[0].sum(axis=1)).astype(np.float64)
    golden = {"signal": signal, "state": state, "rate": np.asarray(16000), "label": label}
    return Release(store, _VOICE, version, stable).publish({"model.onnx": content}, signature, **golden)


def test_a_voice_detector_with_a_state_and_a_single_number_is_validated(
    store: ModelStoreHook, hook: TritonHook
) -> None:
    """The batch is the state's second axis and the rate is served as [1]: it is warmed up, asked and compared."""
    _voice(store, 1, gain=1.0)
    release = _voice(store, 2, gain=1.01, stable=1).prepare().load()
    report = release.validate()
    assert (report["outcome"], report["numbers"]["agreement"]) == ("pass", 1.0)
    assert report["numbers"]["r2"] > 0.99
    assert report["rows_taken"] == (
        "`rate`: the same in every request (guessed), `signal`: axis 0 (guessed), `state`: axis 1 (guessed)"
    )
    checks = {one["check"]: one["status"] for one in report["health"]}
    assert checks["batch_invariant"] == checks["deterministic"] == "pass"
    assert "state" in release.page


def test_a_damaged_voice_detector_is_refused(store: ModelStoreHook, hook: TritonHook) -> None:
    """What a wrong gain does shows in the errors, the agreement and a constant answer."""
    _voice(store, 1, gain=1.0)
    with pytest.raises(ValidationRefusedError, match="mean absolute error") as caught:
        _voice(store, 2, gain=0.0, stable=1).prepare().load().validate()
    assert "got the same answer" in (caught.value.expected or "")


def test_an_encoder_of_one_row_a_request_is_validated_without_labels(
    store: ModelStoreHook, hook: TritonHook
) -> None:
    """A model without any axis for rows is asked row by row; its vectors are compared with stable's."""
    value = helper.make_tensor_value_info
    for version, sign, stable in ((1, 1.0, None), (2, 1.0, 1), (3, -1.0, 1)):
        content = _model(
            [
                helper.make_node("Mul", ["words", "sign"], ["signed"]),
                helper.make_node("Add", ["signed", "bias"], ["embedding"]),
            ],
            [value("words", TensorProto.FLOAT, [6]), value("bias", TensorProto.FLOAT, [6])],
            [value("embedding", TensorProto.FLOAT, [6])],
            sign=np.float32(sign),
        )
        six = {"datatype": "FP32", "shape": [6]}
        signature = {
            "inputs": [{"name": "words", **six}, {"name": "bias", **six}],
            "outputs": [{"name": "embedding", **six}],
        }
        words = np.random.default_rng(9).normal(size=(24, 6)).astype(np.float32)
        release = Release(store, _ENCODER, version, stable).publish(
            {"model.onnx": content}, signature, words=words, bias=np.zeros(6, np.float32)
        )
        release.prepare().load()
        if version == 3:
            with pytest.raises(ValidationRefusedError, match="agreement with version 1 0"):
                release.validate()
            continue
        report = release.validate()
        assert (report["kind"], report["outcome"]) == ("vectors", "warn")
        assert "none of the model's answers" in report["warnings"][0] if stable is None else True
        assert "`words`: a request for each row (guessed)" in report["rows_taken"]
