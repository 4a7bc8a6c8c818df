"""The release file's `golden`: how rows are taken out of the golden set."""

from __future__ import annotations

from pydantic import Field

from include.model_release.spec.parts import SpecPart, Text
from include.model_release.value_types import RowAxis


class Golden(SpecPart):
    """How the golden set's arrays are cut into requests."""

    row_axis: dict[Text, RowAxis] = Field(default_factory=dict)
    """By input or output: the axis that counts rows (0: the first), `request` (the tensor has no such axis: each row
    is a request of its own, and the golden set's array has the rows first) or `none` (the same in every request). What
    is left out is guessed from the model's shapes, and said in the log and in the validation report.
    """

    def arguments(self) -> list[str]:
        """Return the arguments that every converter and load generator understands."""
        return [
            word for name, axis in sorted(self.row_axis.items()) for word in ("--row-axis", f"{name}={axis}")
        ]
