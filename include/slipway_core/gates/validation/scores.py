"""The scores of a golden set's answers, common to every kind, and the expectations of them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slipway_core.errors import SpecError, ValidationRefusedError
from slipway_core.gates.interval import Interval
from slipway_core.spec.validation import Validation
from slipway_core.tensors import ModelSignature

Array = NDArray[Any]
WORST_EXAMPLES = 12
MEAN = "expect_column_mean_to_be_between"


@dataclass(frozen=True, kw_only=True)
class ValidationScores(ABC):
    """What the golden set showed.

    `agreement` is a share, 0 to 1, or None when there is no stable version to agree with. `columns` has one entry
    per golden row in each column, None if there isn't a number. `worst` are JSON-ready mappings.
    """

    rows: int
    agreement: float | None
    columns: Mapping[str, list[Any]]
    worst: tuple[dict[str, Any], ...]
    validation: Validation

    @property
    def kind(self) -> str:
        """Return the kind of answers."""
        return self.validation.kind

    @abstractmethod
    def suite(self) -> list[dict[str, Any]]:
        """Return what is expected of `columns`: a list of `{"type", "kwargs", "meaning"}`."""

    @abstractmethod
    def figures(self) -> dict[str, Any]:
        """Return the figures of the report beside their limits, JSON-ready."""

    @abstractmethod
    def words(self) -> str:
        """Say what was found, for a refusal."""

    def details(self) -> dict[str, Any]:
        """Return further parts of the report that only one kind has."""
        return {}

    def intervals(self) -> Mapping[str, Interval | None]:
        """Return, by column, the intervals of figures that are no means over the rows; None: it is not known."""
        return {}

    def losses(self) -> str:
        """Say what the figures hide that refuses the version all the same; empty if there is nothing."""
        return ""


def require_rows(answers: Array, rows: int) -> None:
    """Raise ValidationRefusedError unless there is an answer for each golden row, such as not for empty tensors."""
    if answers.ndim == 0 or answers.shape[0] != rows:
        raise ValidationRefusedError(
            "the server did not answer every golden row",
            expected=f"{rows} rows",
            found=f"an output of shape {list(answers.shape)}",
            remedy="Look at the staging server's log.",
        )


def require_output(signature: ModelSignature, output: str) -> None:
    """Raise SpecError, which names the model's outputs, where it has none called `output`."""
    if signature.output(output) is None:
        raise SpecError(
            f"the model has no output `{output}`, which `validation.output` names",
            expected=f"one of {', '.join(f'`{one.name}`' for one in signature.outputs)}",
            found=f"`{output}`",
            remedy="Name one of them under `validation.output` in the release file.",
        )


def no_answers_of_this_kind(kind: str, expected: str, answers: Array) -> SpecError:
    """Return the error for an output that cannot be what `validation.kind` says."""
    return SpecError(
        f"the output named by `validation.output` is no {kind}",
        expected=expected,
        found=f"{answers.dtype} {list(answers.shape)}",
        remedy="Name another output under `validation.output`, or another `validation.kind`: "
        f"{', '.join(Validation.registry.names())}.",
    )


def expectation(type_: str, meaning: str, **kwargs: Any) -> dict[str, Any]:
    """Return an expectation as great-expectations spells it, with what it means."""
    return {"type": type_, "kwargs": kwargs, "meaning": meaning}


def every_row(rows: int) -> dict[str, Any]:
    """Expect as many rows in the table as the golden set has."""
    return expectation("expect_table_row_count_to_equal", "every golden row was answered", value=rows)


def always(column: str, meaning: str) -> dict[str, Any]:
    """Expect 1 in every row of a column."""
    return expectation("expect_column_values_to_be_in_set", meaning, column=column, value_set=[1])


def mean_between(
    column: str, meaning: str, *, least: float | None = None, most: float | None = None
) -> dict[str, Any]:
    """Expect the mean of a column within limits; a column without any number does not meet it."""
    return expectation(MEAN, meaning, column=column, min_value=least, max_value=most)


def mean(values: Array) -> float | None:
    """Return the mean of the finite values, None if there is none."""
    finite = values[np.isfinite(values)]
    return float(finite.mean()) if finite.size else None


def number(value: Any) -> float | None:
    """Return a number as JSON can hold it: None for what is not finite."""
    return float(value) if np.isfinite(value) else None
