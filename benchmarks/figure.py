"""One measured number, beside a peer's where there is one."""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path


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
        """The entry of `results.json`."""
        return {
            "figure": self.name,
            "value": round(self.value, 3),
            "unit": self.unit,
            "peer": self.peer,
            "peer_value": None if self.peer_value is None else round(self.peer_value, 3),
            "ratio": None if self.ratio is None else round(self.ratio, 3),
        }

    def row(self) -> str:
        """The figure as a line for people."""
        parts = [f"{self.name:<30} {self.value:>9.3f} {self.unit:<8}"]
        if self.peer is not None and self.peer_value is not None:
            parts.append(f"{self.peer}: {self.peer_value:.3f} {self.unit}")
        if self.ratio is not None:
            parts.append(f" ratio {self.ratio:.2f}")
        if self.note:
            parts.append(f"({self.note})")
        return " ".join(parts).rstrip()


def median_figure(name: str, values: Sequence[float], unit: str) -> Figure:
    """The median of repeats, with their number and their extremes in the note."""
    spread = f"median of {len(values)}, {min(values):.4g} to {max(values):.4g}"
    return Figure(name, statistics.median(values), unit, note=spread)


def write_results(path: Path, figures: Iterable[Figure]) -> None:
    """Write `results.json`, a list with an entry for each figure, whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(".partial")
    partial.write_text(
        json.dumps([figure.to_dict() for figure in figures], indent=2) + "\n", encoding="utf-8"
    )
    partial.replace(path)
