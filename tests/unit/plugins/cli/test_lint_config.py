"""`slipway lint --model`: the model, the release file's `serving` and training's config.pbtxt are held together."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tests.support.cli.calls import Call
from tests.support.pods.onnx_models import model_of

RELEASE = """
model: ranker
source: {format: onnx}
validation: {kind: classification, output: scores, accuracy_min: 0.5}
"""
CONFIG = """
platform: "onnxruntime_onnx" max_batch_size: 8
input { name: "x" data_type: TYPE_FP32 dims: 4 }
output { name: "scores" data_type: TYPE_FP32 dims: 3 }
"""
FLOAT = TensorProto.FLOAT
Lint = Callable[..., Any]


def _value(name: str, *shape: int | str, kind: int = FLOAT) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, kind, shape)


def _ranker(batch: int | str = "n", kind: int = FLOAT) -> bytes:
    weights = [numpy_helper.from_array(np.ones((4, 3), np.float32), "W")] if kind == FLOAT else []
    node = helper.make_node("MatMul", ["x", "W"], ["scores"]) if weights else None
    nodes = [node or helper.make_node("Identity", ["x"], ["scores"])]
    width = 3 if weights else 4
    return model_of(
        nodes, [_value("x", batch, 4, kind=kind)], [_value("scores", batch, width, kind=kind)], weights
    )


def _lowering(locale: str | None) -> bytes:
    named = {} if locale is None else {"locale": locale}
    node = helper.make_node(
        "StringNormalizer", ["x"], ["scores"], "lower", case_change_action="LOWER", **named
    )
    return model_of([node], [_value("x", "n", kind=8)], [_value("scores", "n", kind=8)], [])


@pytest.fixture
def lint(call: Call, home: Path) -> Lint:
    """Lint a release file with a model, and with the configuration that lies beside it."""

    def run(model: bytes, config: str | bytes | None = None, text: str = RELEASE) -> Any:
        (home / "model.onnx").write_bytes(model)
        (home / "ranker.yaml").write_text(text)
        if config is not None:
            (home / "config.pbtxt").write_bytes(config if isinstance(config, bytes) else config.encode())
        return call("lint", "ranker.yaml", "--model", "model.onnx")

    return run


def test_what_fits_is_told(lint: Lint) -> None:
    """With and without a configuration beside the model; a comment in Latin-1 is no fault."""
    assert "`serving` fit the model" in lint(_ranker()).out
    called = lint(_ranker(), b"# gr\xfc\xdfe\n" + CONFIG.encode())
    assert called.code == 0
    assert "config.pbtxt and the release file's `serving` fit the model" in called.out


@pytest.mark.parametrize(
    ("config", "field"),
    [
        (CONFIG.replace("dims: 4", "dims: -1"), "input[0].dims"),
        (CONFIG.replace("dims: 3", "dims: 5"), "output[0].dims"),
        (CONFIG.replace("TYPE_FP32 dims: 3", "TYPE_INT64 dims: 3"), "output[0].data_type"),
        (CONFIG.replace('"x"', '"z"'), "input[0].name"),
        (CONFIG + "dynamic_batching { preferred_batch_size: 9 }", "dynamic_batching.preferred_batch_size"),
        (CONFIG + "sequence_batching { }", "sequence_batching"),
        (CONFIG + "no_such_field: 3", "no_such_field"),
    ],
)
def test_what_training_left_is_read(lint: Lint, config: str, field: str) -> None:
    """A configuration that could not be published is refused here, with its field."""
    called = lint(_ranker(), config)
    assert called.code != 0
    assert field in called.err


def test_a_fixed_batch_is_refused_with_what_to_do(lint: Lint) -> None:
    """An output of [1, …] with batches passes nowhere: the remedy is at hand before anything runs."""
    called = lint(_ranker(batch=1))
    assert called.code != 0
    assert "no free batch dimension" in called.err
    assert "max_batch_size: 0" in called.err
    alone = RELEASE.replace("validation", "serving: {max_batch_size: 0, dynamic_batching: null}\nvalidation")
    assert lint(_ranker(batch=1), text=alone).code == 0


def test_bf16_is_refused_with_what_to_do(lint: Lint) -> None:
    """ONNX Runtime's backend carries none."""
    called = lint(_ranker(kind=TensorProto.BFLOAT16))
    assert called.code != 0
    assert "Cast" in called.err


@pytest.mark.parametrize(
    ("locale", "fine"),
    [
        ("en_US", True),
        (None, True),
        ("C.UTF-8", True),
        ("de_DE.UTF-8", True),
        ("tr_TR", False),
        ("../x", False),
    ],
)
def test_a_locale_whose_rules_are_its_own_is_refused(lint: Lint, locale: str | None, fine: bool) -> None:
    """The others are replaced by one that every server has; the error names node, locale and remedy."""
    called = lint(_lowering(locale))
    if not fine:
        assert called.code != 0
        assert "'lower'" in called.err
        assert str(locale) in called.err
        assert "C.UTF-8" in called.err
    else:
        assert called.code == 0


@pytest.mark.parametrize(
    "location", ["weights.bin", "../weights.bin", "/etc/passwd", "model.onnx", "", "a/../b", "w\\x"]
)
def test_weights_in_files_are_looked_for_beside_the_model_alone(
    lint: Lint, home: Path, location: str
) -> None:
    """A plain name below the model's folder is taken where it is there; a path that leads elsewhere never is."""
    model = onnx.load_from_string(_ranker())
    weights = model.graph.initializer[0]
    (home / "weights.bin").write_bytes(weights.raw_data)
    weights.ClearField("raw_data")
    weights.data_location = TensorProto.EXTERNAL
    weights.external_data.add(key="location", value=location)
    called = lint(model.SerializeToString())
    assert (called.code == 0) == (location == "weights.bin")
    if location == "weights.bin":
        (home / "weights.bin").unlink()
        assert "missing from its folder" in lint(model.SerializeToString()).err
    else:
        assert "cannot be uploaded" in called.err


def test_a_golden_set_need_not_have_what_triton_makes_of_a_batch(lint: Lint, call: Call, home: Path) -> None:
    """With `batch_input` in training's configuration clients send no `n`, and one row in each request."""
    nodes = [
        helper.make_node("Shape", ["n"], ["rows"]),
        helper.make_node("Concat", ["rows", "width"], ["shape"], axis=0),
        helper.make_node("Reshape", ["x", "shape"], ["scores"]),
    ]
    width = numpy_helper.from_array(np.array([3], np.int64), "width")
    model = model_of(nodes, [_value("x", "e"), _value("n", "r")], [_value("scores", "r", 3)], [width])
    config = """
    platform: "onnxruntime_onnx" max_batch_size: 8
    input { name: "x" data_type: TYPE_FP32 dims: -1 allow_ragged_batch: true }
    output { name: "scores" data_type: TYPE_FP32 dims: 3 }
    batch_input { kind: BATCH_ELEMENT_COUNT target_name: "n" data_type: TYPE_FP32 source_input: "x" }
    """
    assert lint(model, config).code == 0
    np.savez(home / "golden.npz", x=np.zeros((5, 3), np.float32), label=np.zeros(5, np.int64))
    result = call("lint", "ranker.yaml", "--model", "model.onnx", "--golden", "golden.npz")
    assert result.code == 0
    assert "`x`: axis 0 (guessed), one row a request" in result.out
