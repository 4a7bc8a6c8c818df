"""Sample versions: a good one, and three that a gate must refuse."""

from __future__ import annotations

import hashlib
import io
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest

from slipway_core.intake import IncomingVersion, parse_ready
from slipway_digit_models.samples import EXPECTED, KINDS, SampleKind, make_sample

AT = datetime(2026, 11, 22, 12, tzinfo=UTC)


def _files(kind: SampleKind, **changes: Any) -> dict[str, bytes]:
    return make_sample(kind, "digits", 3, trained_at=AT, **({"by_hand": False} | changes))


def _accuracy(files: dict[str, bytes]) -> float:
    golden = np.load(io.BytesIO(files["golden.npz"]))
    session = onnxruntime.InferenceSession(files["model.onnx"])
    (found,) = session.run(["probabilities"], {"pixels": golden["pixels"]})
    return float((found.argmax(axis=1) == golden["label"]).mean())


@pytest.mark.parametrize("kind", KINDS)
def test_a_sample_lands_as_training_would_leave_it(kind: SampleKind) -> None:
    """Its ready.json is the last file, names the digests of the others, and is what intake reads."""
    files = _files(kind)
    assert list(files) == ["model.onnx", "golden.npz", "ready.json"]
    ready = parse_ready(files.pop("ready.json"), IncomingVersion("digits", 3))
    assert ready.files == {name: hashlib.sha256(content).hexdigest() for name, content in files.items()}
    assert ready.start == "automatic"
    assert EXPECTED[kind]


def test_a_sample_can_wait_for_a_person() -> None:
    """With `by_hand` nothing starts when it lands."""
    ready = parse_ready(_files("good", by_hand=True)["ready.json"], IncomingVersion("digits", 3))
    assert ready.start == "by_hand"


def test_the_same_kind_is_the_same_model() -> None:
    """Whoever tries it again gets what the documentation describes."""
    assert all(_files(kind)["model.onnx"] == _files(kind)["model.onnx"] for kind in KINDS)


def test_good_and_slow_are_right_and_wrong_is_not() -> None:
    """The slow one's answers are the good one's; the wrong one is right by chance at most."""
    assert _accuracy(_files("good")) > 0.95
    assert _accuracy(_files("slow")) == _accuracy(_files("good"))
    assert _accuracy(_files("wrong")) < 0.2


def test_the_slow_one_computes_more_whatever_an_optimiser_does(tmp_path: Path) -> None:
    """After all of ONNX Runtime's optimisations its needless products are still there."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
    counts = {}
    kind: SampleKind
    for kind in ("good", "slow"):
        options.optimized_model_filepath = str(tmp_path / f"{kind}.onnx")
        onnxruntime.InferenceSession(_files(kind)["model.onnx"], options)
        nodes = onnx.load(options.optimized_model_filepath).graph.node
        counts[kind] = sum("MatMul" in node.op_type or "Gemm" in node.op_type for node in nodes)
    assert counts["slow"] == counts["good"] + 2


def test_the_broken_one_is_no_model() -> None:
    """It cannot be read, though its digest is right."""
    with pytest.raises(Exception, match=r"(?i)protobuf"):
        onnxruntime.InferenceSession(_files("broken")["model.onnx"])
