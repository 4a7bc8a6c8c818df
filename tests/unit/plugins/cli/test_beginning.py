"""`slipway init` and `slipway lint`: a newcomer's first release file."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import magika
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper

from slipway.cli.model_files.signature import read_signature
from slipway_core.gates.validation.golden_set import golden_from_arrays
from slipway_core.gates.validation.npz import read_arrays
from slipway_core.spec.release_file import load_release_spec
from slipway_core.spec.validation import Validation
from slipway_digit_models.training import train
from tests.support.cli.calls import Call
from tests.support.pods.onnx_models import classifier, model_of, tensor

NODES = [helper.make_node("Identity", ["X"], ["answer"])]


def text_model() -> bytes:
    """Texts in, texts out."""
    text = TensorProto.STRING
    return model_of(NODES, [tensor("X", 1, kind=text)], [tensor("answer", 1, kind=text)], [])


def regressor() -> bytes:
    """A number a row."""
    return model_of(NODES, [tensor("X", 1)], [tensor("answer", 1)], [])


def fixed_batch() -> bytes:
    """Four rows at a time, no more and no less; the input is called as labels are."""
    inputs = [helper.make_tensor_value_info("label", TensorProto.FLOAT, [4, 3])]
    outputs = [helper.make_tensor_value_info("scores", TensorProto.FLOAT, [4, 3])]
    return model_of([helper.make_node("Softmax", ["label"], ["scores"], axis=1)], inputs, outputs, [])


def magika_model() -> bytes:
    """The model of the package magika."""
    [path] = Path(magika.__file__).parent.glob("models/standard_v3_3/model.onnx")
    return path.read_bytes()


def digits_model() -> bytes:
    """The demo's first version."""
    return train(1).onnx


MODELS = {
    "digits": (digits_model, "classification"),
    "magika": (magika_model, "classification"),
    "linear": (classifier, "classification"),
    "regressor": (regressor, "regression"),
    "texts": (text_model, "text"),
    "four-rows": (fixed_batch, "classification"),
}


@pytest.mark.parametrize("name", MODELS)
def test_what_init_writes_passes_lint_and_fits_the_model(name: str, call: Call, home: Path) -> None:
    """The release file is one, and the golden set is what the validation gate takes: names, types, shapes, rows."""
    make, kind = MODELS[name]
    model = home / "my-model.onnx"
    model.write_bytes(make())
    called = call("init", name, "--onnx", str(model))
    assert (called.code, called.err) == (0, "")
    release_file, golden = home / "include/releases" / f"{name}.yaml", home / f"{name}-golden.npz"
    assert call("lint", str(release_file)).code == 0
    spec = load_release_spec(release_file)
    assert spec.validation.kind == kind
    signature = read_signature(model)
    arrays = read_arrays(golden.read_bytes(), golden.name)
    found = golden_from_arrays(
        arrays, signature, spec.validation.label, labelled=Validation.registry.get(kind).labels
    )
    assert found.rows == 32
    assert spec.serving.max_batch_size == (0 if name == "four-rows" else 32)
    for told in (
        str(release_file.relative_to(home)),
        str(golden),
        "slipway lint",
        f"slipway release {name} 1 --wait",
    ):
        assert told in called.out


@pytest.mark.parametrize("name", ["digits", "regressor", "texts", "four-rows"])
def test_labels_may_be_the_models_own_answers(name: str, call: Call, home: Path) -> None:
    """To try everything out, the model answers its own golden set; what is printed says that it proves little."""
    model = home / "model.onnx"
    model.write_bytes(MODELS[name][0]())
    called = call("init", name, "--onnx", str(model), "--labels-from-model")
    assert called.code == 0
    assert "Put the true ones in" in called.out
    spec = load_release_spec(home / "include/releases" / f"{name}.yaml")
    arrays = read_arrays((home / f"{name}-golden.npz").read_bytes(), "golden.npz")
    labels = arrays.pop(spec.validation.label)
    if name == "four-rows":
        arrays = {input_name: values[:4] for input_name, values in arrays.items()}
    inputs = {
        key: values.astype(object) if values.dtype.kind == "U" else values for key, values in arrays.items()
    }
    told = onnxruntime.InferenceSession(model).run([spec.validation.output], inputs)[0]
    expected = told.argmax(axis=1) if spec.validation.kind == "classification" else told.reshape(-1)
    assert labels[: len(expected)].tolist() == expected.tolist()


