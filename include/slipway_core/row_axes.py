"""Which axis of each tensor the release file says counts the golden rows; `slipway_rules.row_axes` has the rules."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from slipway_rules.row_axes import RowAxis


@dataclass(frozen=True)
class RowAxes:
    """The axis of each input and of each output that the release file names.

    :ivar guessed: inputs whose axis follows from their shape.
    :ivar request_rows: how many rows a request must have; None: any number.
    """

    inputs: Mapping[str, RowAxis] = field(default_factory=dict)
    outputs: Mapping[str, RowAxis] = field(default_factory=dict)
    guessed: frozenset[str] = frozenset()
    request_rows: int | None = None

    @property
    def one_by_one(self) -> bool:
        """Return whether each row is a request of its own, without an axis for rows."""
        return "request" in self.inputs.values()

    def describe(self) -> str:
        """Say for each input how its rows are taken, and where that was not written in the release file."""
        ways = {"request": "a request for each row", "none": "the same in every request"}
        said = (
            f"`{name}`: {ways.get(str(axis), f'axis {axis}')}{' (guessed)' if name in self.guessed else ''}"
            for name, axis in self.inputs.items()
        )
        single = ", one row a request" if self.request_rows == 1 and not self.one_by_one else ""
        return ", ".join(said) + single
