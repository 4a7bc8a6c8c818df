"""A model that Triton hands its batch as one flat tensor: converted, published, loaded on a real Triton, validated.

The server's ONNX Runtime backend is the sandbox's, which emulates what Triton makes of a batch.
"""

from __future__ import annotations

import io
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from slipway.hooks.s3_store import ModelStoreHook
from slipway.operators.validate import ValidateModelOperator
from tests.support.release.release_steps import CONTEXT, Release, staging_server

pytestmark = pytest.mark.timeout(600)

ROWS, WIDTH = 200, 4
RELEASE = """
model: flat
source: {format: onnx}
validation: {kind: classification, output: scores, label: label, accuracy_min: 0.95}
"""
CONFIG = b"""
platform: "onnxruntime_onnx"
max_batch_size: 8
input [ { name: "x" data_type: TYPE_FP32 dims: [ -1 ] allow_ragged_batch: true } ]
output [ { name: "scores" data_type: TYPE_FP32 dims: [ 4 ] } ]
batch_input [ { kind: BATCH_ELEMENT_COUNT target_name: "n" data_type: TYPE_FP32 source_input: "x" } ]
dynamic_batching { }
"""


def flat_model() -> bytes:
    """Scores of four classes, a row for each of `n`, from the flat `x`; each row is divided by its own `n`."""
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        [
            helper.make_node("Shape", ["n"], ["rows"]),
            helper.make_node("Concat", ["rows", "width"], ["shape"], axis=0),
            helper.make_node("Reshape", ["x", "shape"], ["apart"]),
            helper.make_node("Unsqueeze", ["n", "axis"], ["each"]),
            helper.make_node("Div", ["apart", "each"], ["shares"]),
            helper.make_node("Softmax", ["shares"], ["scores"], axis=1),
        ],
        "flat",
        [value("x", TensorProto.FLOAT, ["e"]), value("n", TensorProto.FLOAT, ["r"])],
        [value("scores", TensorProto.FLOAT, ["r", WIDTH])],
        [
            numpy_helper.from_array(np.array([WIDTH], np.int64), "width"),
            numpy_helper.from_array(np.array([1], np.int64), "axis"),
        ],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    return bytes(made.SerializeToString())


def golden() -> dict[str, Any]:
    """Rows whose largest number is that of their class."""
    labels = np.arange(ROWS) % WIDTH
    noise = np.random.default_rng(5).normal(scale=0.3, size=(ROWS, WIDTH))
    return {"x": (np.eye(WIDTH)[labels] * 8 + noise).astype(np.float32), "label": labels}


def test_a_ragged_model_is_released_with_a_request_for_each_row(
    store: ModelStoreHook, tmp_path: Path
) -> None:
    """The golden set has no `n`, which Triton makes; converter, publishing and gates ask what clients would."""
    release, rows, packed = Release(store, RELEASE, 1), golden(), io.BytesIO()
    np.savez(packed, **rows)
    release.land({"model.onnx": flat_model(), "config.pbtxt": CONFIG}, packed.getvalue())
    result = release.convert()
    assert [one["pass"] for one in result["parity"]] == [True]
    assert result["latency"]["batch_size"] == 1
    manifest = release.publish()
    assert [(one.name, one.shape) for one in manifest.signature.inputs] == [("x", (-1, -1))]
    with staging_server(store, tmp_path) as hook:
        staging = release.stage()
        name = staging.candidate.name
        # What is sent at once is batched by the server: each request gets its own row's answer.
        with ThreadPoolExecutor(8) as pool:
            asked = [rows["x"][at : at + 1] for at in range(ROWS)]
            answers = list(pool.map(lambda one: hook.infer(name, 1, {"x": one}, ["scores"])["scores"], asked))
        ValidateModelOperator(
            task_id="validate", release=release.rendered, staging=staging.model_dump_json()
        ).run(CONTEXT)
    shares = rows["x"] / WIDTH
    expected = np.exp(shares) / np.exp(shares).sum(axis=1, keepdims=True)
    assert np.allclose(np.concatenate(answers), expected, atol=1e-5)
    report = store.read_json(f"{release.release_run.evidence_prefix}validation.json")
    assert (report["outcome"], report["rows_taken"]) == ("pass", "`x`: axis 0 (guessed), one row a request")
