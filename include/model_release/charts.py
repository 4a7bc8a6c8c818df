"""The charts of a canary over one axis of time, from a run of its evidence (`canary_evidence.py`).

Colours are told apart by those who see fewer of them, too (Okabe and Ito, "Color universal design", 2008),
and each line has a style of its own.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from include.model_release.canary_evidence import latencies_ms, share_percent
from include.model_release.canary_timeline import LEAST_REQUESTS, Point, TimeAxis, points_of
from include.model_release.judge_words import by_question, duration, number
from include.model_release.samples import Sample
from include.model_release.svg_figure import inline_svg, svg_settings

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
_HEX = {name: colour for colour, name in COLOURS.items()}
_STYLES: dict[str, Any] = {
    "stable": (0, (5, 1.6)),
    "candidate": "-",
    "total": "-",
    "errors": (0, (5, 1.5)),
    "latency": (0, (1.2, 1.4)),
    "error_ceiling": (0, (6, 1.5, 1.2, 1.5)),
    "latency_ceiling": (0, (3, 1.2, 1.2, 1.2, 1.2, 1.2)),
}

# A word above a line, at its left end.
_BESIDE: dict[str, Any] = {"xytext": (4, 3), "textcoords": "offset points"}
_WIDTH_IN, _LEFT_IN, _RIGHT_IN, _BOTTOM_IN, _TOP_IN = 9.6, 0.62, 0.3, 0.45, 0.34


@dataclass(frozen=True)
class Chart:
    """One chart: a heading and a caption in words, and the drawing as an `<svg>` element."""

    name: str
    heading: str
    caption: str
    svg: str


def canary_charts(run: Mapping[str, Any]) -> list[Chart]:
    """Return the charts of one run: weight, and where windows were judged errors, latency, evidence and
    requests; latency only where the source knows it.
    """
    axis = TimeAxis.of(run)
    points, pooled = points_of(run["windows"], axis)
    with svg_settings():
        charts = [_weight_chart(run, axis)]
        if points:
            charts.append(_error_chart(points, axis))
            charts += _latency_chart(points, axis)
        if run["windows"]:
            charts.append(_evidence_chart(run["windows"], axis))
        if points:
            charts.append(_rate_chart(points, axis))
    if not pooled:
        return charts
    note = f" Windows are taken together until a point holds {LEAST_REQUESTS} requests of each."
    return [
        replace(chart, caption=chart.caption + note) if chart.name in ("errors", "latency") else chart
        for chart in charts
    ]


# --- drawing ---


@contextmanager
def _drawing(axis: TimeAxis, height_in: float) -> Iterator[tuple[Figure, Axes]]:
    """Give a figure with one plot; afterwards the axis of time is drawn, with steps and blind stretches."""
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
        plot.axvline(mark_s, color=_HEX["soft"], linewidth=0.7, linestyle=(0, (1, 2)), zorder=1)
    for began_s, ended_s in axis.blind_s:
        plot.axvspan(
            began_s,
            ended_s,
            facecolor="none",
            edgecolor=_HEX["soft"],
            hatch="////",
            linewidth=0,
            alpha=0.55,
            zorder=0,
        )
    for began_s, ended_s in axis.replayed_s:
        plot.axvspan(began_s, ended_s, facecolor=_HEX["latency_ceiling"], alpha=0.13, linewidth=0, zorder=0)
    yield figure, plot
    places, labels = axis.ticks()
    plot.set_xticks(places, labels)
    plot.grid(axis="y", color=_HEX["line"], linewidth=0.7)
    plot.set_axisbelow(True)
    plot.tick_params(colors=_HEX["soft"], length=3, width=0.7, labelsize=8.5)
    plot.tick_params(axis="y", length=0)
    plot.minorticks_off()
    for side, spine in plot.spines.items():
        spine.set_visible(side == "bottom")
        spine.set_color(_HEX["soft"])


def _legend(figure: Figure, axis: TimeAxis, lines: Mapping[str, Mapping[str, Any]]) -> None:
    """Tell the lines apart above the plot, where they cover nothing."""
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    handles: list[Any] = [Line2D([], [], **style) for style in lines.values()]
    words = list(lines)
    if axis.blind_s:
        handles.append(Patch(facecolor="none", edgecolor=_HEX["soft"], hatch="////", linewidth=0, alpha=0.55))
        words.append("blind")
    if axis.replayed_s:
        handles.append(Patch(facecolor=_HEX["latency_ceiling"], alpha=0.13, linewidth=0))
        words.append("replays beside users' requests")
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
        label.set_color(_HEX["ink"])


def _style(name: str, width: float = 1.8) -> dict[str, Any]:
    return {"color": _HEX.get(name, _HEX["ink"]), "linestyle": _STYLES.get(name, "-"), "linewidth": width}


def _stairs(
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


def _finish(figure: Figure, name: str, heading: str, caption: str, told: str) -> Chart:
    svg = inline_svg(figure, f"chart-{name}", heading, f"{told} {caption}", COLOURS)
    return Chart(name, heading, caption, svg)


# --- the charts ---


def _weight_chart(run: Mapping[str, Any], axis: TimeAxis) -> Chart:
    seen = [(max(axis.seconds(each["at"]), 0.0), each["weight"]) for each in run["weights"]]
    times = [at_s for at_s, _ in seen] + [axis.end_s]
    weights = [weight for _, weight in seen] + [seen[-1][1]]
    with _drawing(axis, 1.75) as (figure, plot):
        plot.fill_between(times, weights, step="post", color=_HEX["candidate"], alpha=0.18, linewidth=0)
        plot.plot(times, weights, drawstyle="steps-post", **_style("candidate"))
        _from_zero(plot, 108)
        plot.set_yticks([0, 25, 50, 75, 100], ["0 %", "25 %", "50 %", "75 %", "100 %"])
        for (began_s, weight), ended_s in zip(seen, times[1:], strict=True):
            if 0 < weight < 100 and ended_s - began_s > axis.end_s / 20:
                below = {"va": "top", "xytext": (4, -3)} if weight > 80 else {}
                plot.annotate(f"{weight} %", (began_s, weight), **_BESIDE | below, color=_HEX["ink"])
        for place_s, label in _numbered(run["decisions"], axis):
            plot.annotate(
                label,
                (place_s, 108),
                xytext=(0, 4),
                textcoords="offset points",
                ha="center",
                color=_HEX["ink"],
                fontweight="bold",
                annotation_clip=False,
            )
            plot.plot([place_s], [108], marker="v", color=_HEX["ink"], markersize=4, clip_on=False, zorder=4)
    told = ", then ".join(f"{weight} % at {duration(at_s)}" for at_s, weight in seen)
    return _finish(
        figure,
        "weight",
        "Traffic that the candidate had",
        "Percent of all requests, as it was seen in the traffic. The numbers are those of the decisions below.",
        f"Steps over time: {told}.",
    )


def _numbered(decisions: Sequence[Mapping[str, Any]], axis: TimeAxis) -> list[tuple[float, str]]:
    """Return where the numbers of the decisions stand; those too close together share a place."""
    groups: list[list[tuple[float, int]]] = []
    for place, decision in enumerate(decisions, start=1):
        at_s = max(axis.seconds(decision["at"]), 0.0)
        if at_s > axis.end_s:
            continue
        if groups and at_s - groups[-1][0][0] < axis.end_s / 45:
            groups[-1].append((at_s, place))
        else:
            groups.append([(at_s, place)])
    return [
        (group[0][0], str(group[0][1]) if len(group) == 1 else f"{group[0][1]}–{group[-1][1]}")
        for group in groups
    ]


def _error_chart(points: Sequence[Point], axis: TimeAxis) -> Chart:
    rates = _of_both(points, lambda sample, _: share_percent(sample.errors, sample.requests))
    figure = _two_lines(points, axis, rates, height_in=2.1, least=1.0, words="{:g} %")
    return _finish(
        figure,
        "errors",
        "Errors",
        "Failed requests in percent of the revision's own.",
        f"Two lines over time; {_last_of(rates, ' %')}.",
    )


def _latency_chart(points: Sequence[Point], axis: TimeAxis) -> list[Chart]:
    read = {
        "candidate": [latencies_ms(point.candidate) for point in points],
        "stable": [latencies_ms(point.stable) for point in points],
    }
    lines = {
        f"{name} {quantile}": [each[quantile] for each in read[name]]
        for name in read
        for quantile in ("p50", "p99")
    }
    known = [value for values in lines.values() for value in values if value is not None]
    if not known:
        return []
    styles = {line: _style(line.split()[0], 2.2 if line.endswith("p99") else 1.1) for line in lines}
    with _drawing(axis, 2.5) as (figure, plot):
        for line, values in lines.items():
            _stairs(plot, points, values, styles[line])
        _logarithmic(plot, min(known) / 1.3, max(known) * 1.3, lambda value: f"{number(value)} ms")
        _legend(figure, axis, styles)
    beyond = any(each["beyond"] for values in read.values() for each in values)
    return [
        _finish(
            figure,
            "latency",
            "Latency",
            "Half of the answers were faster than p50 (thin), all but 1 in 100 faster "
            "than p99 (thick); read from a histogram, even between its bounds."
            + (" What lies above its last bound is drawn there." if beyond else ""),
            f"Four lines over time on a logarithmic axis; {_last_of(lines, ' ms')}.",
        )
    ]


def _evidence_chart(windows: Sequence[Mapping[str, Any]], axis: TimeAxis) -> Chart:
    statistics = [window["statistics"] for window in windows]
    threshold = float(statistics[-1]["threshold"])
    # The stake is 1; what each question had of it is not told.
    times = [axis.seconds(windows[0]["began_at"]), *(axis.seconds(window["at"]) for window in windows)]
    lines = {"total": [1.0, *(float(each["total_evidence"]) for each in statistics)]}
    for name, _ in by_question(statistics[-1]):
        lines[name] = [math.nan, *(float(each["evidence"].get(name, math.nan)) for each in statistics)]
    values = [value for each in lines.values() for value in each if value > 0]
    low = min(0.3, max(min(values, default=1.0) / 1.5, threshold * 1e-5))
    high = max(4 * threshold, min(2 * max(values, default=1.0), threshold * 1e7))
    styles = {name: _style(name, 2.2 if name == "total" else 1.4) for name in lines}
    with _drawing(axis, 2.5) as (figure, plot):
        plot.axhline(threshold, color=_HEX["bad"], linewidth=1.3)
        plot.annotate(
            f"fails at {number(threshold)}",
            (0, threshold),
            **_BESIDE,
            color=_HEX["bad"],
            fontweight="bold",
        )
        marker: dict[str, Any] = {"marker": "o", "markersize": 3.0} if len(windows) <= 30 else {}
        for name, each in lines.items():
            inside = [min(max(value, low), high) for value in each]
            plot.plot(times, inside, **styles[name], **marker, zorder=4 if name == "total" else 3)
        _logarithmic(plot, low, high, number)
        _legend(figure, axis, {_question(name): style for name, style in styles.items()})
    clipped = any(value < low or value > high for value in values)
    return _finish(
        figure,
        "evidence",
        "Evidence against the candidate",
        "It begins at 1, and the candidate fails when the total reaches the threshold; each line inside the total is "
        "one question." + (" What lies beyond the axis is drawn at its edge." if clipped else ""),
        f"{len(lines)} lines over time on a logarithmic axis; {_last_of(lines, '')}; "
        f"the threshold is {number(threshold)}.",
    )


def _question(name: str) -> str:
    return "all questions together" if name == "total" else name.replace("_", " ")


def _rate_chart(points: Sequence[Point], axis: TimeAxis) -> Chart:
    rates = _of_both(points, lambda sample, seconds: sample.requests / seconds if seconds else None)
    figure = _two_lines(points, axis, rates, height_in=1.75, least=0.01, words="{:,g}/s")
    return _finish(
        figure,
        "requests",
        "Requests",
        "Requests per second that each revision answered.",
        f"Two lines over time; {_last_of(rates, ' per second')}.",
    )


def _of_both(
    points: Sequence[Point], value: Callable[[Sample, float], float | None]
) -> dict[str, list[float | None]]:
    """Return a value of each revision's sample and its seconds, point by point."""
    return {
        "candidate": [value(point.candidate, point.seconds) for point in points],
        "stable": [value(point.stable, point.seconds) for point in points],
    }