def test_files_that_are_there_are_not_written_over(call: Call, home: Path) -> None:
    """The error names the file; --force writes over it."""
    (home / "m.onnx").write_bytes(classifier())
    assert call("init", "pets", "--onnx", "m.onnx").code == 0
    again = call("init", "pets", "--onnx", "m.onnx")
    assert again.code == 2
    assert "include/releases/pets.yaml already exists" in again.err
    assert call("init", "pets", "--onnx", "m.onnx", "--force").code == 0


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"", "without nodes"),
        (b"no model at all", "cannot be released as it is"),
        (b"\x08" * 100_000, "cannot be released as it is"),
    ],
)
def test_a_file_that_is_no_model_is_named(content: bytes, told: str, call: Call, home: Path) -> None:
    """Exit code 2, no traceback, and nothing is written."""
    (home / "m.onnx").write_bytes(content)
    called = call("init", "pets", "--onnx", "m.onnx")
    assert called.code == 2
    assert told in called.err
    assert not (home / "include").exists()


def declared(name: str, sizes: list[Any], kind: int = TensorProto.FLOAT, number: int = 1) -> bytes:
    """A small file that declares inputs which no model has."""
    inputs = [helper.make_tensor_value_info(name, kind, sizes) for _ in range(number)]
    outputs = [helper.make_tensor_value_info("answer", TensorProto.FLOAT, ["rows", 3])]
    nodes = [helper.make_node("Identity", [name], ["answer"])]
    return bytes(
        helper.make_model(helper.make_graph(nodes, "g", inputs, outputs), ir_version=8).SerializeToString()
    )


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (declared("X", ["rows", 2**40]), "too large"),
        (declared("X", ["rows", 2**62, 2**62]), "too large"),
        (declared("X", [2**62, 4]), "too large"),
        (declared("X", ["rows", 2**27], TensorProto.STRING), "too large"),
        (declared("X", ["rows", *[8] * 40]), "41 sizes"),
        (declared("", ["rows", 4]), "name"),
        (declared("X\0Y", ["rows", 4]), "name"),
        (declared("X" * 70_000, ["rows", 4]), "name"),
        (declared("X", ["rows", 4], number=2), "same name"),
        (declared("X", ["rows", 4], number=1200), "1200 inputs"),
    ],
    ids=lambda one: one if isinstance(one, str) else "",
)
def test_what_a_hostile_file_declares_is_told(content: bytes, told: str, call: Call, home: Path) -> None:
    """No memory is taken for what a few bytes declare, and no error is of a kind that nobody has named."""
    (home / "m.onnx").write_bytes(content)
    called = call("init", "pets", "--onnx", "m.onnx")
    assert called.code == 2
    assert told in called.err
    assert "Traceback" not in called.err
    assert not (home / "include").exists()


@pytest.mark.parametrize("name", ["file", "allow_pickle", "a/b:0", "self"])
def test_an_input_may_have_any_name(name: str, call: Call, home: Path) -> None:
    """Also one that a function of NumPy has for an argument of its own."""
    (home / "m.onnx").write_bytes(declared(name, ["rows", 4]))
    assert call("init", "pets", "--onnx", "m.onnx").code == 0
    assert name in read_arrays((home / "pets-golden.npz").read_bytes(), "golden.npz")


def test_what_is_no_plain_file_is_not_read(call: Call, home: Path) -> None:
    """A device or a pipe may never end."""
    os.mkfifo(home / "m.onnx")
    called = call("init", "pets", "--onnx", "m.onnx")
    assert called.code == 2
    assert "other than a plain file" in called.err


