"""One measured number, beside a peer's where there is one."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass


class MeasureError(Exception):
    """A figure could not be taken; the message says which part failed and where to look."""


@dataclass(frozen=True)
class Figure:
    """`value` in `unit`; `peer` names what it is compared with, whose `peer_value` was measured in the same run.

    `note` is said beside it to people: how far the repeats lie apart, for example.
    """

    name: str
    value: float
    unit: str
    peer: str | None = None
    peer_value: float | None = None
    note: str = ""

    @property
    def ratio(self) -> float | None:
        """Value over the peer's value; None where there is no peer, or its value is 0."""
        return self.value / self.peer_value if self.peer_value else None

    def to_dict(self) -> dict[str, str | float | None]:
        """Return the figure's part of its row in `results.json`."""
        return {
            "figure": self.name,
            "value": round(self.value, 3),
            "unit": self.unit,
            "peer": self.peer,
            "peer_value": None if self.peer_value is None else round(self.peer_value, 3),
            "ratio": None if self.ratio is None else round(self.ratio, 3),
        }

    def row(self) -> str:
        """Return the figure as a line for people."""
        parts = [f"{self.name:<30} {self.value:>9.3f} {self.unit:<8}"]
        if self.peer is not None and self.peer_value is not None:
            parts.append(f"{self.peer}: {self.peer_value:.3f} {self.unit}")
        if self.ratio is not None:
            parts.append(f" ratio {self.ratio:.2f}")
        if self.note:
            parts.append(f"({self.note})")
        return " ".join(parts).rstrip()


def median_figure(name: str, values: Sequence[float], unit: str) -> Figure:
    """Return the median of repeats, with their number and their extremes in the note."""
    spread = f"median of {len(values)}, {min(values):.4g} to {max(values):.4g}"
    return Figure(name, statistics.median(values), unit, note=spread)
