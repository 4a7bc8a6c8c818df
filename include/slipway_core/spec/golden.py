"""The release file's `golden`: how rows are taken out of the golden set, and what is expected of the set itself."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from slipway_core.spec.parts import FileName, SpecPart, Text
from slipway_core.spec.suites.expectations import SUITE_LIMIT, Expectation
from slipway_rules.row_axes import LAST_AXIS

_RowAxis = Annotated[int, Field(ge=0, le=LAST_AXIS)] | Literal["request", "none"]


class Golden(SpecPart):
    """How the golden set's arrays are cut into requests, and what the set must be like."""

    row_axis: dict[Text, _RowAxis] = Field(default_factory=dict)
    """By input or output: the axis that counts rows (0: the first), `request` (the tensor has no such axis: each row
    is a request of its own, and the golden set's array has the rows first) or `none` (the same in every request). What
    is left out is guessed from the model's shapes, and said in the log and in the validation report.
    """

    slices: Annotated[tuple[Text, ...], Field(max_length=8)] = ()
    """Arrays of the golden set, [rows] of whole numbers or texts, that say to which part of the data a row belongs:
    accuracy and agreement are reported for each part.
    """
    expectations: Annotated[tuple[Expectation, ...], Field(max_length=SUITE_LIMIT)] = ()
    """Expectations on the golden set, as great-expectations writes them; docs/gates.md lists the columns."""
    suite: FileName | None = None
    """A file in the release file's folder with more of them: a suite in great-expectations' JSON form."""

    def arguments(self) -> list[str]:
        """Return the arguments that every converter and load generator understands."""
        return [
            word for name, axis in sorted(self.row_axis.items()) for word in ("--row-axis", f"{name}={axis}")
        ]
