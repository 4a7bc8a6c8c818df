"""The Pareto picture of a tuning: each trial a point, those joined that no other beats."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from slipway_core.reports.svg_figure import begin_at_zero, inline_svg, svg_settings
from slipway_core.written_numbers import number

# What matplotlib draws with, and the page's CSS variable that takes its place.
_COLOURS = {
    "#1c2430": "ink",
    "#5b6675": "soft",
    "#d9dee5": "line",
    "#0072b2": "front",
    "#d55e00": "defaults",
}
_HEX = {name: colour for colour, name in _COLOURS.items()}
_SIZE_IN = (9.6, 4.2)


def pareto_svg(picture: Mapping[str, Any]) -> str:
    """Return the picture as an `<svg>` element; "" if nothing was measured.

    :param picture: of `tuning.report.picture`.
    """
    points = picture["points"]
    if not points:
        return ""
    from matplotlib.figure import Figure

    with svg_settings():
        figure = Figure(figsize=_SIZE_IN)
        plot = figure.add_axes((0.08, 0.13, 0.89, 0.83))
        plot.patch.set_visible(False)
        by_trial = {one["trial"]: one for one in points}
        front = [by_trial[number] for number in picture["front"]]
        plot.plot(
            [one["x"] for one in front],
            [one["y"] for one in front],
            color=_HEX["front"],
            linewidth=1.4,
            drawstyle="steps-post",
            zorder=2,
        )
        for one in points:
            _draw(plot, one, on_front=one["trial"] in picture["front"])
        _axes(plot, picture)
        described = "; ".join(
            f"trial {one['trial']}: {number(one['x'], 4)}, {number(one['y'], 4)} ms" for one in points
        )
        title = f"{picture['y']} against {picture['x']}"
        return inline_svg(figure, "pareto", title, f"{title}. {described}.", _COLOURS)


def _draw(plot: Any, point: Mapping[str, Any], *, on_front: bool) -> None:
    is_default = point["kind"] in ("defaults", "defaults_again")
    colour = _HEX["defaults"] if is_default else _HEX["front"] if on_front else _HEX["soft"]
    # Filled: it was measured to its end and keeps the service level.
    face = colour if point["keeps"] or point["kind"] == "defaults_again" else "none"
    marker = "s" if is_default else "o" if point["state"] == "complete" else "x"
    plot.scatter(
        [point["x"]],
        [point["y"]],
        s=34,
        marker=marker,
        linewidth=1.2,
        zorder=3,
        **({"color": colour} if marker == "x" else {"facecolor": face, "edgecolor": colour}),
    )
    plot.annotate(
        str(point["trial"]),
        (point["x"], point["y"]),
        textcoords="offset points",
        xytext=(5, 4),
        color=_HEX["ink"],
        fontsize=8,
    )


def _axes(plot: Any, picture: Mapping[str, Any]) -> None:
    from matplotlib.ticker import MaxNLocator, StrMethodFormatter

    lowest, highest = (find(one["y"] for one in picture["points"]) for find in (min, max))
    if lowest > 0 and highest > 8 * lowest:
        plot.set_yscale("log")
        plot.yaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
    else:
        begin_at_zero(plot)
    if picture["x"] == "instances":
        plot.xaxis.set_major_locator(MaxNLocator(integer=True))
        plot.margins(x=0.15)
    plot.set_xlabel(picture["x"], color=_HEX["soft"])
    plot.set_ylabel(picture["y"], color=_HEX["soft"])
    plot.grid(color=_HEX["line"], linewidth=0.7)
    plot.set_axisbelow(True)
    plot.tick_params(which="both", colors=_HEX["soft"], length=3, width=0.7, labelsize=8.5)
    for side, spine in plot.spines.items():
        spine.set_visible(side in ("bottom", "left"))
        spine.set_color(_HEX["soft"])
