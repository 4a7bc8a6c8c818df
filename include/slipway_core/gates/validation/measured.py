"""Scores that are means over the rows: the frame of the kinds that have no table of their own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from slipway_core.gates.interval import Interval
from slipway_core.gates.validation.scores import (
    ValidationScores,
    always,
    every_row,
    mean,
    mean_between,
    number,
)


@dataclass(frozen=True, kw_only=True)
class Measure:
    """A figure: the mean of a column, which must be at least `least`.

    :ivar caption: what people call it.
    :ivar meaning: what is expected of it, in words.
    :ivar interval: where the figure is no mean over rows; its column then has the figure in every row.
    """

    column: str
    caption: str
    values: Any
    least: float
    meaning: str
    interval: Interval | None = None


@dataclass(frozen=True, kw_only=True)
class MeasuredScores(ValidationScores):
    """The columns are those of the measures, and finite."""

    measures: tuple[Measure, ...]
    not_finite_rows: int = 0
    facts: Mapping[str, Any] = field(default_factory=dict)

    def suite(self) -> list[dict[str, Any]]:
        """Expect finite answers, and of each measure what it must reach."""
        return [
            every_row(self.rows),
            always("finite", "every answer is of finite numbers"),
            *(mean_between(one.column, one.meaning, least=one.least, most=1.0) for one in self.measures),
        ]

    def figures(self) -> dict[str, Any]:
        """Return each measure beside its limit."""
        found: dict[str, Any] = {"rows": self.rows}
        for one in self.measures:
            name = "agreement" if one.column == "agrees" else one.column
            found[name], found[f"{name}_min"] = mean(one.values), one.least
        return {**found, "not_finite_rows": self.not_finite_rows, **self.facts}

    def words(self) -> str:
        """Say each measure but the agreement, which the report adds."""
        shown = [
            f"{one.caption.lower()} {value:.4f}"
            for one in self.measures
            if one.column != "agrees" and (value := mean(one.values)) is not None
        ]
        words = f"{', '.join(shown) or 'no labels'} over {self.rows} rows"
        return f"{words}, {self.not_finite_rows} not finite" if self.not_finite_rows else words

    def details(self) -> dict[str, Any]:
        """Return what the figures are called."""
        captions = {
            "agreement" if one.column == "agrees" else one.column: one.caption for one in self.measures
        }
        return {"captions": captions}

    def intervals(self) -> Mapping[str, Interval | None]:
        """Return the intervals of the measures that are no means."""
        return {one.column: one.interval for one in self.measures if one.interval is not None}


def columns_of(measures: Sequence[Measure], finite: Any) -> dict[str, list[Any]]:
    """Return the table of the measures, with whether each row is finite."""
    table = {one.column: [number(value) for value in one.values] for one in measures}
    return {"finite": [int(value) for value in finite], **table}
