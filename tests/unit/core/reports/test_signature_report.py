"""The report of a refused signature, and its page."""

from __future__ import annotations

import json
from typing import Any

import pytest

from slipway_core.errors import SignatureRefusedError
from slipway_core.gates.validation.signature import ServedTensors, require_compatible
from slipway_core.reports.signature_report import signature_report
from slipway_core.reports.validation.page import render_report_html
from slipway_core.tensors import ModelSignature, TensorSpec

_X = TensorSpec(name="x", datatype="FP32", shape=(-1, 4))
_SEED = TensorSpec(name="seed", datatype="INT64", shape=(-1, 1))
_Y = TensorSpec(name="y", datatype="FP32", shape=(-1, 2))
STABLE = ServedTensors(ModelSignature(inputs=(_X, _SEED), outputs=(_Y,)), frozenset({"seed"}))


def refused(candidate: ServedTensors) -> tuple[SignatureRefusedError, dict[str, Any]]:
    """The error over a candidate, and the report that is kept of it."""
    with pytest.raises(SignatureRefusedError) as caught:
        require_compatible(STABLE, candidate, stable_name="version 3")
    report = signature_report(
        caught.value,
        model="digits",
        version=4,
        stable_version=3,
        not_compared="",
        created_at="2026-11-21T03:00:00+00:00",
        stable=STABLE,
        candidate=candidate,
    )
    return caught.value, json.loads(json.dumps(report))


def test_every_tensor_is_shown_side_by_side() -> None:
    """Each name on either side has a row: what is the same, what changed, what is gone and what is new."""
    other = ModelSignature(
        inputs=(TensorSpec(name="x", datatype="FP16", shape=(-1, 8)), _SEED),
        outputs=(TensorSpec(name="<z>", datatype="BYTES", shape=(-1,)),),
    )
    _, report = refused(ServedTensors(other, frozenset({"seed"})))
    assert [(row["kind"], row["name"], row["fits"]) for row in report["tensors"]] == [
        ("input", "seed", True),
        ("input", "x", False),
        ("output", "<z>", True),
        ("output", "y", False),
    ]
    x = report["tensors"][1]
    assert (x["stable"]["datatype"], x["candidate"]["shape"]) == ("FP32", [-1, 8])
    assert report["tensors"][2]["stable"] is None
    assert report["reasons"] == [
        "input `x` was FP32[-1, 4] and is FP16[-1, 8]",
        "output `y` (FP32[-1, 2]) is gone",
    ]
    assert report["signature_changes"] == ["output `<z>` (BYTES[-1]) is new"]
    page = render_report_html(report)
    assert "✗ fail" in page
    assert "Expected (version 3)" in page
    assert "<td>FP32</td><td>[-1, 4]</td><td>FP16</td><td>[-1, 8]</td>" in page
    assert "&lt;z&gt;" in page
    assert "<z>" not in page


def test_an_input_that_may_be_left_out_must_stay_so() -> None:
    """A candidate that needs what stable does not would fail clients that leave it out; the other way is fine."""
    error, report = refused(ServedTensors(STABLE.signature))
    assert "input `seed` was optional and is not" in str(error)
    assert "from that of version 3" in str(error)
    assert [row["name"] for row in report["tensors"] if not row["fits"]] == ["seed"]
    assert report["reasons"] == ["input `seed` was optional and is not"]
    assert "INT64 <span class=soft>optional</span>" in render_report_html(report)
    relaxed = ServedTensors(STABLE.signature, frozenset({"seed", "x"}))
    require_compatible(STABLE, relaxed, stable_name="version 3")
