"""Single numbers become tensors of one element, and the model answers as before."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper

from slipway_pod.conversion.scalars import has_scalars, widen_scalars


def test_single_numbers_become_tensors_of_one_element(tmp_path: Path) -> None:
    """A scalar input and a scalar output are widened, inside a branch as well; the rest stays."""
    value = helper.make_tensor_value_info
    branches = {
        name: helper.make_graph(
            [helper.make_node(kind, ["x", "rate"], [f"{name}_out"])],
            name,
            [],
            [value(f"{name}_out", TensorProto.FLOAT, ["n"])],
        )
        for name, kind in (("then", "Mul"), ("else", "Add"))
    }
    graph = helper.make_graph(
        [
            helper.make_node("Greater", ["rate", "one"], ["fast"]),
            helper.make_node(
                "If", ["fast"], ["y"], then_branch=branches["then"], else_branch=branches["else"]
            ),
            helper.make_node("ReduceSum", ["y"], ["total"], keepdims=0),
        ],
        "scalars",
        [value("x", TensorProto.FLOAT, ["n"]), value("rate", TensorProto.FLOAT, [])],
        [value("y", TensorProto.FLOAT, ["n"]), value("total", TensorProto.FLOAT, [])],
        [helper.make_tensor("one", TensorProto.FLOAT, [], [1.0])],
    )
    source, target = tmp_path / "source.onnx", tmp_path / "target.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), source)
    assert has_scalars(onnx.load(source))
    widen_scalars(source, target)
    widened = onnx.load(target)
    onnx.checker.check_model(widened, full_check=True)
    assert not has_scalars(widened)
    x = np.arange(3, dtype=np.float32)
    before = onnxruntime.InferenceSession(source).run(None, {"x": x, "rate": np.asarray(2, np.float32)})
    after = onnxruntime.InferenceSession(target).run(None, {"x": x, "rate": np.asarray([2], np.float32)})
    assert np.array_equal(before[0], after[0])
    assert after[1].tolist() == [float(before[1])]
