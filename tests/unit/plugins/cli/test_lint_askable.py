"""`slipway lint --model --golden`: a model that cannot be asked is refused before anything runs."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper

from tests.support.cli.calls import Call
from tests.support.pods.onnx_models import model_of

VOICE = """
model: voice
source: {format: onnx}
serving: {max_batch_size: 0, dynamic_batching: null}
validation: {kind: regression, output: speech, mae_max: 0.1}
"""
FLOAT = TensorProto.FLOAT


def voice_model() -> bytes:
    """Return a model whose state has its batch on the second axis, and that takes the rate as a single number."""
    nodes = [
        helper.make_node("ReduceMean", ["signal"], ["speech"], axes=[1], keepdims=1),
        helper.make_node("Mul", ["state", "rate"], ["next_state"]),
    ]
    value = helper.make_tensor_value_info
    inputs = [
        value("signal", FLOAT, ["batch", 16]),
        value("state", FLOAT, [2, "batch", 8]),
        value("rate", FLOAT, []),
    ]
    outputs = [value("speech", FLOAT, ["batch", 1]), value("next_state", FLOAT, [2, "batch", 8])]
    return model_of(nodes, inputs, outputs, [])


Lint = Callable[..., Any]


@pytest.fixture
def lint(call: Call, home: Path) -> Lint:
    """Lint the voice detector's release file, with its model and the golden set that is given."""
    (home / "voice.onnx").write_bytes(voice_model())

    def run(*more: str, text: str = VOICE, **golden: Any) -> Any:
        arrays = {
            "signal": np.zeros((6, 16), np.float32),
            "state": np.zeros((2, 6, 8), np.float32),
            "rate": np.float32(16000),
            "label": np.zeros(6),
            **golden,
        }
        np.savez(home / "golden.npz", **arrays)
        (home / "voice.yaml").write_text(text)
        return call("lint", "voice.yaml", "--model", "voice.onnx", "--golden", "golden.npz", *more)

    return run


def test_it_is_said_how_each_inputs_rows_are_taken(lint: Lint) -> None:
    """A batch on the second axis and a single number are understood, and told."""
    called = lint()
    assert called.code == 0
    assert "`rate`: the same in every request (guessed)" in called.err + called.out
    assert "`state`: axis 1 (guessed)" in called.err + called.out
    (found,) = json.loads(lint("-o", "json").out)["files"]
    assert "`signal`: axis 0" in found["askable"]["rows_taken"]


@pytest.mark.parametrize(
    ("text", "golden", "told"),
    [
        (VOICE, {"state": np.zeros((2, 5, 8), np.float32)}, "state"),
        (
            VOICE,
            {"signal": np.zeros((6, 15), np.float32)},
            "`signal` has shape [6, 15], the model takes [-1, 16]",
        ),
        (VOICE, {"rate": np.array("fast")}, "`rate`"),
        (VOICE.replace("speech", "voiced"), {}, "the model has no output `voiced`"),
        (
            VOICE + "golden: {row_axis: {sound: 0}}\n",
            {},
            "`golden.row_axis.sound` is not a tensor of the model",
        ),
        (VOICE + "golden: {slices: [speaker]}\n", {}, "`speaker` is missing"),
    ],
)
def test_a_model_that_cannot_be_asked_is_refused_with_the_true_reason(
    lint: Lint, text: str, golden: dict[str, Any], told: str
) -> None:
    """The fault is named, and the command ends as for any other fault of a release file."""
    called = lint(text=text, **golden)
    assert called.code == 2
    assert told in called.err


def test_other_formats_cannot_be_told(lint: Lint) -> None:
    """Of another format the golden set is held against the release file alone, and it is said what is not told."""
    text = VOICE.replace("{format: onnx}", "{format: python}")
    called = lint(text=text.replace("serving", "conversion: {target: python}\nserving"))
    assert called.code == 0
    assert "unknown: what a model of `source.format: python` takes" in called.err + called.out


def test_a_golden_set_alone_is_held_against_the_release_file(call: Call, home: Path) -> None:
    """Without a model what only it can tell is left open, and said."""
    (home / "voice.yaml").write_text(VOICE)
    np.savez(home / "golden.npz", signal=np.zeros((6, 16), np.float32))
    called = call("lint", "voice.yaml", "--golden", "golden.npz")
    assert called.code == 2
    assert "`label` is missing" in called.err
    np.savez(home / "golden.npz", signal=np.zeros((6, 16), np.float32), label=np.zeros(6))
    called = call("lint", "voice.yaml", "--golden", "golden.npz")
    assert called.code == 0
    assert "without --model" in called.err + called.out


def test_files_that_are_no_model_and_no_golden_set(lint: Lint, call: Call, home: Path) -> None:
    """A damaged file is named, and the command does not crash."""
    lint()
    (home / "voice.onnx").write_bytes(b"\x00 no model")
    assert call("lint", "voice.yaml", "--model", "voice.onnx").code == 2
    (home / "golden.npz").write_bytes(b"PK no archive")
    called = call("lint", "voice.yaml", "--golden", "golden.npz")
    assert called.code == 2
    assert "cannot be read" in called.err


def test_a_model_belongs_to_one_release_file(lint: Lint, call: Call) -> None:
    """Several files with one model are a mistake of the command line."""
    lint()
    called = call("lint", "voice.yaml", "voice.yaml", "--model", "voice.onnx")
    assert called.code == 2
    assert "one release file" in called.err


def test_the_library_that_reads_models_is_named(lint: Lint, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without onnx the command says which extra brings it."""
    monkeypatch.setitem(sys.modules, "onnx", None)
    called = lint()
    assert called.code == 2
    assert "extra `init`" in called.err
