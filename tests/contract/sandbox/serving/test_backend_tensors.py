"""The sandbox's ONNX Runtime backend holds tensors against the model as the real one does (emulated)."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import onnx
import pytest
import tritonclient.http as triton_http
from onnx import TensorProto, helper, numpy_helper
from tritonclient.utils import InferenceServerException

from slipway_core.errors import LoadRefusedError
from slipway_sandbox.services.triton import TritonPorts, TritonServer
from slipway_sandbox.services.triton_install import TritonInstall

pytestmark = pytest.mark.timeout(600)


def _value(name: str, *shape: int | str) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)


def _model(nodes: list[onnx.NodeProto], inputs: list, outputs: list, weights: list | None = None) -> bytes:  # type: ignore[type-arg]
    graph = helper.make_graph(nodes, "g", inputs, outputs, weights or [])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    return bytes(model.SerializeToString())


def _write(folder: Path, name: str, model: bytes, config: str) -> None:
    (folder / name / "1").mkdir(parents=True)
    (folder / name / "1" / "model.onnx").write_bytes(model)
    text = (
        f'name: "{name}" platform: "onnxruntime_onnx" instance_group {{ kind: KIND_CPU count: 1 }} {config}'
    )
    (folder / name / "config.pbtxt").write_text(text)


@contextmanager
def _served(install: TritonInstall, folder: Path) -> Iterator[TritonServer]:
    server = TritonServer(install, folder, TritonPorts.free(), log_path=folder.parent / "log")
    server.start()
    try:
        server.wait_ready(60)
        yield server
    finally:
        server.stop(grace_s=0.5)


def _ask(server: TritonServer, model: str, **tensors: np.ndarray) -> np.ndarray:
    inputs = []
    for name, array in tensors.items():
        one = triton_http.InferInput(name, list(array.shape), "FP32")
        one.set_data_from_numpy(array.astype(np.float32))
        inputs.append(one)
    with triton_http.InferenceServerClient(f"127.0.0.1:{server.ports.http}") as client:
        return np.asarray(client.infer(model, inputs).as_numpy("y"))


_WIDE = _model([helper.make_node("Relu", ["x"], ["y"])], [_value("x", "n", 3)], [_value("y", "n", 3)])
_OPEN = _model([helper.make_node("Relu", ["x"], ["y"])], [_value("x", "n", "w")], [_value("y", "n", "w")])
_FIXED = _model([helper.make_node("Relu", ["x"], ["y"])], [_value("x", 1, 3)], [_value("y", 1, 3)])
_CONFIG = (
    "max_batch_size: {size} "
    'input {{ name: "x" data_type: TYPE_FP32 dims: {x} }} output {{ name: "y" data_type: TYPE_FP32 dims: {y} }}'
)


@pytest.mark.parametrize(
    ("model", "config", "words"),
    [
        (
            _WIDE,
            _CONFIG.format(size=8, x="[-1]", y="[3]"),
            r"input 'x' has shape \[-1, 3\] in the model, \[-1, -1\]",
        ),
        (
            _OPEN,
            _CONFIG.format(size=8, x="[3]", y="[3]"),
            r"output 'y' has shape \[-1, -1\] in the model, \[-1, 3\]",
        ),
        (_FIXED, _CONFIG.format(size=8, x="[3]", y="[3]"), r"the first dimension must be -1"),
    ],
    ids=["input", "output", "batch"],
)
def test_a_shape_that_the_real_backend_refuses_is_refused(
    install: TritonInstall, tmp_path: Path, model: bytes, config: str, words: str
) -> None:
    """-1 for what the model fixes, a number for an output that it leaves open, a batch that it fixes."""
    _write(tmp_path / "r", "m", model, config)
    with pytest.raises(LoadRefusedError, match=words), _served(install, tmp_path / "r"):
        pass


def test_ragged_batches_and_optional_inputs_are_served(install: TritonInstall, tmp_path: Path) -> None:
    """What Triton makes of a ragged batch is fed; an input that the model has a value for may be left out."""
    # y: the mean of each request's elements; n says how many they are.
    ends = [
        helper.make_node("CumSum", ["n", "zero"], ["ends"]),
        helper.make_node("CumSum", ["x", "zero"], ["sums"]),
        helper.make_node("Cast", ["ends"], ["whole"], to=TensorProto.INT64),
        helper.make_node("Sub", ["whole", "one"], ["last"]),
        helper.make_node("Gather", ["sums", "last"], ["to_last"]),
        helper.make_node("Pad", ["to_last", "pads"], ["before"]),
        helper.make_node("Sub", ["to_last", "before"], ["total"]),
        helper.make_node("Div", ["total", "n"], ["mean"]),
        helper.make_node("Unsqueeze", ["mean", "axis"], ["y"]),
    ]
    weights = [
        numpy_helper.from_array(np.array(value, np.int64), name)
        for name, value in (("zero", 0), ("one", 1), ("pads", [1, -1]), ("axis", [1]))
    ]
    ragged = _model(ends, [_value("x", "e"), _value("n", "r")], [_value("y", "r", 1)], weights)
    _write(
        tmp_path / "r",
        "ragged",
        ragged,
        "max_batch_size: 4 dynamic_batching { max_queue_delay_microseconds: 200000 preferred_batch_size: 4 } "
        'input { name: "x" data_type: TYPE_FP32 dims: [-1] allow_ragged_batch: true } '
        'output { name: "y" data_type: TYPE_FP32 dims: [1] } '
        'batch_input { kind: BATCH_ELEMENT_COUNT target_name: "n" data_type: TYPE_FP32 source_input: "x" }',
    )
    scale = numpy_helper.from_array(np.array([2], np.float32), "t")
    scaled = _model(
        [helper.make_node("Mul", ["x", "t"], ["y"])],
        [_value("x", "n", 3), _value("t", 1)],
        [_value("y", "n", 3)],
        [scale],
    )
    _write(
        tmp_path / "r",
        "scaled",
        scaled,
        'input [{ name: "x" data_type: TYPE_FP32 dims: [-1, 3] }, '
        '{ name: "t" data_type: TYPE_FP32 dims: [1] optional: true }] '
        'output { name: "y" data_type: TYPE_FP32 dims: [-1, 3] }',
    )
    with _served(install, tmp_path / "r") as server:
        rows = [np.arange(1, length + 1)[np.newaxis] for length in (1, 3, 5, 7)]
        with ThreadPoolExecutor(4) as pool:
            answers = list(pool.map(lambda row: _ask(server, "ragged", x=row).tolist(), rows))
        assert answers == [[[1.0]], [[2.0]], [[3.0]], [[4.0]]]
        with pytest.raises(InferenceServerException, match="for a request of 2 rows"):
            _ask(server, "ragged", x=np.ones((2, 3)))
        x = np.ones((2, 3))
        assert _ask(server, "scaled", x=x).tolist() == (2 * x).tolist()
        assert _ask(server, "scaled", x=x, t=np.array([5])).tolist() == (5 * x).tolist()
