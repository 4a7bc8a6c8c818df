"""convert_onnx.py with the real onnx, onnxslim and onnxruntime of its image, over an S3 on loopback."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from include.model_release.parity import parse_parity
from tests.contract.pods.support import ObjectStore, Pod, PodRun, closed_port

ROWS = 150
RANDOM = np.random.default_rng(7)


def tensor(name: str, *shape: int, kind: int = TensorProto.FLOAT) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, kind, ["rows", *shape])


def constant(name: str, *shape: int, scale: float = 1.0) -> onnx.TensorProto:
    return numpy_helper.from_array((RANDOM.random(shape) * scale + 0.1).astype(np.float32), name)


def model_of(nodes: list[Any], inputs: list[Any], outputs: list[Any], constants: list[Any]) -> bytes:
    graph = helper.make_graph(nodes, "graph", inputs, outputs, constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return bytes(model.SerializeToString())


def classifier() -> bytes:
    """A linear classifier with two nodes that do nothing: X [rows, 4] → probabilities [rows, 3], label [rows]."""
    nodes = [
        helper.make_node("Identity", ["X"], ["same"]),
        helper.make_node("MatMul", ["same", "W"], ["scores"]),
        helper.make_node("Identity", ["scores"], ["kept"]),
        helper.make_node("Softmax", ["kept"], ["probabilities"], axis=1),
        helper.make_node("ArgMax", ["probabilities"], ["label"], axis=1, keepdims=0),
    ]
    outputs = [tensor("probabilities", 3), tensor("label", kind=TensorProto.INT64)]
    return model_of(nodes, [tensor("X", 4)], outputs, [constant("W", 4, 3)])


def normalised_convolution() -> bytes:
    """A convolution and a batch normalisation, which the optimiser folds into one: the last bits change."""
    nodes = [
        helper.make_node("Conv", ["X", "W"], ["convolved"], kernel_shape=[3, 3]),
        helper.make_node("BatchNormalization", ["convolved", "scale", "bias", "mean", "variance"], ["Y"]),
    ]
    vectors = [constant(name, 8, scale=3.0) for name in ("scale", "bias", "mean", "variance")]
    return model_of(
        nodes, [tensor("X", 3, 8, 8)], [tensor("Y", 8, 6, 6)], [constant("W", 8, 3, 3, 3), *vectors]
    )


def noisy() -> bytes:
    """Adds random numbers to what it is given."""
    nodes = [
        helper.make_node("RandomUniformLike", ["X"], ["noise"]),
        helper.make_node("Add", ["X", "noise"], ["Y"]),
    ]
    return model_of(nodes, [tensor("X", 4)], [tensor("Y", 4)], [])


@pytest.fixture(scope="module")
def golden(store: ObjectStore) -> str:
    rows = RANDOM.random((ROWS, 4)).astype(np.float32)
    return store.put_arrays("convert/golden.npz", X=rows, label=np.zeros(ROWS, np.int64))


@pytest.fixture(scope="module")
def source(store: ObjectStore) -> str:
    return store.put("convert/model.onnx", classifier())


def convert(pod: Pod, source: str, golden: str, prefix: str, *more: str) -> PodRun:
    return pod.run("convert_onnx.py", "--source", source, "--golden", golden, *more, prefix=prefix)


def test_good_model(onnx_pod: Pod, store: ObjectStore, source: str, golden: str, prefix: str) -> None:
    """A good model is stored with its signature, digest and parity, smaller than before, and answers alike."""
    run = convert(onnx_pod, source, golden, prefix)
    assert run.exit_code == 0, run.stderr
    assert run.result is not None
    assert (run.result["outcome"], run.result["error"]) == ("pass", None)
    content = store.read(f"{prefix}/model.onnx")
    digest = hashlib.sha256(content).hexdigest()
    assert run.result["model"] == {"file": "model.onnx", "size_bytes": len(content), "sha256": digest}
    assert run.result["signature"] == {
        "inputs": [{"name": "X", "datatype": "FP32", "shape": [-1, 4]}],
        "outputs": [
            {"name": "probabilities", "datatype": "FP32", "shape": [-1, 3]},
            {"name": "label", "datatype": "INT64", "shape": [-1]},
        ],
    }
    parity = parse_parity(run.result["parity"])
    assert [(entry.output, entry.rows, entry.passed) for entry in parity] == [
        ("probabilities", ROWS, True),
        ("label", ROWS, True),
    ]
    assert {"onnx", "onnxruntime", "onnxslim", "numpy", "python"} <= set(run.result["tools"])
    converted = onnx.load_from_string(content)
    assert len(converted.graph.node) == 3
    rows = np.ones((5, 4), np.float32)
    before, after = (
        onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"]).run(None, {"X": rows})
        for model in (classifier_of(store), content)
    )
    np.testing.assert_allclose(before[0], after[0], rtol=1e-5)


def classifier_of(store: ObjectStore) -> bytes:
    return store.read("convert/model.onnx")


def test_only_operators_that_the_source_had(
    onnx_pod: Pod, store: ObjectStore, source: str, golden: str, prefix: str
) -> None:
    """The converted model imports no operator set but the source's, so that any runtime can read it."""
    assert convert(onnx_pod, source, golden, prefix).exit_code == 0
    imports = onnx.load_from_string(store.read(f"{prefix}/model.onnx")).opset_import
    assert [(entry.domain, entry.version) for entry in imports] == [("", 17)]


