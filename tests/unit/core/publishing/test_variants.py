"""Several conversions of one version, and which of them is published."""

from __future__ import annotations

from typing import Any

import pytest

from slipway_core.errors import (
    ModelInvalidError,
    ParityRefusedError,
    SlipwayError,
    SpecError,
)
from slipway_core.publishing.variants import (
    ONLY,
    Candidate,
    candidate_of,
    choose,
    variant_names,
    with_variant,
)
from slipway_core.spec.release_file import ReleaseSpec, parse_release_spec

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
    """With nothing left to publish, the refusal tells each variant's own reason."""
    out = (
        measured("quick", None, refused="row 3 differs", by_gate=True),
        measured("rough", None, refused="out of memory"),
    )
    with pytest.raises(ParityRefusedError, match=r"quick: row 3 differs; rough: out of memory"):
        choose(spec_of(), out)


def test_none_that_could_be_made_is_no_refusal() -> None:
    """Where no variant came as far as its tolerance, a person must mend something: no gate has refused."""
    with pytest.raises(ModelInvalidError, match="rough: out of memory"):
        choose(spec_of(), (measured("rough", None, refused="out of memory"),))


def test_one_that_nobody_measured_is_no_fastest() -> None:
    """A converter that tells no latency makes the choice an error, unless it is the only one left."""
    with pytest.raises(ModelInvalidError, match="quick"):
        choose(spec_of(), (measured("whole", 1.0), measured("quick", None)))
    assert choose(spec_of(), (measured("quick", None),)).names == ("quick",)


ENGINES = """
model: ranker
source: {format: onnx}
conversion:
  target: tensorrt
  choose: all
  variants:
    l4: {node_selector: {gpu: l4}}
    l4-int8: {node_selector: {gpu: l4}, precision: int8, calibration_cache: "s3://bkt/scales"}
    h100: {node_selector: {gpu: h100}}
    t4: {optional: true}
"""


def engine(name: str, p50_ms: float, compute_capability: str) -> Candidate:
    return measured(name, p50_ms, compute_capability=compute_capability)


def test_all_is_the_fastest_engine_for_each_kind_of_gpu() -> None:
    """With `choose: all` each kind of GPU gets its engine: of several precisions the fastest within tolerance."""
    candidates = (
        engine("l4", 1.0, "8.9"),
        engine("l4-int8", 0.6, "8.9"),
        engine("h100", 0.2, "9.0"),
        engine("t4", 3.0, "7.5"),
    )
    choice = choose(spec_of(ENGINES), candidates)
    assert (choice.names, choice.missing) == (("l4-int8", "h100", "t4"), ())
    assert "capability 8.9: l4-int8 is the fastest" in choice.reason


def test_a_variant_that_its_kind_of_gpu_does_not_need_may_be_left_out() -> None:
    """One that misses its tolerance costs nothing where another engine for that GPU is left."""
    by_engine = measured("l4-int8", None, refused="row 3", by_gate=True, compute_capability="8.9")
    by_node = measured("l4-int8", None, refused="out of memory")
    rest = (engine("h100", 0.2, "9.0"), engine("t4", 3.0, "7.5"))
    for out in (by_engine, by_node):
        choice = choose(spec_of(ENGINES), (engine("l4", 1.0, "8.9"), out, *rest))
        assert (choice.names, choice.missing) == (("l4", "h100", "t4"), ())


@pytest.mark.parametrize(("by_gate", "error"), [(True, ParityRefusedError), (False, ModelInvalidError)])
def test_a_kind_of_gpu_without_an_engine_refuses_the_release(
    by_gate: bool, error: type[SlipwayError]
) -> None:
    """With `choose: all` a GPU whose only engine is missing would fail in production: nothing is published."""
    out = measured("h100", None, refused="row 3 differs", by_gate=by_gate)
    rest = (engine("l4", 1.0, "8.9"), engine("l4-int8", 0.6, "8.9"), engine("t4", 3.0, "7.5"))
    with pytest.raises(error, match="h100: row 3 differs"):
        choose(spec_of(ENGINES), (*rest, out))


def test_an_optional_variant_may_be_missing_and_is_named() -> None:
    """`optional: true` says that the servers can do without; the choice says which one is missing, and why."""
    out = measured("t4", None, refused="out of memory")
    made = (engine("l4", 1.0, "8.9"), engine("l4-int8", 0.6, "8.9"), engine("h100", 0.2, "9.0"))
    choice = choose(spec_of(ENGINES), (*made, out))
    assert (choice.names, choice.missing) == (("l4-int8", "h100"), ("t4",))
    assert "Without t4, which is optional: out of memory" in choice.reason


