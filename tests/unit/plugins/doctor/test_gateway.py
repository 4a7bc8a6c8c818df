"""What is known of a gateway at weight 0, and that nothing known is not ok."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from slipway.doctor.examination import chosen_examinations
from slipway.doctor.examinations import gateway
from slipway.doctor.examining import examine
from slipway.doctor.installation import Installation
from slipway_core.doctor.line import Status
from slipway_core.rollout.dialects.standard.gateways import KNOWN


@pytest.mark.parametrize(
    ("notes", "status"),
    [
        ((), Status.OK),
        ((KNOWN["traefik.io/gateway-controller"],), Status.WARNING),
        (("Nothing is known of how the gateway example.org/one takes weight 0.",), Status.UNKNOWN),
    ],
    ids=["knative", "known", "unknown"],
)
def test_what_is_known_of_a_gateway_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, notes: tuple[str, ...], status: Status
) -> None:
    """Of Knative's routes, of a gateway with a known fault, and of any other."""
    (tmp_path / "digits.yaml").write_text("model: digits\nsource: {format: onnx}\n", encoding="utf-8")
    observed = SimpleNamespace(url="", name="digits", namespace="models", gateway_notes=notes)
    monkeypatch.setattr(gateway, "observed_service", lambda installation, spec: observed)
    found = examine(Installation("models", tmp_path), chosen_examinations(("gateway",))).lines
    lines = {line.what: line for line in found}
    assert lines["InferenceService models/digits at weight 0"].status is status
    assert lines["InferenceService models/digits by its users' way"].status is Status.UNKNOWN