def test_a_model_whose_answers_are_no_plain_tensor_is_told_how_to_be_exported(call: Call, home: Path) -> None:
    """scikit-learn's ZipMap gives a sequence of maps."""
    maps = helper.make_tensor_sequence_value_info("answer", TensorProto.FLOAT, None)
    graph = helper.make_graph(
        [helper.make_node("SequenceConstruct", ["X"], ["answer"])], "g", [tensor("X", 4)], [maps]
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    onnx.save(model, home / "m.onnx")
    called = call("init", "pets", "--onnx", "m.onnx")
    assert called.code == 2
    assert "zipmap" in called.err


def test_a_name_that_no_model_can_have_is_refused(call: Call, home: Path) -> None:
    """It becomes a Kubernetes name."""
    (home / "m.onnx").write_bytes(classifier())
    called = call("init", "My Pets", "--onnx", "m.onnx")
    assert called.code == 2
    assert "lower-case letters" in called.err


def test_lint_names_each_fault_with_its_line(call: Call, home: Path) -> None:
    """An unknown key gets the nearest valid one; a good file beside it is said to be fine; exit code 2."""
    good, bad = home / "pets.yaml", home / "birds.yaml"
    good.write_text("model: pets\nsource: {format: onnx}\n")
    bad.write_text("model: birds\nsource: {format: onnx}\nrolout: {}\n")
    called = call("lint", str(good), str(bad))
    assert called.code == 2
    assert "pets.yaml: fine: pets" in called.out
    assert "rollout" in called.err
    assert "line 3" in called.err
    found: list[dict[str, Any]] = json.loads(call("lint", str(good), "-o", "json").out)["files"]
    assert [(one["model"], one["error"]) for one in found] == [("pets", None)]


def test_lint_says_what_the_metrics_source_does_not_see(call: Call, home: Path) -> None:
    """Before a release one knows which errors its canary would not see; that is no fault."""
    (home / "pets.yaml").write_text(
        "model: pets\nsource: {format: onnx}\nrollout: {metrics: {source: prometheus, queries: knative}}\n"
    )
    called = call("lint", "pets.yaml")
    assert called.code == 0
    assert (
        "pets.yaml: note: the canary's metrics source (`prometheus`, `knative`) does not see: gRPC errors, requests "
        "that their clients gave up, requests that hang, errors inside streams"
    ) in called.out
    (found,) = json.loads(call("lint", "pets.yaml", "-o", "json").out)["files"]
    assert len(found["notes"]) == 1


def test_lint_names_the_switches_that_knative_needs(call: Call, home: Path) -> None:
    """Fields of a pod that are off by default there; in Standard mode nothing has to be turned on."""
    text = "model: pets\nsource: {format: onnx}\nrollout: {node_selector: {gpu: l4}, deployment_mode: %s}\n"
    (home / "pets.yaml").write_text(text % "Knative")
    assert (
        "knative-serving/config-features: kubernetes.podspec-nodeselector: enabled"
        in call("lint", "pets.yaml").out
    )
    (home / "pets.yaml").write_text(text % "Standard")
    assert "config-features" not in call("lint", "pets.yaml").out


@pytest.mark.parametrize(
    ("rollout", "notes"),
    [
        ("{steps: [{weight: 5, bake_s: 60}, {weight: 10, bake_s: 60}]}", 1),
        ("{steps: [{weight: 5, bake_s: 60}, {weight: 50, bake_s: 60}]}", 0),
        ("{steps: [{weight: 10, bake_s: 60}], analysis: {cold_cache_percent: 0}}", 0),
    ],
    ids=["small", "half", "none allowed"],
)
def test_lint_says_what_a_colder_cache_is_allowed_at_the_last_step(
    rollout: str, notes: int, call: Call, home: Path
) -> None:
    """A slow tail that no later step would find is told before the release; it is no fault."""
    (home / "pets.yaml").write_text(f"model: pets\nsource: {{format: onnx}}\nrollout: {rollout}\n")
    called = call("lint", "pets.yaml")
    assert called.code == 0
    told = "note: the canary's last step has weight 10 %: a slow tail of up to 2.4 % of its answers passes"
    assert called.out.count(told) == notes


def test_lint_holds_the_files_name_against_its_model(call: Call, home: Path) -> None:
    """A release file under another model's name is found by nobody."""
    (home / "pets.yaml").write_text("model: birds\nsource: {format: onnx}\n")
    called = call("lint", "pets.yaml")
    assert called.code == 2
    assert "about another model" in called.err


def test_the_projects_own_release_file_passes(call: Call) -> None:
    """digits.yaml."""
    path = Path(__file__).parents[4] / "include" / "releases" / "digits.yaml"
    assert call("lint", str(path)).code == 0
