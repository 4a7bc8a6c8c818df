"""The charts of a canary over one axis of time, from a run of its evidence (`document.py`)."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from slipway_core.canary.verdict_text import by_hypothesis, duration
from slipway_core.metrics.samples import Sample
from slipway_core.reports.canary.chart_frame import (
    COLOURS,
    HEX,
    drawing,
    from_zero,
    legend,
    logarithmic,
    stairs,
    style,
)
from slipway_core.reports.canary.document import (
    CanaryRun,
    Decision,
    JudgedWindow,
    Latencies,
    share_percent,
)
from slipway_core.reports.canary.timeline import LEAST_REQUESTS, Point, TimeAxis, extremes, points_of
from slipway_core.reports.svg_figure import inline_svg, svg_settings
from slipway_core.written_numbers import amount, counted, number, tick

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# How many lowest and highest values of a long line are drawn, and how many weights are listed in words.
_PARTS, _MOST_LISTED = 400, 40
# A word above a line, at its left end.
_BESIDE: dict[str, Any] = {"xytext": (4, 3), "textcoords": "offset points"}


@dataclass(frozen=True)
class Chart:
    """One chart: a heading and a caption in words, and the drawing as an `<svg>` element."""

    name: str
    heading: str
    caption: str
    svg: str


def canary_charts(run: CanaryRun) -> list[Chart]:
    """Return the charts of one run: its weight, and where windows were judged, also errors, latency, evidence and
    requests. There is one of latency only where the source knows it.
    """
    axis = TimeAxis.of(run)
    points, pooled = points_of(run.windows, axis)
    with svg_settings():
        charts = [_weight_chart(run, axis)]
        if points:
            charts.append(_error_chart(points, axis))
            charts += _latency_chart(points, axis)
        if run.windows:
            charts.append(_evidence_chart(run.windows, axis))
        if points:
            charts.append(_rate_chart(points, axis))
    return [replace(chart, caption=chart.caption + _left_out(chart.name, axis, pooled)) for chart in charts]


def _left_out(name: str, axis: TimeAxis, pooled: bool) -> str:
    """Say what a drawing does not show of a long canary; the document beside the page has it all."""
    sentences = ""
    if pooled and name in ("errors", "latency"):
        sentences += f" Windows are combined until a point holds {LEAST_REQUESTS} requests of each."
    if axis.joined_s is not None:
        sentences += (
            " There are too many to draw each: changes of the weight, replays and stretches without data that lie "
            f"less than {duration(axis.joined_s)} apart are drawn as one, and a point may reach over them."
        )
    return sentences


# --- the charts ---


def _finish(figure: Figure, name: str, heading: str, caption: str, description: str) -> Chart:
    svg = inline_svg(figure, f"chart-{name}", heading, f"{description} {caption}", COLOURS)
    return Chart(name, heading, caption, svg)


def _weight_chart(run: CanaryRun, axis: TimeAxis) -> Chart:
    every = [(max(axis.seconds(each.at), 0.0), each.weight) for each in run.weights]
    seen = [every[place] for place in extremes([weight for _, weight in every], _PARTS)]
    times = [at_s for at_s, _ in seen] + [axis.end_s]
    weights = [weight for _, weight in seen] + [seen[-1][1]]
    with drawing(axis, 1.75) as (figure, plot):
        plot.fill_between(times, weights, step="post", color=HEX["candidate"], alpha=0.18, linewidth=0)
        plot.plot(times, weights, drawstyle="steps-post", **style("candidate"))
        from_zero(plot, 108)
        plot.set_yticks([0, 25, 50, 75, 100], ["0 %", "25 %", "50 %", "75 %", "100 %"])
        for (began_s, weight), ended_s in zip(seen, times[1:], strict=True):
            if 0 < weight < 100 and ended_s - began_s > axis.end_s / 20:
                below = {"va": "top", "xytext": (4, -3)} if weight > 80 else {}
                plot.annotate(f"{weight} %", (began_s, weight), **_BESIDE | below, color=HEX["ink"])
        for place_s, label in _numbered(run.decisions, axis):
            plot.annotate(
                label,
                (place_s, 108),
                xytext=(0, 4),
                textcoords="offset points",
                ha="center",
                color=HEX["ink"],
                fontweight="bold",
                annotation_clip=False,
            )
            plot.plot([place_s], [108], marker="v", color=HEX["ink"], markersize=4, clip_on=False, zorder=4)
    steps = ", then ".join(f"{weight} % at {duration(at_s)}" for at_s, weight in every[:_MOST_LISTED])
    if len(every) > _MOST_LISTED:
        steps += f", and so on; {len(every)} in all, {every[-1][1]} % at the end"
    return _finish(
        figure,
        "weight",
        "Traffic that the candidate had",
        "Percent of all requests, as it was seen in the traffic. The numbers are those of the decisions below.",
        f"Steps over time: {steps}.",
    )


def _numbered(decisions: Sequence[Decision], axis: TimeAxis) -> list[tuple[float, str]]:
    """Return where the numbers of the decisions stand; those too close together share a place."""
    groups: list[list[tuple[float, int]]] = []
    for place, decision in enumerate(decisions, start=1):
        at_s = max(axis.seconds(decision.at), 0.0)
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
    figure = _two_lines(points, axis, rates, height_in=2.1, least=1.0, words=lambda share: f"{share:g} %")
    return _finish(
        figure,
        "errors",
        "Errors",
        "Failed requests, as a percentage of the revision's requests.",
        f"Two lines over time; {_last_of(rates, ' %')}.",
    )


def _latency_chart(points: Sequence[Point], axis: TimeAxis) -> list[Chart]:
    read = {
        "candidate": [Latencies.of(point.candidate) for point in points],
        "stable": [Latencies.of(point.stable) for point in points],
    }
    lines: dict[str, list[float | None]] = {}
    for name, latencies in read.items():
        lines[f"{name} p50"] = [each.p50 for each in latencies]
        lines[f"{name} p99"] = [each.p99 for each in latencies]
    known = [value for values in lines.values() for value in values if value is not None]
    if not known:
        return []
    styles = {line: style(line.split()[0], 2.2 if line.endswith("p99") else 1.1) for line in lines}
    with drawing(axis, 2.5) as (figure, plot):
        for line, values in lines.items():
            stairs(plot, points, values, styles[line])
        logarithmic(plot, min(known) / 1.3, max(known) * 1.3, lambda value: f"{number(value)} ms")
        legend(figure, axis, styles)
    beyond = any(each.beyond for values in read.values() for each in values)
    return [
        _finish(
            figure,
            "latency",
            "Latency",
            "Half of the answers were faster than p50 (thin), all but 1 in 100 faster "
            "than p99 (thick); read from a histogram, even between its bounds."
            + (" Values above its last bound are drawn there." if beyond else ""),
            f"Four lines over time on a logarithmic axis; {_last_of(lines, ' ms')}.",
        )
    ]


def _evidence_chart(windows: Sequence[JudgedWindow], axis: TimeAxis) -> Chart:
    statistics = [window.statistics for window in windows]
    threshold = float(statistics[-1].threshold)
    # The stake is 1; the share of each hypothesis isn't recorded.
    times = [axis.seconds(windows[0].began_at), *(axis.seconds(window.at) for window in windows)]
    lines = {"total": [1.0, *(float(each.total_evidence) for each in statistics)]}
    for name, _ in by_hypothesis(statistics[-1].evidence):
        lines[name] = [math.nan, *(float(each.evidence.get(name, math.nan)) for each in statistics)]
    values = [value for each in lines.values() for value in each if value > 0]
    low = min(0.3, max(min(values, default=1.0) / 1.5, threshold * 1e-5))
    high = max(4 * threshold, min(2 * max(values, default=1.0), threshold * 1e7))
    styles = {name: style(name, 2.2 if name == "total" else 1.4) for name in lines}
    with drawing(axis, 2.5) as (figure, plot):
        plot.axhline(threshold, color=HEX["bad"], linewidth=1.3)
        plot.annotate(
            f"fails at {number(threshold)}",
            (0, threshold),
            **_BESIDE,
            color=HEX["bad"],
            fontweight="bold",
        )
        marker: dict[str, Any] = {"marker": "o", "markersize": 3.0} if len(windows) <= 30 else {}
        for name, each in lines.items():
            drawn = extremes(each, _PARTS)
            inside = [min(max(each[place], low), high) for place in drawn]
            at_s = [times[place] for place in drawn]
            plot.plot(at_s, inside, **styles[name], **marker, zorder=4 if name == "total" else 3)
        logarithmic(plot, low, high, tick)
        legend(figure, axis, {_question(name): style for name, style in styles.items()})
    clipped = any(value < low or value > high for value in values)
    together = math.ceil(len(times) / _PARTS) if len(times) > 2 * _PARTS else 1
    return _finish(
        figure,
        "evidence",
        "Evidence against the candidate",
        "It begins at 1, and the candidate fails when the total reaches the threshold; each line inside the total is "
        "one question."
        + (" Values beyond the axis are drawn at its edge." if clipped else "")
        + (
            f" Of each {together} windows the lowest and the highest value are drawn." if together > 1 else ""
        ),
        f"{counted(len(lines), 'line')} over time on a logarithmic axis; {_last_of(lines, '')}; "
        f"the threshold is {number(threshold)}.",
    )


def _question(name: str) -> str:
    return "all questions together" if name == "total" else name.replace("_", " ")


def _rate_chart(points: Sequence[Point], axis: TimeAxis) -> Chart:
    rates = _of_both(points, lambda sample, seconds: sample.requests / seconds if seconds else None)
    figure = _two_lines(
        points, axis, rates, height_in=1.75, least=0.01, words=lambda rate: f"{amount(rate)}/s"
    )
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
    words: Callable[[float], str],
) -> Figure:
    """Draw a value of both revisions on an axis from 0 to `least` or more."""
    highest = max((value for each in values.values() for value in each if value is not None), default=0.0)
    with drawing(axis, height_in) as (figure, plot):
        # Stable's broken line comes last and lies above, so that both are seen where they are one.
        for name, each in values.items():
            stairs(plot, points, each, style(name))
        from_zero(plot, max(least, 1.12 * highest))
        plot.yaxis.set_major_formatter(lambda value, _: words(value))
        legend(figure, axis, {name: style(name) for name in values})
    return figure


def _last_of(lines: Mapping[str, Sequence[float | None]], unit: str) -> str:
    """Tell the last known value of each line, for those who cannot see them."""
    last = {
        name: next((value for value in reversed(each) if value is not None), None)
        for name, each in lines.items()
    }
    return "at the end " + ", ".join(
        f"{name} {'unknown' if value is None else number(value) + unit}" for name, value in last.items()
    )
