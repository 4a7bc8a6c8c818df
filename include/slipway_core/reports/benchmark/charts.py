"""The charts of the benchmark's page. Stable and candidate differ by color and by the form of their marks.

The colors are Okabe and Ito's ("Color universal design", 2008), as on the canary's page.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from slipway_core.reports.svg_figure import begin_at_zero, inline_svg, svg_settings

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLOURS = {
    "#1c2430": "ink",
    "#5b6675": "soft",
    "#d9dee5": "line",
    "#0072b2": "stable",
    "#d55e00": "candidate",
    "#c4314b": "bad",
    "#18794e": "good",
}
_HEX = {name: colour for colour, name in COLOURS.items()}
_MARKS = {"stable": ("s", (0, (5, 1.6))), "candidate": ("o", "-")}
_WIDTH_IN = 9.6


@dataclass(frozen=True)
class Change:
    """One figure against stable, in percent; `low` and `high` are None if there is no interval.

    :ivar limit: how far it may be off; below 0 for a throughput.
    :ivar color: `good`, `bad` or `ink` where the rounds do not decide.
    """

    name: str
    change: float
    low: float | None
    high: float | None
    limit: float
    colour: str


@dataclass(frozen=True)
class Series:
    """One side's figure over rounds or levels of load: `stable` or `candidate`, a name, and points."""

    side: str
    name: str
    points: Sequence[tuple[float, float]]


def changes_chart(changes: Sequence[Change], description: str) -> str:
    """Return the changes against stable with their intervals and limits."""
    with _drawing(0.6 + 0.42 * len(changes), left_in=2.6) as (figure, plot):
        plot.axvline(0, color=_HEX["stable"], linewidth=1.2, linestyle=_MARKS["stable"][1])
        for row, one in enumerate(reversed(changes)):
            colour = _HEX[one.colour]
            if one.low is not None and one.high is not None:
                plot.plot((one.low, one.high), (row, row), color=colour, linewidth=3, solid_capstyle="butt")
            plot.plot((one.change,), (row,), marker="o", markersize=6, color=colour)
            limit = (one.limit, one.limit), (row - 0.38, row + 0.38)
            plot.plot(*limit, color=_HEX["bad"], linewidth=2)
        plot.set_yticks(range(len(changes)), [one.name for one in reversed(changes)])
        plot.set_ylim(-0.6, len(changes) - 0.4)
        plot.set_xlabel(
            "change against stable, %: the dot; its interval: the bar; the limit: the upright line"
        )
        return inline_svg(figure, "changes", "Changes against stable", description, COLOURS)


def rounds_chart(series: Sequence[Series], description: str) -> str:
    """Return a latency in each round, of both sides."""
    with _drawing(2.5) as (figure, plot):
        _draw(plot, series)
        plot.set_xlabel("round")
        plot.set_ylabel("ms")
        begin_at_zero(plot)
        plot.xaxis.get_major_locator().set_params(integer=True)  # type: ignore[call-arg]
        return inline_svg(figure, "rounds", "Latency by round", description, COLOURS)


def curve_chart(series: Sequence[Series], description: str) -> str:
    """Return latency against throughput over the levels of a sweep."""
    with _drawing(3.4) as (figure, plot):
        _draw(plot, series)
        plot.set_xlabel("answered requests/s")
        plot.set_ylabel("ms")
        begin_at_zero(plot, x=True)
        return inline_svg(figure, "curve", "Latency against throughput", description, COLOURS)


def _draw(plot: Axes, series: Sequence[Series]) -> None:
    for number, one in enumerate(series):
        mark, line = _MARKS[one.side]
        plot.plot(
            *zip(*one.points, strict=True),
            color=_HEX[one.side],
            linestyle=line,
            marker=mark,
            markersize=5,
            markerfacecolor=_HEX[one.side] if number < 2 else "none",
            linewidth=1.4,
            label=one.name,
        )
    plot.legend(loc="best", frameon=False, labelcolor=_HEX["ink"], fontsize=9)


@contextmanager
def _drawing(height_in: float, left_in: float = 0.7) -> Iterator[tuple[Figure, Axes]]:
    """Yield a figure with one plot; call it around `inline_svg` as well."""
    from matplotlib.figure import Figure

    with svg_settings():
        figure = Figure(figsize=(_WIDTH_IN, height_in))
        plot = figure.add_axes(
            (left_in / _WIDTH_IN, 0.5 / height_in, 1 - (left_in + 0.3) / _WIDTH_IN, 1 - 0.65 / height_in)
        )
        plot.patch.set_visible(False)
        plot.grid(visible=True, color=_HEX["line"], linewidth=0.6)
        plot.set_axisbelow(True)
        plot.tick_params(colors=_HEX["ink"], length=0)
        plot.xaxis.label.set_color(_HEX["soft"])
        plot.yaxis.label.set_color(_HEX["soft"])
        for side in plot.spines.values():
            side.set_visible(False)
        yield figure, plot
