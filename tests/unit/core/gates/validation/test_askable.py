"""A golden set that cannot be asked is told at admission, with the reason."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from slipway_core.errors import GoldenSetError
from slipway_core.gates.validation.askable import require_askable
from slipway_core.spec.release_file import ReleaseSpec, parse_release_spec
from slipway_core.tensors import ModelSignature, TensorSpec


def _spec(more: str = "") -> ReleaseSpec:
    return parse_release_spec(f"model: m\nsource: {{format: onnx}}\n{more}", "m.yaml")


_ROWS = {"x": np.zeros((4, 2), np.float32), "state": np.zeros((2, 4), np.float32), "label": np.arange(4)}


@pytest.mark.parametrize(
    ("more", "arrays", "words"),
    [
        ("", {"x": _ROWS["x"]}, "`label` is missing"),
        ("", {"x": _ROWS["x"], "label": np.zeros(4)}, "`label` holds float64, not whole numbers"),
        ("", {"label": np.arange(4)}, "an input has no array"),
        ("golden: {row_axis: {state: 0}}", _ROWS, "`state` has 2 rows on `golden.row_axis: 0`, the labels 4"),
        ("golden: {row_axis: {state: 2}}", _ROWS, r"`state` has shape \[2, 4\] and no axis 2"),
        ("validation: {kind: vectors, label: topic}", {"x": _ROWS["x"]}, "`topic` is missing"),
        ("validation: {kind: ranking, group: q}", _ROWS, "`q`, which `validation.group` names, is missing"),
    ],
)
def test_what_cannot_be_asked_is_told_with_its_reason(more: str, arrays: Any, words: str) -> None:
    """Labels, inputs, named axes and the column of questions are looked at without the model."""
    with pytest.raises(GoldenSetError, match=words):
        require_askable(_spec(more), arrays)


def test_what_can_be_asked_passes() -> None:
    """Vectors need no labels, a named axis may be the second one, and with the signature the ways are told."""
    assert require_askable(_spec("validation: {kind: vectors}"), {"x": _ROWS["x"]}) == ""
    spec = _spec("golden: {row_axis: {state: 1}}")
    assert require_askable(spec, _ROWS) == ""
    signature = ModelSignature(
        inputs=(
            TensorSpec(name="x", datatype="FP32", shape=(-1, 2)),
            TensorSpec(name="state", datatype="FP32", shape=(2, -1)),
        ),
        outputs=(),
    )
    assert require_askable(spec, _ROWS, signature) == "`state`: axis 1, `x`: axis 0 (guessed)"