def _two_lines(
    points: Sequence[Point],
    axis: TimeAxis,
    values: Mapping[str, Sequence[float | None]],
    *,
    height_in: float,
    least: float,
    words: str,
) -> Figure:
    """Draw a value of both revisions on an axis from 0 to `least` or more."""
    highest = max((value for each in values.values() for value in each if value is not None), default=0.0)
    with _drawing(axis, height_in) as (figure, plot):
        # Stable's broken line comes last and lies above, so that both are seen where they are one.
        for name, each in values.items():
            _stairs(plot, points, each, _style(name))
        _from_zero(plot, max(least, 1.12 * highest))
        plot.yaxis.set_major_formatter(lambda value, _: words.format(value))
        _legend(figure, axis, {name: _style(name) for name in values})
    return figure


def _from_zero(plot: Axes, high: float) -> None:
    """Let the axis begin a little below 0, so that a line at 0 is seen."""
    plot.set_ylim(-0.03 * high, high)


def _logarithmic(plot: Axes, low: float, high: float, words: Callable[[float], str]) -> None:
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


def _last_of(lines: Mapping[str, Sequence[float | None]], unit: str) -> str:
    """Tell the last known value of each line, for those who cannot see them."""
    last = {
        name: next((value for value in reversed(each) if value is not None), None)
        for name, each in lines.items()
    }
    return "at the end " + ", ".join(
        f"{name} {'unknown' if value is None else number(value) + unit}" for name, value in last.items()
    )
