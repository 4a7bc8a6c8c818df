"""Does the converted model answer as its source does? Compared per output over the golden set."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import AliasChoices, BaseModel, ConfigDict, Field, JsonValue, ValidationError

from include.model_release.errors import ParityRefusedError, SlipwayError

Array = NDArray[Any]
WORST_ROWS = 3


class OutputParity(BaseModel):
    """How one output compares.

    `max_abs_diff` and `max_rel_diff` are over all elements (null where they have no meaning: text, other
    shapes); `mismatched_rows` counts the rows that `measure` calls off; `worst` shows a few of them.
    `within_share` is the share of rows within the tolerance; `cosine_min` the least similarity of two rows,
    `top_1_agreement` and `top_k_agreement` the share of rows with the same best classes: null for outputs
    that are no vectors of fractions.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")

    output: str
    max_abs_diff: float | None
    max_rel_diff: float | None
    rows: int = Field(ge=0)
    mismatched_rows: int = Field(ge=0)
    passed: bool = Field(validation_alias=AliasChoices("pass", "passed"), serialization_alias="pass")
    measure: str = "tolerance"
    within_share: float | None = None
    cosine_min: float | None = None
    top_1_agreement: float | None = None
    top_k: int | None = None
    top_k_agreement: float | None = None
    worst: tuple[dict[str, JsonValue], ...] = ()
    note: str | None = None


def compare(
    source: Mapping[str, Array], converted: Mapping[str, Array], abs_tolerance: float, rel_tolerance: float
) -> list[OutputParity]:
    """Compare outputs by name; the first dimension is that of rows.

    An element agrees when |source - converted| <= abs + rel * |source|.

    NaN agrees with NaN, an infinity with itself; text and whole numbers must be equal within the same rule
    for numbers. An output that is missing on one side, or has another shape, does not pass.
    """
    return [
        _compare_output(name, source.get(name), converted.get(name), abs_tolerance, rel_tolerance)
        for name in sorted(source.keys() | converted.keys())
    ]


def parse_parity(value: object) -> list[OutputParity]:
    """Read the `parity` list of a conversion's result.json.

    Raises SlipwayError when it is none: the fault is the pod's.
    """
    try:
        if not isinstance(value, list):
            raise TypeError(f"found {type(value).__name__}")
        return [OutputParity.model_validate(entry) for entry in value]
    except (ValidationError, TypeError) as error:
        raise SlipwayError(
            "the conversion's result.json has no readable `parity`",
            expected="a list of outputs with max_abs_diff, max_rel_diff, rows, mismatched_rows and pass",
            found=str(error).replace("\n", " ")[:300],
            remedy="Use a conversion image that fits this release of the project.",
        ) from error


def require_parity(outputs: Sequence[OutputParity], model: str) -> None:
    """Raise ParityRefusedError, which names each output and its largest difference, unless all pass.

    Nothing compared is not a pass.
    """
    failed = [output for output in outputs if not output.passed]
    if outputs and not failed:
        return
    raise ParityRefusedError(
        f"the converted model {model} does not answer as its source does",
        expected="every output within the tolerances, over the whole golden set",
        found="; ".join(_in_words(output) for output in failed) or "no output was compared",
        remedy="Use a higher precision, or widen `conversion.parity` in the release file if it is harmless.",
    )


def _in_words(output: OutputParity) -> str:
    if output.note:
        return f"`{output.output}`: {output.note}"
    largest = "" if output.max_abs_diff is None else f", largest difference {output.max_abs_diff:.3g}"
    return f"`{output.output}`: {output.mismatched_rows} of {output.rows} rows differ{largest}"


def _compare_output(
    name: str, source: Array | None, converted: Array | None, abs_tolerance: float, rel_tolerance: float
) -> OutputParity:
    if source is None or converted is None:
        side = "source" if source is None else "converted model"
        return _not_comparable(
            name, source if source is not None else converted, f"the {side} has no such output"
        )
    if source.shape != converted.shape:
        return _not_comparable(
            name, source, f"the shape was {list(source.shape)} and is {list(converted.shape)}"
        )
    if not source.size:
        return _not_comparable(name, source, "there is nothing to compare")
    if source.dtype.kind not in "biuf" or converted.dtype.kind not in "biuf":
        agrees = _by_rows(np.asarray(source == converted))
        return _verdict(name, source, converted, agrees, None, None)
    before, after = source.astype(np.float64), converted.astype(np.float64)
    with np.errstate(invalid="ignore", over="ignore"):
        same = (before == after) | (np.isnan(before) & np.isnan(after))
        distance = np.where(same, 0.0, np.abs(before - after))
        close = same | (np.isfinite(distance) & (distance <= abs_tolerance + rel_tolerance * np.abs(before)))
        relative = np.where(same, 0.0, distance / np.maximum(np.abs(before), np.finfo(np.float32).tiny))
    return _verdict(name, source, converted, _by_rows(close), distance, relative)


def _by_rows(elements: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Reduce (rows, …) to (rows,): a row agrees when all of it does."""
    rows = elements.shape[0] if elements.ndim else 1
    return np.asarray(elements.reshape(rows, -1).all(axis=1), dtype=np.bool_)


def _verdict(
    name: str,
    source: Array,
    converted: Array,
    agrees: NDArray[np.bool_],
    distance: Array | None,
    relative: Array | None,
) -> OutputParity:
    wrong = np.flatnonzero(~agrees)
    if distance is not None and wrong.size:
        by_row = np.nan_to_num(distance.reshape(agrees.size, -1), nan=np.inf).max(axis=1)
        wrong = wrong[np.argsort(-by_row[wrong], kind="stable")]
    rows_before, rows_after = source.reshape(agrees.size, -1), converted.reshape(agrees.size, -1)
    return OutputParity(
        output=name,
        max_abs_diff=_largest(distance),
        max_rel_diff=_largest(relative),
        rows=int(agrees.size),
        mismatched_rows=int(wrong.size),
        passed=not wrong.size,
        worst=tuple(
            {"row": int(row), "source": _row(rows_before[row]), "converted": _row(rows_after[row])}
            for row in wrong[:WORST_ROWS]
        ),
    )


def _not_comparable(name: str, present: Array | None, note: str) -> OutputParity:
    rows = int(present.shape[0]) if present is not None and present.ndim else 0
    return OutputParity(
        output=name,
        max_abs_diff=None,
        max_rel_diff=None,
        rows=rows,
        mismatched_rows=rows,
        passed=False,
        note=note,
    )


def _largest(values: Array | None) -> float | None:
    if values is None or not values.size:
        return None
    largest = float(np.nan_to_num(values, nan=np.inf).max())
    return largest if np.isfinite(largest) else None


def _row(values: Array) -> list[JsonValue]:
    """Show at most eight elements; JSON has no NaN or infinity, so those become text."""
    shown: list[JsonValue] = []
    for value in values[:8].tolist():
        finite_or_text = value if not isinstance(value, float) or np.isfinite(value) else str(value)
        shown.append(value.decode(errors="replace") if isinstance(value, bytes) else finite_or_text)
    return shown
