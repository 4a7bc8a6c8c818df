"""convert_onnx.py over unusual sources: quantised, with weights in files, with a locale that no image has."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from slipway_core.gates.parity import optimisation_in_words, parse_parity
from tests.support.pods.onnx_models import RANDOM, ROWS, classifier, model_of, normalised_convolution, tensor
from tests.support.pods.support import ObjectStore, Pod, PodRun


def convert(pod: Pod, source: str, golden: str, prefix: str, *more: str) -> PodRun:
    return pod.run("convert_onnx.py", "--source", source, "--golden", golden, *more, prefix=prefix)


def quantised_network() -> bytes:
    """Four layers in QDQ form, as quantisers write them: int8 kernels round otherwise than the float operators do."""
    scale, zero = helper.make_tensor("s", TensorProto.FLOAT, [], [0.05]), helper.make_tensor("z", 3, [], [0])
    nodes, constants, last = [], [scale, zero], "X"
    for layer in range(4):
        weights = RANDOM.integers(-40, 40, size=(16, 16)).astype(np.int8)
        constants.append(numpy_helper.from_array(weights, f"W{layer}"))
        nodes += [
            helper.make_node("QuantizeLinear", [last, "s", "z"], [f"q{layer}"]),
            helper.make_node("DequantizeLinear", [f"q{layer}", "s", "z"], [f"d{layer}"]),
            helper.make_node("DequantizeLinear", [f"W{layer}", "w", "z"], [f"w{layer}"]),
            helper.make_node("MatMul", [f"d{layer}", f"w{layer}"], [f"m{layer}"]),
        ]
        last = f"m{layer}"
    constants.append(helper.make_tensor("w", TensorProto.FLOAT, [], [0.0123]))
    nodes.append(helper.make_node("Softmax", [last], ["probabilities"], axis=1))
    return model_of(nodes, [tensor("X", 16)], [tensor("probabilities", 16)], constants)


def lowering(locale: str) -> bytes:
    """Lowers text, as scikit-learn's vectorisers do before they count words."""
    node = helper.make_node(
        "StringNormalizer", ["text"], ["lowered"], "lower", case_change_action="LOWER", locale=locale
    )
    value = helper.make_tensor_value_info
    return model_of([node], [value("text", 8, ["n"])], [value("lowered", 8, ["n"])], [])


def with_external_weights(location: str) -> tuple[bytes, bytes, bytes]:
    """A classifier with its first weights in a file of that name; return the model, the file, and the whole model."""
    whole = classifier()
    model = onnx.load_from_string(whole)
    weights = next(one for one in model.graph.initializer if one.data_type == TensorProto.FLOAT)
    content = numpy_helper.to_array(weights).tobytes()
    for field in ("raw_data", "float_data"):
        weights.ClearField(field)
    weights.data_location = TensorProto.EXTERNAL
    weights.external_data.add(key="location", value=location)
    return bytes(model.SerializeToString()), content, whole


def test_passes_that_change_an_answer_are_left_out(onnx_pod: Pod, store: ObjectStore, prefix: str) -> None:
    """In full precision nobody has asked for another answer: what no pass may change is published as it came."""
    url = store.put(f"{prefix}-in/model.onnx", normalised_convolution())
    golden = store.put_arrays(f"{prefix}-in/golden.npz", X=RANDOM.random((20, 3, 8, 8)).astype(np.float32))
    run = convert(onnx_pod, url, golden, prefix, "--abs-tolerance", "0", "--rel-tolerance", "0")
    assert run.exit_code == 0, run.stderr
    assert run.result is not None
    (parity,) = parse_parity(run.result["parity"])
    assert (parity.passed, parity.max_abs_diff, parity.compared) == (True, 0, "optimised")


def test_a_quantised_source_is_compared_at_its_own_level(
    onnx_pod: Pod, store: ObjectStore, prefix: str
) -> None:
    """What optimisations do to an int8 source is told apart: its parity with its conversion is exact, not "off"."""
    url = store.put(f"{prefix}-in/model.onnx", quantised_network())
    golden = store.put_arrays(f"{prefix}-in/golden.npz", X=RANDOM.normal(size=(ROWS, 16)).astype(np.float32))
    run = convert(onnx_pod, url, golden, prefix, "--abs-tolerance", "0", "--rel-tolerance", "0")
    assert run.exit_code == 0, run.stderr
    assert run.result is not None
    (parity,) = parse_parity(run.result["parity"])
    assert (parity.passed, parity.max_abs_diff) == (True, 0)
    effect = run.result["optimisation"]
    assert effect["of"] == "the source model"
    assert effect["outputs"][0]["output"] == "probabilities"
    assert effect["outputs"][0]["max_abs_diff"] > 0
    assert "optimisations alone change" in optimisation_in_words(effect)


