"""Variants: several conversions of one version, and the choice which of them is published.

    conversion:
      target: onnx
      variants:
        fp32: {}
        int8: {precision: int8}
      choose: fastest

Each variant is the file's `conversion` with some keys changed. Its converter measures it and holds it to its
tolerance; a variant that misses it, or cannot be made, is out. With `choose: fastest` only a release without any
left is refused. With `choose: all` one that leaves a kind of GPU without an engine is, unless every variant for it
says `optional: true`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from slipway_core.documents.document_form import first_problem
from slipway_core.errors import GateRefusedError, ModelInvalidError, ParityRefusedError, SlipwayError
from slipway_core.gates.parity import parse_parity, worst_figures
from slipway_core.publishing.engine import engine_of
from slipway_core.spec.conversion.conversion import variant_of
from slipway_core.spec.release_file import ReleaseSpec
from slipway_core.written_numbers import number

# What a conversion without variants is called where a name is needed.
ONLY = ""


@dataclass(frozen=True)
class Candidate:
    """One variant as its converter left it: its measurements, and why it is left out, if it is.

    `parity` has the worst figures of each output, in both cases, where the converter came so far.
    """

    name: str
    precision: str | None = None
    size_bytes: int | None = None
    p50_ms: float | None = None
    compute_capability: str | None = None
    refused: str | None = None
    by_gate: bool = False
    """Whether it was made, and did not keep its tolerance."""
    parity: tuple[dict[str, Any], ...] = ()


@dataclass(frozen=True)
class Choice:
    """The variants to publish, the first one leading, why, and all there were.

    `missing` are those without which some servers have no engine; the release file says that this may be.
    """

    names: tuple[str, ...]
    reason: str
    candidates: tuple[Candidate, ...]
    missing: tuple[str, ...] = ()

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


class _Part(BaseModel):
    model_config = ConfigDict(extra="ignore", allow_inf_nan=False)


class _Size(_Part):
    size_bytes: Annotated[int, Field(ge=0)] | None = None


class _Latency(_Part):
    p50_ms: Annotated[float, Field(ge=0)] | None = None


class _ConversionResult(_Part):
    """What a choice needs of a result.json."""

    error: dict[str, Any] | None = None
    precision: str | None = None
    model: _Size | None = None
    latency: _Latency | None = None


def candidate_of(name: str, result: Mapping[str, Any]) -> Candidate:
    """Read the evidence of a conversion: its converter's `result.json`, with the error that the gate found.

    One of another form than a converter writes is out, and says why.
    """
    try:
        read, engine = _ConversionResult.model_validate(result), engine_of(result)
    except ValidationError as unreadable:
        return Candidate(name, refused=f"its result.json cannot be read: {first_problem(unreadable)}")
    except ModelInvalidError as unreadable:
        return Candidate(name, refused=unreadable.in_short())
    error = None if read.error is None else SlipwayError.from_dict(read.error)
    return Candidate(
        name,
        precision=read.precision,
        size_bytes=None if read.model is None else read.model.size_bytes,
        p50_ms=None if read.latency is None else read.latency.p50_ms,
        compute_capability=None if engine is None else engine.compute_capability,
        refused=None if error is None else str(error),
        by_gate=isinstance(error, GateRefusedError),
        parity=_figures(result.get("parity")),
    )


def choose(spec: ReleaseSpec, candidates: tuple[Candidate, ...]) -> Choice:
    """Return which variants to publish, as `conversion.choose` says.

    :raises ParityRefusedError: none is left, or a kind of GPU would be without an engine.
    :raises ModelInvalidError: none could be made, or the fastest is unknown because none was measured.
    """
    left = [one for one in candidates if one.refused is None]
    if not left:
        raise _out(
            "no variant of the conversion is left to publish",
            "at least one that was made and answers like its source",
            candidates,
            "correct what the reasons name, or widen a variant's tolerance (`parity`) if that is acceptable",
        )
    if spec.conversion.choose == "all":
        return _all(spec, left, candidates)
    best, reason = _fastest(left)
    return Choice((best.name,), reason, candidates)


def _figures(parity: object) -> tuple[dict[str, Any], ...]:
    """Return what can be shown of a table; one that cannot be read has been refused by the gate."""
    try:
        return tuple(worst_figures(parse_parity(parity)))
    except ModelInvalidError:
        return ()


def _out(what: str, expected: str, out: Sequence[Candidate], remedy: str) -> SlipwayError:
    """Return the error for missing variants: a gate's if one of them was made and refused, else a person's."""
    kind = ParityRefusedError if any(one.by_gate for one in out) else ModelInvalidError
    found = "; ".join(f"{one.name}: {one.refused}" for one in out)
    return kind(what, expected=expected, found=found, remedy=remedy)


def _fastest(left: Sequence[Candidate]) -> tuple[Candidate, str]:
    """Return the fastest, and why it is; raise ModelInvalidError where that is not known."""
    if len(left) == 1:
        return left[0], f"{left[0].name} is the only one within its tolerance."
    unmeasured = [one.name for one in left if one.p50_ms is None]
    if unmeasured:
        raise ModelInvalidError(
            "the fastest variant is unknown",
            expected="`latency.p50_ms` in each converter's result.json",
            found=f"none of {', '.join(unmeasured)}",
            remedy="Check that the images in `conversion` hold this version's converters.",
        )
    best = min(left, key=lambda one: (one.p50_ms or 0.0, one.size_bytes or 0))
    others = ", ".join(f"{one.name} {number(one.p50_ms or 0.0)} ms" for one in left if one is not best)
    return best, (
        f"{best.name} is the fastest within its tolerance: {number(best.p50_ms or 0.0)} ms a request, against {others}."
    )


def _all(spec: ReleaseSpec, left: Sequence[Candidate], candidates: tuple[Candidate, ...]) -> Choice:
    """Return the fastest for each kind of GPU, in the order of the release file."""
    kinds: dict[str, list[Candidate]] = {}
    for one in left:
        if one.compute_capability is None:
            raise ModelInvalidError(
                f"the variant {one.name!r} of `choose: all` is not an engine",
                expected="`engine.compute_capability` in its converter's result.json",
                found="none",
                remedy="Check that the image in `conversion` holds this version's converter.",
            )
        kinds.setdefault(one.compute_capability, []).append(one)
    missing = [one for one in candidates if one.refused is not None and not _is_covered(spec, one, left)]
    _require_optional(spec, missing)
    best = {kind: _fastest(of_kind) for kind, of_kind in kinds.items()}
    sentences = [f"For GPUs of compute capability {kind}: {why}" for kind, (_, why) in best.items()]
    sentences += [f"Without {one.name}, which is optional: {one.refused}" for one in missing]
    names = tuple(one.name for one, _ in best.values())
    return Choice(names, " ".join(sentences), candidates, tuple(one.name for one in missing))


def _is_covered(spec: ReleaseSpec, refused: Candidate, left: Iterable[Candidate]) -> bool:
    """Return whether a variant that is left is for the same kind of GPU, by its engine or by where it was built."""
    if refused.compute_capability is not None:
        return any(one.compute_capability == refused.compute_capability for one in left)
    nodes = variant_of(spec.conversion, refused.name).node_selector
    return bool(nodes) and any(variant_of(spec.conversion, one.name).node_selector == nodes for one in left)


def _require_optional(spec: ReleaseSpec, missing: Iterable[Candidate]) -> None:
    needed = [one for one in missing if not spec.conversion.is_optional(one.name)]
    if needed:
        raise _out(
            "some servers would have no engine of this version",
            "with `choose: all` an engine for each kind of GPU",
            needed,
            "correct what the reasons name, or write `optional: true` in the variant if the servers can do without",
        )
