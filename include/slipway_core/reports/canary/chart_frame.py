"""The frame of a canary's charts: an axis of time with its steps and the stretches without data, and the lines' styles.

The colors can be distinguished also by people who see fewer of them (Okabe and Ito, "Color universal design", 2008),
and each line has its own style.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from slipway_core.reports.canary.timeline import Point, TimeAxis

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# What matplotlib draws with, and the page's CSS variable that takes its place.
COLOURS = {
    "#1c2430": "ink",
    "#5b6675": "soft",
    "#d9dee5": "line",
    "#0072b2": "stable",
    "#d55e00": "candidate",
    "#c4314b": "bad",
    "#882e8a": "errors",
    "#00795a": "latency",
    "#8f6a00": "error_ceiling",
    "#3a6ea5": "latency_ceiling",
}
HEX = {name: colour for colour, name in COLOURS.items()}
_STYLES: dict[str, Any] = {
    "stable": (0, (5, 1.6)),
    "candidate": "-",
    "total": "-",
    "errors": (0, (5, 1.5)),
    "latency": (0, (1.2, 1.4)),
    "error_ceiling": (0, (6, 1.5, 1.2, 1.5)),
    "latency_ceiling": (0, (3, 1.2, 1.2, 1.2, 1.2, 1.2)),
}

_WIDTH_IN, _LEFT_IN, _RIGHT_IN, _BOTTOM_IN, _TOP_IN = 9.6, 0.62, 0.3, 0.45, 0.34


@contextmanager
def drawing(axis: TimeAxis, height_in: float) -> Iterator[tuple[Figure, Axes]]:
    """Yield a figure with one plot, and then draw the axis of time with its steps and the stretches without data."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(_WIDTH_IN, height_in))
    plot = figure.add_axes(
        (
            _LEFT_IN / _WIDTH_IN,
            _BOTTOM_IN / height_in,
            1 - (_LEFT_IN + _RIGHT_IN) / _WIDTH_IN,
            1 - (_BOTTOM_IN + _TOP_IN) / height_in,
        )
    )
    plot.patch.set_visible(False)
    plot.set_xlim(0, axis.end_s)
    for mark_s in axis.marks_s:
        plot.axvline(mark_s, color=HEX["soft"], linewidth=0.7, linestyle=(0, (1, 2)), zorder=1)
    for began_s, ended_s in axis.no_data_s:
        plot.axvspan(
            began_s,
            ended_s,
            facecolor="none",
            edgecolor=HEX["soft"],
            hatch="////",
            linewidth=0,
            alpha=0.55,
            zorder=0,
        )
    for began_s, ended_s in axis.replayed_s:
        plot.axvspan(began_s, ended_s, facecolor=HEX["latency_ceiling"], alpha=0.13, linewidth=0, zorder=0)
    yield figure, plot
    places, labels = axis.ticks()
    plot.set_xticks(places, labels)
    plot.grid(axis="y", color=HEX["line"], linewidth=0.7)
    plot.set_axisbelow(True)
    plot.tick_params(colors=HEX["soft"], length=3, width=0.7, labelsize=8.5)
    plot.tick_params(axis="y", length=0)
    plot.minorticks_off()
    for side, spine in plot.spines.items():
        spine.set_visible(side == "bottom")
        spine.set_color(HEX["soft"])


def legend(figure: Figure, axis: TimeAxis, lines: Mapping[str, Mapping[str, Any]]) -> None:
    """Draw the legend above the plot, where it covers nothing."""
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    handles: list[Any] = [Line2D([], [], **style) for style in lines.values()]
    words = list(lines)
    if axis.no_data_s:
        handles.append(Patch(facecolor="none", edgecolor=HEX["soft"], hatch="////", linewidth=0, alpha=0.55))
        words.append("no data")
    if axis.replayed_s:
        handles.append(Patch(facecolor=HEX["latency_ceiling"], alpha=0.13, linewidth=0))
        words.append("replays in addition to users' requests")
    legend = figure.legend(
        handles,
        words,
        loc="upper left",
        bbox_to_anchor=(_LEFT_IN / _WIDTH_IN, 1.0),
        ncols=len(words),
        frameon=False,
        borderaxespad=0.2,
        borderpad=0.0,
        handlelength=2.6,
        columnspacing=1.6,
    )
    for label in legend.get_texts():
        label.set_color(HEX["ink"])


def style(name: str, width: float = 1.8) -> dict[str, Any]:
    """Return how the line of this name is drawn."""
    return {"color": HEX.get(name, HEX["ink"]), "linestyle": _STYLES.get(name, "-"), "linewidth": width}


def stairs(
    plot: Axes, points: Sequence[Point], values: Sequence[float | None], style: Mapping[str, Any]
) -> None:
    """Draw each value over the time it was counted in; where nothing is known there is a gap."""
    x: list[float] = []
    y: list[float] = []
    last_s = -math.inf
    for point, value in zip(points, values, strict=True):
        began_s = max(point.began_s, last_s)
        # Windows follow each other within the time it takes to judge one.
        if x and (value is None or began_s - last_s > max(1.0, 0.25 * point.seconds)):
            x.append(last_s)
            y.append(math.nan)
        elif x:
            began_s = last_s
        if value is not None:
            x += [began_s, point.ended_s]
            y += [value, value]
        last_s = point.ended_s
    plot.plot(x, y, **style, solid_capstyle="butt", zorder=3)


def from_zero(plot: Axes, high: float) -> None:
    """Let the axis begin a little below 0, so that a line at 0 is seen."""
    plot.set_ylim(-0.03 * high, high)


def logarithmic(plot: Axes, low: float, high: float, words: Callable[[float], str]) -> None:
    """Make the y axis logarithmic, with ticks at powers of ten and, where these are few, at 2 and 5 too."""
    from matplotlib.ticker import FixedLocator, FuncFormatter

    plot.set_yscale("log")
    plot.set_ylim(low, high)
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    parts = (1, 2, 5) if len(decades) <= 4 else (1,)
    every = max(1, math.ceil(len(decades) / 7))
    ticks = [part * 10.0**decade for decade in decades if decade % every == 0 for part in parts]
    plot.yaxis.set_major_locator(FixedLocator([tick for tick in ticks if low <= tick <= high]))
    plot.yaxis.set_major_formatter(FuncFormatter(lambda value, _: words(value)))
