"""From where to where a figure may lie, and what that says of a limit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Decision = Literal["met", "not_met", "inconclusive"]


@dataclass(frozen=True)
class Interval:
    """From where to where, and by which method."""

    low: float
    high: float
    method: str

    def holds(self, *, least: float | None, most: float | None) -> Decision:
        """Return what it says of a limit: inconclusive where the limit lies inside."""
        above = least is None or self.low >= least
        below = most is None or self.high <= most
        if above and below:
            return "met"
        misses = (least is not None and self.high < least) or (most is not None and self.low > most)
        return "not_met" if misses else "inconclusive"
