"""Several conversions of one version beside each other, and which of them is published.

    conversion:
      target: onnx
      variants:
        fp32: {}
        int8: {precision: int8}
      choose: fastest

Each variant is the file's `conversion` with some keys changed. Its converter measures it and holds it to its
tolerance; a variant that misses it is out, and only a release without any left is refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from include.model_release.engine import engine_of
from include.model_release.errors import ModelInvalidError, ParityRefusedError, SlipwayError
from include.model_release.spec import ReleaseSpec
from include.model_release.spec_conversion import variant_of

# What a conversion without variants is called where a name is needed.
ONLY = ""


@dataclass(frozen=True)
class Candidate:
    """One variant as its converter left it: what it was measured to be, or why it is out."""

    name: str
    precision: str | None = None
    size_bytes: int | None = None
    p50_ms: float | None = None
    compute_capability: str | None = None
    refused: str | None = None


@dataclass(frozen=True)
class Choice:
    """The variants to publish, the first one leading, why, and all there were."""

    names: tuple[str, ...]
    reason: str
    candidates: tuple[Candidate, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return the choice for JSON; the evidence `variants.json`."""
        return asdict(self)


def variant_names(spec: ReleaseSpec) -> list[str]:
    """Return the names of the conversions of a release: `ONLY` where there is just the one."""
    return list(spec.conversion.variants) or [ONLY]


def with_variant(spec: ReleaseSpec, name: str) -> ReleaseSpec:
    """Return the release file as if it had this one conversion."""
    if name == ONLY:
        return spec
    return spec.model_copy(update={"conversion": variant_of(spec.conversion, name)})


def candidate_of(name: str, result: Mapping[str, Any]) -> Candidate:
    """Read a converter's `result.json`."""
    if result.get("error") is not None:
        return Candidate(name, refused=str(SlipwayError.from_dict(result["error"])))
    engine = engine_of(result)
    latency = result.get("latency") or {}
    return Candidate(
        name,
        precision=result.get("precision"),
        size_bytes=(result.get("model") or {}).get("size_bytes"),
        p50_ms=latency.get("p50_ms"),
        compute_capability=None if engine is None else engine.compute_capability,
    )


def choose(spec: ReleaseSpec, candidates: tuple[Candidate, ...]) -> Choice:
    """Return which variants to publish, as `conversion.choose` says.

    Raises ParityRefusedError when none is left, and ModelInvalidError when they cannot be told apart: a
    variant that nobody has measured, or two engines for one kind of GPU.
    """
    left = [one for one in candidates if one.refused is None]
    if not left:
        raise ParityRefusedError(
            "no variant of the conversion keeps its tolerance",
            expected="at least one that answers as its source does",
            found="; ".join(f"{one.name}: {one.refused}" for one in candidates),
            remedy="mend the model, or allow a variant more (`parity`) where that is right",
        )
    if spec.conversion.choose == "all":
        return _all(tuple(left), candidates)
    return _fastest(tuple(left), candidates)


def _fastest(left: tuple[Candidate, ...], candidates: tuple[Candidate, ...]) -> Choice:
    if len(left) == 1:
        return Choice((left[0].name,), "It is the only one within its tolerance.", candidates)
    unmeasured = [one.name for one in left if one.p50_ms is None]
    if unmeasured:
        raise ModelInvalidError(
            "the fastest variant cannot be told",
            expected="`latency.p50_ms` in each converter's result.json",
            found=f"none of {', '.join(unmeasured)}",
            remedy="Check that the images in `conversion` hold this version's converters.",
        )
    best = min(left, key=lambda one: (one.p50_ms or 0.0, one.size_bytes or 0))
    others = ", ".join(f"{one.name} {one.p50_ms:.3g} ms" for one in left if one is not best)
    reason = (
        f"{best.name} is the fastest within its tolerance: {best.p50_ms:.3g} ms a request, against {others}."
    )
    return Choice((best.name,), reason, candidates)


def _all(left: tuple[Candidate, ...], candidates: tuple[Candidate, ...]) -> Choice:
    by_gpu: dict[str | None, str] = {}
    for one in left:
        if one.compute_capability is None or one.compute_capability in by_gpu:
            raise ModelInvalidError(
                "these variants cannot be published as one version",
                expected="`choose: all` with engines, one for each compute capability",
                found=f"{one.name}: {one.compute_capability or 'no engine'}",
                remedy="Give each variant a `node_selector` of its own kind of GPU, or write `choose: fastest`.",
            )
        by_gpu[one.compute_capability] = one.name
    kinds = ", ".join(f"{name} for {gpu}" for gpu, name in by_gpu.items())
    return Choice(tuple(by_gpu.values()), f"One engine for each kind of GPU: {kinds}.", candidates)