def test_what_is_no_engine_is_not_published_for_a_gpu() -> None:
    """With `choose: all` a converter that does not say for which GPU it built is an error."""
    with pytest.raises(ModelInvalidError, match="l4"):
        choose(spec_of(ENGINES), (measured("l4", 1.0),))


def test_optional_is_no_key_of_the_conversion() -> None:
    """The variant's conversion is read without it."""
    spec = spec_of(ENGINES)
    assert [name for name in variant_names(spec) if spec.conversion.is_optional(name)] == ["t4"]
    assert with_variant(spec, "t4").conversion.target == "tensorrt"


@pytest.mark.parametrize(
    ("conversion", "words"),
    [
        ("{choose: all}", "`choose: all` is for `target: tensorrt`"),
        ("{choose: all, variants: {a: {}}}", "`choose: all` is for `target: tensorrt`"),
        ("{target: tensorrt, choose: all}", "`choose: all` needs `variants`"),
        ("{variants: {a: {optional: true}}}", "`variants.a.optional` is for `choose: all`"),
        (
            "{target: tensorrt, choose: all, variants: {a: {optional: 1}}}",
            "`variants.a.optional` must be true",
        ),
    ],
)
def test_a_choice_that_cannot_be_made_is_refused_when_the_file_is_read(conversion: str, words: str) -> None:
    """What could only fail once everything is converted is said before anything is, with the key's name."""
    with pytest.raises(SpecError, match=words):
        spec_of(f"model: digits\nsource: {{format: onnx}}\nconversion: {conversion}\n")


@pytest.mark.parametrize(
    ("form", "target"), [("python", "python"), ("repository", "ensemble"), ("checkpoint", "tensorrt_llm")]
)
@pytest.mark.parametrize("choice", ["fastest", "all"])
def test_targets_that_measure_nothing_have_no_variants(form: str, target: str, choice: str) -> None:
    """Their converters tell no latency and build no single engine: neither way of choosing could work."""
    text = f"model: digits\nsource: {{format: {form}}}\n"
    text += f"conversion: {{target: {target}, choose: {choice}, variants: {{a: {{}}, b: {{}}}}}}\n"
    words = "`choose: all` is for" if choice == "all" else f"`variants` is not for `target: {target}`"
    with pytest.raises(SpecError, match=words):
        spec_of(text)


def test_a_converters_result_is_read() -> None:
    """What was measured, the engine's machine, and a refusal in its own words; the parity's worst figures in both."""
    machine = {"gpu": "NVIDIA L4", "compute_capability": "8.9", "tensorrt": "10.3.0"}
    off = {
        "output": "y",
        "max_abs_diff": 0.8,
        "max_rel_diff": 8,
        "rows": 20,
        "mismatched_rows": 1,
        "pass": False,
    }
    result = {"precision": "fp16", "model": {"size_bytes": 7}, "latency": {"p50_ms": 0.3}, "engine": machine}
    assert candidate_of("a", {"error": None, **result}) == Candidate("a", "fp16", 7, 0.3, "8.9")
    error = ParityRefusedError("row 17 differs", expected="0.1", found="0.9").to_dict()
    refused = candidate_of("b", {"error": error, **result, "parity": [{**off, "worst": [{"row": 17}]}]})
    assert refused.refused is not None
    assert "row 17 differs" in refused.refused
    assert (refused.by_gate, refused.compute_capability) == (True, "8.9")
    assert refused.parity == ({**off, "max_rel_diff": 8.0, "measure": "tolerance"},)


@pytest.mark.parametrize(
    ("broken", "told"),
    [
        ({"latency": {"p50_ms": float("nan")}}, "latency.p50_ms"),
        ({"latency": {"p50_ms": "fast"}}, "latency.p50_ms"),
        ({"latency": [1]}, "latency"),
        ({"model": "model.onnx"}, "model"),
        ({"error": "it did not work"}, "error"),
        ({"engine": {"gpu": 1}}, "on what the engine was built"),
    ],
)
def test_a_result_of_another_form_is_never_chosen(broken: dict[str, Any], told: str) -> None:
    """What is no number would be neither faster nor slower than any other: the first one would be published."""
    strange = candidate_of("strange", {"error": None, **broken})
    assert told in (strange.refused or "")
    choice = choose(spec_of(), (strange, measured("whole", 2.0)))
    assert choice.names == ("whole",)