def test_weights_beside_the_model_become_part_of_it(onnx_pod: Pod, store: ObjectStore, prefix: str) -> None:
    """The file is downloaded, its digest is in the result, and one whole model is made that answers alike."""
    model, data, whole = with_external_weights("model.onnx.data")
    url = store.put(f"{prefix}-in/model.onnx", model)
    beside = store.put(f"{prefix}-in/model.onnx.data", data)
    rows = RANDOM.random((ROWS, 4)).astype(np.float32)
    run = convert(onnx_pod, url, store.put_arrays(f"{prefix}-in/golden.npz", X=rows), prefix)
    assert run.exit_code == 0, run.stderr
    assert run.result is not None
    assert run.result["inputs"][beside]["size_bytes"] == len(data)
    made = onnxruntime.InferenceSession(store.read(f"{prefix}/model.onnx"))
    source = onnxruntime.InferenceSession(whole)
    np.testing.assert_allclose(made.run(None, {"X": rows})[0], source.run(None, {"X": rows})[0], rtol=1e-5)


@pytest.mark.parametrize(
    "location", ["../golden.npz", "/etc/passwd", "model.onnx", "missing.data", "short.data"]
)
def test_weights_elsewhere_are_not_taken(
    onnx_pod: Pod, store: ObjectStore, prefix: str, location: str
) -> None:
    """A path that leads out of the model's folder, a file that is not there, and one that is too short."""
    model, data, _ = with_external_weights(location)
    store.put(f"{prefix}-in/short.data", data[:3])
    url = store.put(f"{prefix}-in/model.onnx", model)
    golden = store.put_arrays(f"{prefix}-in/golden.npz", X=RANDOM.random((ROWS, 4)).astype(np.float32))
    run = convert(onnx_pod, url, golden, prefix)
    assert run.exit_code == 3
    told = {"missing.data": "InputMissingError"}.get(location, "ModelInvalidError")
    assert run.error["kind"] == told
    assert run.error["remedy"]


@pytest.mark.parametrize("locale", ["en_US", "de_DE.UTF-8"])
def test_text_is_lowered_by_rules_that_every_server_has(
    onnx_pod: Pod, store: ObjectStore, prefix: str, locale: str
) -> None:
    """A locale that no image has is replaced by one with the same rules, in what is published too."""
    url = store.put(f"{prefix}-in/model.onnx", lowering(locale))
    golden = store.put_arrays(f"{prefix}-in/golden.npz", text=np.array(["ÄPFEL", "Straße", "ΣΊΣΥΦΟΣ", "I"]))
    run = convert(onnx_pod, url, golden, prefix)
    assert run.exit_code == 0, run.stderr
    (node,) = onnx.load_from_string(store.read(f"{prefix}/model.onnx")).graph.node
    named = {one.name: helper.get_attribute_value(one) for one in node.attribute}
    assert named["locale"] == b"C.UTF-8"
    session = onnxruntime.InferenceSession(store.read(f"{prefix}/model.onnx"))
    (lowered,) = session.run(None, {"text": np.array(["ÄPFEL", "I"], object)})
    assert lowered.tolist() == ["äpfel", "i"]


def test_a_locale_with_rules_of_its_own_is_refused(onnx_pod: Pod, store: ObjectStore, prefix: str) -> None:
    """In Turkish an I is lowered to another letter: the error names node, locale and remedy."""
    url = store.put(f"{prefix}-in/model.onnx", lowering("tr_TR"))
    golden = store.put_arrays(f"{prefix}-in/golden.npz", text=np.array(["A"]))
    run = convert(onnx_pod, url, golden, prefix)
    assert (run.exit_code, run.error["kind"], run.error["found"]) == (3, "ModelInvalidError", "tr_TR")
    assert "'lower'" in run.error["what"]
    assert "C.UTF-8" in run.error["remedy"]


def test_bf16_is_refused_where_no_server_carries_it(onnx_pod: Pod, store: ObjectStore, prefix: str) -> None:
    """The golden set is not blamed: the type is named, and the Cast that helps."""
    value = helper.make_tensor_value_info
    node = helper.make_node("Identity", ["x"], ["y"])
    kind = TensorProto.BFLOAT16
    model = model_of([node], [value("x", kind, ["n", 2])], [value("y", kind, ["n", 2])], [])
    golden = store.put_arrays(f"{prefix}-in/golden.npz", x=np.zeros((3, 2), np.float32))
    run = convert(onnx_pod, store.put(f"{prefix}-in/model.onnx", model), golden, prefix)
    assert (run.exit_code, run.error["kind"], run.error["found"]) == (3, "ModelInvalidError", "BF16")
    assert "Cast" in run.error["remedy"]


def test_what_a_request_may_replace_is_kept_and_named(onnx_pod: Pod, store: ObjectStore, prefix: str) -> None:
    """An initializer that is also an input is no input that must be sent; no pass folds it away."""
    scale = numpy_helper.from_array(np.array([2], np.float32), "t")
    graph = helper.make_graph(
        [helper.make_node("Mul", ["X", "t"], ["Y"])],
        "g",
        [tensor("X", 4), helper.make_tensor_value_info("t", TensorProto.FLOAT, [1])],
        [tensor("Y", 4)],
        [scale],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    url = store.put(f"{prefix}-in/model.onnx", model.SerializeToString())
    golden = store.put_arrays(f"{prefix}-in/golden.npz", X=RANDOM.random((ROWS, 4)).astype(np.float32))
    run = convert(onnx_pod, url, golden, prefix)
    assert run.exit_code == 0, run.stderr
    assert run.result is not None
    assert run.result["overridable"] == [{"name": "t", "datatype": "FP32", "shape": [1]}]
    assert [one["name"] for one in run.result["signature"]["inputs"]] == ["X"]
