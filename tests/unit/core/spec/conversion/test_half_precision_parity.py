"""The tolerances of a conversion to fp16, where the release file says none."""

from __future__ import annotations

import pytest

from slipway_core.publishing.variants import with_variant
from slipway_core.spec.release_file import ReleaseSpec, parse_release_spec


def _spec(conversion: str, source: str = "onnx") -> ReleaseSpec:
    return parse_release_spec(
        f"model: m\nsource: {{format: {source}}}\nconversion: {{{conversion}}}\n", "m.yaml"
    )


def _tolerances(spec: ReleaseSpec) -> tuple[float, float]:
    parity = spec.conversion.parity  # type: ignore[union-attr, unused-ignore]
    return parity.abs_tolerance, parity.rel_tolerance


@pytest.mark.parametrize(
    ("conversion", "source", "expected"),
    [
        ("target: onnx", "onnx", (1e-4, 1e-3)),
        ("target: onnx, precision: fp16", "onnx", (5e-3, 1e-2)),
        ("target: pytorch, precision: fp16", "pytorch", (5e-3, 1e-2)),
        ("target: onnx, precision: fp16, parity: {abs_tolerance: 1e-3}", "onnx", (1e-3, 1e-2)),
        ("target: onnx, precision: fp16, parity: {rel_tolerance: 0}", "onnx", (5e-3, 0.0)),
        ("target: onnx, precision: int8", "onnx", (1e-4, 1e-3)),
    ],
)
def test_half_precision_has_tolerances_of_its_own(
    conversion: str, source: str, expected: tuple[float, float]
) -> None:
    """What the file says holds; what it leaves out is that of the precision, also once the release is handed on."""
    spec = _spec(conversion, source)
    assert _tolerances(spec) == expected
    assert _tolerances(ReleaseSpec.model_validate_json(spec.model_dump_json())) == expected


def test_each_variant_has_the_tolerances_of_its_precision() -> None:
    """One in full precision keeps the strict ones beside one in half precision."""
    spec = _spec("target: onnx, variants: {whole: {}, half: {precision: fp16}}, choose: fastest")
    found = {name: _tolerances(with_variant(spec, name)) for name in ("whole", "half")}
    assert found == {"whole": (1e-4, 1e-3), "half": (5e-3, 1e-2)}
