"""convert_onnx.py with the real onnx, onnxslim and onnxruntime of its image, over an S3 on loopback."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from slipway_core.gates.parity import parse_parity
from slipway_sandbox.host.ports import free_port
from tests.support.pods.onnx_models import RANDOM, ROWS, classifier, model_of, normalised_convolution, tensor
from tests.support.pods.support import ObjectStore, Pod, PodRun


def noisy() -> bytes:
    """Adds random numbers to what it is given."""
    nodes = [
        helper.make_node("RandomUniformLike", ["X"], ["noise"]),
        helper.make_node("Add", ["X", "noise"], ["Y"]),
    ]
    return model_of(nodes, [tensor("X", 4)], [tensor("Y", 4)], [])


def network() -> bytes:
    """Two layers and a softmax: X [rows, 16] → probabilities [rows, 6]."""
    nodes = [
        helper.make_node("MatMul", ["X", "W1"], ["first"]),
        helper.make_node("Relu", ["first"], ["hidden"]),
        helper.make_node("MatMul", ["hidden", "W2"], ["scores"]),
        helper.make_node("Softmax", ["scores"], ["probabilities"], axis=1),
    ]
    constants = [
        numpy_helper.from_array(RANDOM.normal(size=shape).astype(np.float32) / 3, name)
        for name, shape in (("W1", (16, 32)), ("W2", (32, 6)))
    ]
    return model_of(nodes, [tensor("X", 16)], [tensor("probabilities", 6)], constants)


def endless() -> bytes:
    """Counts to 2**62 before it answers."""
    body = helper.make_graph(
        [
            helper.make_node("Identity", ["going"], ["still"]),
            helper.make_node("Add", ["sum", "sum"], ["next"]),
        ],
        "body",
        [
            helper.make_tensor_value_info("turn", TensorProto.INT64, []),
            helper.make_tensor_value_info("going", TensorProto.BOOL, []),
            tensor("sum", 4),
        ],
        [helper.make_tensor_value_info("still", TensorProto.BOOL, []), tensor("next", 4)],
    )
    turns = numpy_helper.from_array(np.array(2**62, np.int64), "turns")
    true = numpy_helper.from_array(np.array(True), "true")
    nodes = [helper.make_node("Loop", ["turns", "true", "X"], ["Y"], body=body)]
    return model_of(nodes, [tensor("X", 4)], [tensor("Y", 4)], [turns, true])


def greedy() -> bytes:
    """Adds the sum of 8 GiB of ones to what it is given."""
    size = numpy_helper.from_array(np.array([2**31], np.int64), "size")
    one = numpy_helper.from_array(np.array([1], np.float32))
    nodes = [
        helper.make_node("ConstantOfShape", ["size"], ["ones"], value=one),
        helper.make_node("ReduceSum", ["ones"], ["sum"], keepdims=0),
        helper.make_node("Add", ["X", "sum"], ["Y"]),
    ]
    return model_of(nodes, [tensor("X", 4)], [tensor("Y", 4)], [size])


@pytest.fixture(scope="module")
def network_source(store: ObjectStore) -> str:
    return store.put("convert/network.onnx", network())


@pytest.fixture(scope="module")
def network_golden(store: ObjectStore) -> str:
    return store.put_arrays("convert/network.npz", X=RANDOM.normal(size=(ROWS, 16)).astype(np.float32))


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
    listed = store.read(f"{prefix}/sbom.json")
    components = {entry["name"]: entry for entry in json.loads(listed)["components"]}
    version = run.result["tools"]["onnxruntime"]
    assert components["onnxruntime"]["purl"] == f"pkg:pypi/onnxruntime@{version}"
    sbom = {"file": "sbom.json", "size_bytes": len(listed), "sha256": hashlib.sha256(listed).hexdigest()}
    assert run.result["files"] == [run.result["model"], sbom]
    assert 0 < run.result["latency"]["p50_ms"] <= run.result["latency"]["p99_ms"]
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
    assert store.keys(prefix) == {"result.json", "sbom.json"}


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
    half = ("--precision", "fp16")
    url = store.put(f"{prefix}-in/model.onnx", normalised_convolution())
    rows = RANDOM.random((20, 3, 8, 8)).astype(np.float32)
    golden = store.put_arrays(f"{prefix}-in/golden.npz", X=rows)
    run = convert(onnx_pod, url, golden, prefix, *half, "--abs-tolerance", "0", "--rel-tolerance", "0")
    assert run.exit_code == 4
    assert "use a higher precision" in run.error["remedy"]
    assert run.error["kind"] == "ParityRefusedError"
    assert run.result is not None
    assert run.result["outcome"] == "refused"
    (parity,) = parse_parity(run.result["parity"])
    assert not parity.passed
    assert 0 < parity.mismatched_rows <= parity.rows == 20
    assert parity.worst
    assert parity.worst[0]["source"] != parity.worst[0]["converted"]
    assert store.keys(prefix) == {"result.json", "sbom.json"}
    assert convert(onnx_pod, url, golden, prefix).exit_code == 0


def test_fp16(
    onnx_pod: Pod, store: ObjectStore, network_source: str, network_golden: str, prefix: str
) -> None:
    """Half precision halves the weights, and clients still send and get what they did."""
    more = ["--precision", "fp16", "--abs-tolerance", "0.01"]
    run = convert(onnx_pod, network_source, network_golden, prefix, *more)
    assert run.exit_code == 0, run.stderr
    assert run.result is not None
    assert run.result["precision"] == "fp16"
    assert run.result["passes"][-1]["name"] == "fp16"
    signature = run.result["signature"]
    assert [entry["datatype"] for entry in signature["inputs"] + signature["outputs"]] == ["FP32", "FP32"]
    weights = onnx.load_from_string(store.read(f"{prefix}/model.onnx")).graph.initializer
    assert {entry.data_type for entry in weights} == {TensorProto.FLOAT16}


def test_quantised_model_beyond_its_tolerance(
    onnx_pod: Pod, store: ObjectStore, network_source: str, network_golden: str, prefix: str
) -> None:
    """An int8 model that misses its tolerance is refused, and the error names the worst rows with both values."""
    run = convert(onnx_pod, network_source, network_golden, prefix, "--precision", "int8")
    assert (run.exit_code, run.error["kind"]) == (4, "ParityRefusedError")
    assert run.result is not None
    (entry,) = run.result["parity"]
    worst = entry["worst"][0]
    named = f"row {worst['row']}: expected {worst['source']}, found {worst['converted']}"
    assert named in run.error["found"]
    assert entry["cosine_min"] > 0.9
    assert entry["top_1_agreement"] > 0.9
    assert store.keys(prefix) == {"result.json", "sbom.json"}


def test_static_int8_with_calibration(
    onnx_pod: Pod, store: ObjectStore, network_source: str, network_golden: str, prefix: str
) -> None:
    """Static int8 takes its scales from calibration rows, and may be judged by the class that comes first."""
    rows = RANDOM.normal(size=(100, 16)).astype(np.float32)
    calibration = store.put_arrays(f"{prefix}-in/calibration.npz", X=rows)
    rule = '{"output": "probabilities", "measure": "top_k", "top_k": 1, "agreement_min": 0.9}'
    more = ["--precision", "int8", "--quantization", "static", "--calibration", calibration]
    run = convert(onnx_pod, network_source, network_golden, prefix, *more, "--output-parity", rule)
    assert run.exit_code == 0, run.stderr
    assert run.result is not None
    (entry,) = run.result["parity"]
    assert (entry["measure"], entry["pass"]) == ("top_k", True)
    assert entry["top_1_agreement"] >= 0.9
    assert entry["max_abs_diff"] > 1e-4
    model = onnx.load_from_string(store.read(f"{prefix}/model.onnx"))
    assert {"QuantizeLinear", "DequantizeLinear"} <= {node.op_type for node in model.graph.node}


@pytest.mark.parametrize(
    ("model", "code", "kind"),
    [(endless, 75, "TimedOutError"), (greedy, 3, "UserError")],
    ids=["hangs", "eats memory"],
)
def test_model_without_an_end(
    onnx_pod: Pod, store: ObjectStore, golden: str, prefix: str, model: Any, code: int, kind: str
) -> None:
    """A tool that hangs, or wants more memory than it may have, is ended, and the error names tool and limit."""
    url = store.put(f"{prefix}-in/model.onnx", model())
    run = convert(onnx_pod, url, golden, prefix, "--timeout-s", "6", "--memory-mib", "600")
    assert (run.exit_code, run.error["kind"]) == (code, kind)
    assert "'check'" in run.error["what"]
    assert run.error["expected"].startswith("an end within" if code == 75 else "at most 600 MiB")


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
    closed = f"http://127.0.0.1:{free_port()}"
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
    for wrong in (
        ["--precision", "fp4"],
        ["--abs-tolerance", "-1"],
        ["--source", "model.onnx"],
        ["--output-parity", '{"output": "label", "cosine": 1}'],
        ["--calibration", "s3://slipway/rows.npz"],
    ):
        run = convert(onnx_pod, source, golden, prefix, *wrong)
        assert (run.exit_code, run.result) == (2, None)
        assert wrong[0] in run.stderr
