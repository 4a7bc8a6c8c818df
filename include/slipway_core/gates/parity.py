"""Parity: the converter's table of how far the converted model is from its source, read and judged.

The converter compares each output over the golden set. The figures in its table decide, not its word "pass" alone.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError

from slipway_core.errors import ModelInvalidError, ParityRefusedError
from slipway_core.spec.conversion.parity import ParityRule, ParityRules
from slipway_core.written_numbers import number
from slipway_rules.parity import Rule

# The rounding error that a share of rows may have.
_ROUNDING = 1e-6


class OutputParity(BaseModel):
    """The comparison of one output.

    `max_abs_diff` and `max_rel_diff` are over all elements (null where they have no meaning: text, other
    shapes); `mismatched_rows` counts the rows that `measure` calls off; `worst` shows a few of them.
    `within_share` is the share of rows within the tolerance; `cosine_min` the least similarity of two rows,
    `top_1_agreement` and `top_k_agreement` the share of rows with the same best classes: null for outputs
    that are no vectors of fractions. `compared` says whether both models ran with ONNX Runtime's optimisations.
    """

    # JSON has no infinity: the converters write it as text, and so does this class.
    model_config = ConfigDict(frozen=True, extra="ignore", ser_json_inf_nan="strings")

    output: str
    max_abs_diff: float | None
    max_rel_diff: float | None
    rows: int = Field(ge=0)
    mismatched_rows: int = Field(ge=0)
    passed: bool = Field(alias="pass")
    measure: str = "tolerance"
    within_share: float | None = None
    cosine_min: float | None = None
    top_1_agreement: float | None = None
    top_k: int | None = None
    top_k_agreement: float | None = None
    worst: tuple[dict[str, JsonValue], ...] = ()
    compared: str | None = None


def parse_parity(value: object) -> list[OutputParity]:
    """Read the `parity` list of a conversion's result.json.

    :raises ModelInvalidError: it is not such a list.
    """
    try:
        if not isinstance(value, list):
            raise TypeError(f"found {type(value).__name__}")
        # As JSON, its original form: an unpaired surrogate in a text is found here, not when it is written.
        return [OutputParity.model_validate_json(json.dumps(entry)) for entry in value]
    except (ValidationError, TypeError, ValueError, RecursionError) as error:
        raise ModelInvalidError(
            "the conversion's result.json has no readable `parity`",
            expected="a list of outputs with max_abs_diff, max_rel_diff, rows, mismatched_rows and pass",
            found=str(error).replace("\n", " ")[:300],
            remedy="Use a conversion image that fits this release of the project.",
        ) from error


def require_parity(
    outputs: Sequence[OutputParity],
    model: str,
    *,
    answered: Iterable[str] = (),
    rules: ParityRules | None = None,
    precision: str = "fp32",
) -> None:
    """Raise ParityRefusedError, which names each output and its largest difference, unless all pass.

    Nothing compared is not a pass, neither of the whole nor of an output.

    :param answered: the names of all outputs of the converted model.
    :param rules: the release file's, against which the rows are counted once more; None: the converter's word decides.
    :param precision: of the converted model: where it was lowered, a higher one is a remedy.
    """
    compared = {output.output for output in outputs if output.rows}
    failed = [
        _in_words(output)
        for output in outputs
        if not output.passed or (rules is not None and not _keeps(output, rules))
    ]
    failed += [f"`{name}`: not compared" for name in sorted({*answered, *_names(outputs)} - compared)]
    if outputs and not failed:
        return
    raise ParityRefusedError(
        f"the converted model {model} does not answer as its source does",
        expected="every output within the tolerances, over the whole golden set",
        found="; ".join(failed) or "no output was compared",
        remedy=("Use a higher precision, or widen" if precision != "fp32" else "Widen")
        + " `conversion.parity` in the release file if it is harmless.",
    )


def optimisation_in_words(effect: object) -> str:
    """Return what ONNX Runtime's own optimisations do to the answers; empty if nothing changes or was measured.

    :param effect: the `optimisation` of a conversion's result.json, whatever it holds.
    """
    try:
        read = _Effect.model_validate_json(json.dumps(effect))
    except (ValidationError, TypeError, ValueError, RecursionError):
        return ""
    changed = [
        f"`{one.output}` by up to {number(one.max_abs_diff)}" for one in read.outputs if one.max_abs_diff
    ]
    return (
        f"ONNX Runtime's optimisations alone change the answers of {read.of}: {', '.join(changed)}"
        if changed
        else ""
    )


class _ChangedOutput(BaseModel):
    output: str
    max_abs_diff: float | None = None


class _Effect(BaseModel):
    of: str
    outputs: tuple[_ChangedOutput, ...]


def worst_figures(outputs: Iterable[OutputParity]) -> list[dict[str, Any]]:
    """Return the worst figure of each measure for each output, JSON-ready, without the rows themselves."""
    shown = (
        output.model_dump_json(by_alias=True, exclude={"worst"}, exclude_none=True) for output in outputs
    )
    return [json.loads(figures) for figures in shown]


def _keeps(output: OutputParity, rules: ParityRules) -> bool:
    """Return whether so few rows are off that the release file allows it."""
    own = rules.outputs.get(output.output)
    rule: ParityRule = rules if own is None else rules.filled(**own.model_dump(exclude_unset=True))
    shares = Rule(within_min=rule.within_min, agreement_min=rule.agreement_min)
    least = shares.least_share(output.measure)
    return output.mismatched_rows <= (1 - least) * output.rows + _ROUNDING


def _names(outputs: Iterable[OutputParity]) -> set[str]:
    return {output.output for output in outputs}


def _in_words(output: OutputParity) -> str:
    largest = "" if output.max_abs_diff is None else f", largest difference {number(output.max_abs_diff)}"
    return f"`{output.output}`: {output.mismatched_rows} of {output.rows} rows differ{largest}"