def test_the_same_source_gives_the_same_bytes(
    onnx_pod: Pod, store: ObjectStore, source: str, golden: str, prefix: str
) -> None:
    """Converting twice yields one and the same file: publishing it again is then no change."""
    assert convert(onnx_pod, source, golden, f"{prefix}/a").exit_code == 0
    assert convert(onnx_pod, source, golden, f"{prefix}/b").exit_code == 0
    assert store.read(f"{prefix}/a/model.onnx") == store.read(f"{prefix}/b/model.onnx")


@pytest.mark.parametrize("kept", [0, 0.3, 0.9], ids=["empty", "a third", "most"])
def test_model_file_cut_short(
    onnx_pod: Pod, store: ObjectStore, golden: str, prefix: str, kept: float
) -> None:
    """A model file that was not uploaded whole is bad input, named, and nothing is stored but the result."""
    whole = classifier()
    url = store.put(f"{prefix}-in/model.onnx", whole[: int(len(whole) * kept)])
    run = convert(onnx_pod, url, golden, prefix)
    assert run.exit_code == 3
    assert run.error["kind"] == "ModelInvalidError"
    assert url in run.error["what"]
    assert run.error["remedy"]
    assert store.keys(prefix) == {"result.json"}


def test_wrong_golden_columns(onnx_pod: Pod, store: ObjectStore, source: str, prefix: str) -> None:
    """A golden set without the model's input names the column, what is there, and what looks like it."""
    url = store.put_arrays(f"{prefix}-in/golden.npz", x=np.zeros((3, 4), np.float32), label=np.zeros(3))
    run = convert(onnx_pod, source, url, prefix)
    assert run.exit_code == 3
    assert run.error["kind"] == "GoldenSetError"
    assert "lacks the column X" in run.error["what"]
    assert run.error["found"] == "label, x"


@pytest.mark.parametrize(
    ("rows", "found"),
    [
        (np.zeros((3, 5), np.float32), "float32 of shape [3, 5]"),
        (np.zeros((3, 4), np.float64), "float64 of shape [3, 4]"),
        (np.zeros((0, 4), np.float32), "X: 0"),
    ],
    ids=["shape", "type", "no rows"],
)
def test_golden_columns_that_do_not_fit(
    onnx_pod: Pod, store: ObjectStore, source: str, prefix: str, rows: Any, found: str
) -> None:
    """A column of another shape or type, or without rows, is refused with what was expected and found."""
    url = store.put_arrays(f"{prefix}-in/golden.npz", X=rows)
    run = convert(onnx_pod, source, url, prefix)
    assert run.exit_code == 3
    assert run.error["kind"] == "GoldenSetError"
    assert run.error["found"] == found


