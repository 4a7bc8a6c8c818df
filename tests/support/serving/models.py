"""Small ONNX models, and the Triton repositories they lie in."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper

# Triton's own number of instances on CPUs is two for ONNX models, and each one is a process that is started.
CONFIG = """
name: "{name}"
platform: "onnxruntime_onnx"
max_batch_size: {max_batch_size}
input [ {{ name: "x" data_type: TYPE_FP32 dims: [ 2 ] }} ]
output [ {{ name: "y" data_type: {output_type} dims: [ 2 ] }} ]
instance_group [ {{ kind: KIND_CPU count: 1 }} ]
{more}
"""

BATCHING = "dynamic_batching { max_queue_delay_microseconds: 200000 preferred_batch_size: [ 4 ] }"


def table_model(factor: float) -> bytes:
    """Return an ONNX model: y = factor × x, but an x whose first value is 10 or more fails when it is run.

    The first value picks a row of a table of ten; a row that is not there is an error of ONNX Runtime.
    """
    return model_of_table([factor] * 10)


def model_of_table(factors: Sequence[float]) -> bytes:
    """Return an ONNX model: y = f × x with the factor that x's first value picks; there must be one."""
    table = np.repeat(np.array(factors, dtype=np.float32)[:, np.newaxis], 2, axis=1)
    nodes = [
        helper.make_node("Gather", ["x", "first"], ["column"], axis=1),
        helper.make_node("Cast", ["column"], ["row"], to=TensorProto.INT64),
        helper.make_node("Gather", ["table", "row"], ["factors"], axis=0),
        helper.make_node("Mul", ["x", "factors"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        "table",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["rows", 2])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["rows", 2])],
        [
            helper.make_tensor("table", TensorProto.FLOAT, table.shape, table.tobytes(), raw=True),
            helper.make_tensor("first", TensorProto.INT64, [], [0]),
        ],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    onnx.checker.check_model(model)
    return bytes(model.SerializeToString())


def write_repository(
    directory: Path,
    *,
    name: str = "table",
    versions: dict[int, bytes] | None = None,
    output_type: str = "TYPE_FP32",
    max_batch_size: int = 16,
    more: str = BATCHING,
) -> Path:
    """Write a Triton repository of one model and return it; by default it has one version, which doubles."""
    model = directory / name
    model.mkdir(parents=True)
    config = CONFIG.format(name=name, output_type=output_type, max_batch_size=max_batch_size, more=more)
    (model / "config.pbtxt").write_text(config)
    for version, content in (versions or {1: table_model(2.0)}).items():
        (model / str(version)).mkdir()
        (model / str(version) / "model.onnx").write_bytes(content)
    return directory
