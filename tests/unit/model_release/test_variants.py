"""Several conversions of one version, and which of them is published."""

from __future__ import annotations

from typing import Any

import pytest

from include.model_release.errors import (
    ModelInvalidError,
    ParityRefusedError,
    SlipwayError,
    SpecError,
)
from include.model_release.spec import ReleaseSpec, parse_release_spec
from include.model_release.variants import (
    ONLY,
    Candidate,
    candidate_of,
    choose,
    variant_names,
    with_variant,
)

FILE = """
model: digits
source: {format: onnx}
conversion:
  timeout_s: 300
  parity: {abs_tolerance: 0.01}
  variants:
    whole: {}
    quick: {precision: int8, parity: {rel_tolerance: 0.5}}
"""


def spec_of(text: str = FILE) -> ReleaseSpec:
    return parse_release_spec(text, "digits.yaml")


def measured(name: str, p50_ms: float | None, **more: Any) -> Candidate:
    return Candidate(name, p50_ms=p50_ms, **more)


def test_without_variants_there_is_one_conversion() -> None:
    """A file that names none has its one conversion, as it stands."""
    spec = spec_of("model: digits\nsource: {format: onnx}\n")
    assert variant_names(spec) == [ONLY]
    assert with_variant(spec, ONLY) is spec


def test_a_variant_changes_the_keys_it_names() -> None:
    """All else is the section's; the variants themselves are gone from it."""
    spec = spec_of()
    assert variant_names(spec) == ["whole", "quick"]
    quick: Any = with_variant(spec, "quick").conversion
    assert (quick.precision, quick.timeout_s, quick.variants) == ("int8", 300, {})
    assert (quick.parity.abs_tolerance, quick.parity.rel_tolerance) == (0.01, 0.5)
    whole: Any = with_variant(spec, "whole").conversion
    assert whole.precision == "fp32"


@pytest.mark.parametrize(
    ("variant", "words"),
    [
        ("{precision: int3}", "conversion.variants.bad"),
        ("{target: python}", "may not change `target`"),
        ("{variants: {}}", "may not change"),
        ("{no_such_key: 1}", "conversion.variants.bad"),
    ],
)
def test_a_variant_that_makes_no_conversion_is_refused_with_its_name(variant: str, words: str) -> None:
    """What is wrong in a variant is said when the release file is read, not in the pod."""
    text = "model: digits\nsource: {format: onnx}\nconversion: {variants: {bad: " + variant + "}}\n"
    with pytest.raises(SpecError, match=words):
        spec_of(text)


def test_the_fastest_within_tolerance_is_chosen() -> None:
    """A faster one that misses its tolerance is out, and the reason tells the times."""
    candidates = (
        measured("whole", 2.0),
        measured("quick", 1.5),
        measured("rough", None, refused="row 3 differs"),
    )
    choice = choose(spec_of(), candidates)
    assert choice.names == ("quick",)
    assert "1.5 ms" in choice.reason
    assert "whole 2 ms" in choice.reason
    assert choice.to_dict()["candidates"][2]["refused"] == "row 3 differs"


def test_none_within_tolerance_refuses_the_version() -> None:
    """With nothing left to publish, the refusal tells each variant's own."""
    with pytest.raises(ParityRefusedError, match="quick: row 3 differs"):
        choose(spec_of(), (measured("quick", None, refused="row 3 differs"),))


def test_one_that_nobody_measured_is_no_fastest() -> None:
    """A converter that tells no latency makes the choice an error, unless it is the only one left."""
    with pytest.raises(ModelInvalidError, match="quick"):
        choose(spec_of(), (measured("whole", 1.0), measured("quick", None)))
    assert choose(spec_of(), (measured("quick", None),)).names == ("quick",)


def test_all_is_one_engine_for_each_kind_of_gpu() -> None:
    """With `choose: all` each kind of GPU gets its engine; two for one kind, or no engine, is an error."""
    text = FILE.replace("  timeout_s: 300", "  timeout_s: 300\n  choose: all")
    ampere = measured("ampere", 1.0, compute_capability="8.0")
    hopper = measured("hopper", 0.5, compute_capability="9.0")
    assert choose(spec_of(text), (ampere, hopper)).names == ("ampere", "hopper")
    for wrong in (measured("again", 1.0, compute_capability="8.0"), measured("none", 1.0)):
        with pytest.raises(ModelInvalidError, match=wrong.name):
            choose(spec_of(text), (ampere, wrong))


def test_a_converters_result_is_read() -> None:
    """What was measured, the engine's machine, and a refusal in its own words."""
    engine = {"gpu": "NVIDIA L4", "compute_capability": "8.9", "tensorrt": "10.3.0"}
    result = {"precision": "fp16", "model": {"size_bytes": 7}, "latency": {"p50_ms": 0.3}, "engine": engine}
    assert candidate_of("a", {"error": None, **result}) == Candidate("a", "fp16", 7, 0.3, "8.9")
    error = SlipwayError("row 17 differs", expected="0.1", found="0.9").to_dict()
    refused = candidate_of("b", {"error": error}).refused
    assert refused is not None
    assert "row 17 differs" in refused