def test_golden_set_that_is_no_archive(onnx_pod: Pod, store: ObjectStore, source: str, prefix: str) -> None:
    """A golden file that is not a NumPy archive is bad input."""
    run = convert(onnx_pod, source, store.put(f"{prefix}-in/golden.npz", b"PK\x03\x04 and no more"), prefix)
    assert run.exit_code == 3
    assert run.error["kind"] == "GoldenSetError"


def test_missing_objects(onnx_pod: Pod, store: ObjectStore, source: str, golden: str, prefix: str) -> None:
    """A model or golden set that is not there is named with its address."""
    for given in ([store.url("no/model.onnx"), golden], [source, store.url("no/golden.npz")]):
        run = convert(onnx_pod, *given, prefix)
        assert run.exit_code == 3
        assert run.error["kind"] == "InputMissingError"
        assert "s3://slipway/no/" in run.error["what"]


def test_parity_refusal(onnx_pod: Pod, store: ObjectStore, prefix: str) -> None:
    """Differences beyond the tolerance refuse the model, show the worst rows, and store no model."""
    url = store.put(f"{prefix}-in/model.onnx", normalised_convolution())
    rows = RANDOM.random((20, 3, 8, 8)).astype(np.float32)
    golden = store.put_arrays(f"{prefix}-in/golden.npz", X=rows)
    run = convert(onnx_pod, url, golden, prefix, "--abs-tolerance", "0", "--rel-tolerance", "0")
    assert run.exit_code == 4
    assert run.error["kind"] == "ParityRefusedError"
    assert run.result is not None
    assert run.result["outcome"] == "refused"
    (parity,) = parse_parity(run.result["parity"])
    assert not parity.passed
    assert 0 < parity.mismatched_rows <= parity.rows == 20
    assert parity.worst
    assert parity.worst[0]["source"] != parity.worst[0]["converted"]
    assert store.keys(prefix) == {"result.json"}
    assert convert(onnx_pod, url, golden, prefix).exit_code == 0


def test_model_that_does_not_agree_with_itself(
    onnx_pod: Pod, store: ObjectStore, golden: str, prefix: str
) -> None:
    """A model with random answers is called that, and not blamed on the conversion."""
    run = convert(onnx_pod, store.put(f"{prefix}-in/model.onnx", noisy()), golden, prefix)
    assert run.exit_code == 3
    assert run.error["kind"] == "ModelInvalidError"
    assert "from run to run" in run.error["what"]


def test_store_that_does_not_answer(onnx_pod: Pod, source: str, golden: str, prefix: str) -> None:
    """With S3 unreachable the program ends with 75, try again later, and says where it knocked."""
    arguments = ["--source", source, "--golden", golden]
    closed = f"http://127.0.0.1:{closed_port()}"
    run = onnx_pod.run("convert_onnx.py", *arguments, prefix=prefix, endpoint=closed)
    assert (run.exit_code, run.result) == (75, None)
    assert "S3 does not answer" in run.stderr


def test_time_limit(onnx_pod: Pod, source: str, golden: str, prefix: str) -> None:
    """A conversion that takes too long is ended, and the result says so."""
    run = convert(onnx_pod, source, golden, prefix, "--timeout-s", "0.001")
    assert run.exit_code == 75
    assert run.error["kind"] == "TimedOutError"
    assert "0.001 s" in run.error["expected"]


def test_an_old_result_does_not_outlive_a_new_attempt(
    onnx_pod: Pod, store: ObjectStore, source: str, golden: str, prefix: str
) -> None:
    """A second attempt under the same destination replaces the first one's result."""
    assert convert(onnx_pod, source, golden, prefix).exit_code == 0
    run = convert(onnx_pod, source, golden, prefix, "--timeout-s", "0.001")
    assert run.result is not None
    assert run.result["outcome"] == "error"


def test_usage(onnx_pod: Pod, source: str, golden: str, prefix: str) -> None:
    """An unknown precision, a local path and a negative tolerance are wrong usage, said before anything is done."""
    for wrong in (["--precision", "fp4"], ["--abs-tolerance", "-1"], ["--source", "model.onnx"]):
        run = convert(onnx_pod, source, golden, prefix, *wrong)
        assert (run.exit_code, run.result) == (2, None)
        assert wrong[0] in run.stderr
