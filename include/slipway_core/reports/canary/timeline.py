"""The axis of time that the charts of a canary share, and the windows as points on it."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from slipway_core.canary.latency import add_histograms
from slipway_core.canary.verdict_text import duration
from slipway_core.metrics.samples import Sample
from slipway_core.reports.canary.document import CanaryRun, JudgedWindow

# A point with fewer requests of a revision than this says nothing of a rate; more points than this no eye tells apart.
LEAST_REQUESTS, _MOST_POINTS = 20, 160
# Of a canary without data again and again, or of many steps: where one more would be thinner than a line.
_MOST_STRETCHES = 300
_MINUTE_S, _HOUR_S, _DAY_S = 60, 3600, 86400
_TICK_STEPS_S = [
    *(1, 2, 5, 10, 15, 30),
    *(_MINUTE_S * minutes for minutes in (1, 2, 5, 10, 15, 30)),
    *(_HOUR_S * hours for hours in (1, 2, 3, 6, 12)),
    *(_DAY_S * days for days in range(1, 366)),
]


@dataclass(frozen=True)
class Point:
    """One or more windows taken together, in seconds since the run began."""

    began_s: float
    ended_s: float
    seconds: float
    stable: Sample
    candidate: Sample

    @property
    def fewest(self) -> int:
        """Return the requests of the revision that had fewer."""
        return min(self.stable.requests, self.candidate.requests)


@dataclass(frozen=True)
class TimeAxis:
    """The shared axis: seconds since `began`, with the times of weights, and the stretches that had no data
    (`no_data_s`) or golden requests replayed. Where there are very many, those less than `joined_s` apart are one.
    """

    began: datetime
    end_s: float
    marks_s: tuple[float, ...]
    no_data_s: tuple[tuple[float, float], ...]
    replayed_s: tuple[tuple[float, float], ...] = ()
    joined_s: float | None = None

    @classmethod
    def of(cls, run: CanaryRun) -> TimeAxis:
        """Return the axis that all charts of `run` share; it ends with the last window or change of weight."""
        began = run.began_at

        def at_s(at: datetime) -> float:
            return (at - began).total_seconds()

        marks = [at_s(weight.at) for weight in run.weights[1:]]
        ends = [*marks, *(at_s(window.at) for window in run.windows)]
        stretches = [(at_s(window.began_at), at_s(window.at), window) for window in run.windows]
        no_data = _joined([(start, end) for start, end, window in stretches if window.no_data])
        replayed = _joined([(start, end) for start, end, window in stretches if window.source == "replay"])
        end_s = max(1.0, 1.03 * max(ends, default=1.0))
        if max(len(marks), len(no_data), len(replayed)) <= _MOST_STRETCHES:
            return cls(began, end_s, tuple(marks), no_data, replayed)
        least_s = end_s / _MOST_STRETCHES
        thinned = tuple(at for at, _ in _joined([(mark, mark) for mark in marks], least_s))
        return cls(began, end_s, thinned, _joined(no_data, least_s), _joined(replayed, least_s), least_s)

    def seconds(self, at: datetime) -> float:
        """Return when `at` was, in seconds since the run began."""
        return (at - self.began).total_seconds()

    def ticks(self) -> tuple[list[float], list[str]]:
        """Return at most nine ticks with the time since the beginning, and UTC below."""
        step = next((step for step in _TICK_STEPS_S if self.end_s / step <= 8), _TICK_STEPS_S[-1])
        places = [float(place) for place in range(0, math.floor(self.end_s) + 1, step)]
        shape = "%H:%M:%S" if step < _HOUR_S else "%H:%M" if step < _DAY_S else "%d %b"
        labels = [
            f"{duration(place)}\n{(self.began + timedelta(seconds=place)).strftime(shape)}"
            for place in places
        ]
        return places, [f"{labels[0]} UTC", *labels[1:]]


def _joined(
    stretches: Sequence[tuple[float, float]], least_s: float = 0.001
) -> tuple[tuple[float, float], ...]:
    """Join windows that follow each other in less than `least_s`; what lies before the run began is cut off."""
    joined: list[tuple[float, float]] = []
    for began, ended in sorted((max(began, 0.0), max(ended, 0.0)) for began, ended in stretches):
        if joined and began <= joined[-1][1] + least_s:
            joined[-1] = (joined[-1][0], max(joined[-1][1], ended))
        else:
            joined.append((began, ended))
    return tuple(joined)


def extremes(values: Sequence[float], parts: int) -> list[int]:
    """Return which values of a long line to draw: the lowest and the highest of each of so many equal parts, and both
    ends. Up to twice as many values are all drawn.
    """
    if len(values) <= 2 * parts:
        return [*range(len(values))]
    size = math.ceil(len(values) / parts)
    kept = {0, len(values) - 1}
    for first in range(0, len(values), size):
        known = [
            place for place in range(first, min(first + size, len(values))) if values[place] == values[place]
        ]
        if known:
            kept |= {min(known, key=values.__getitem__), max(known, key=values.__getitem__)}
    return sorted(kept)


def points_of(windows: Sequence[JudgedWindow], axis: TimeAxis) -> tuple[list[Point], bool]:
    """Return what to draw, and whether windows were taken together for it.

    A point never reaches over the end of a step or a window without data, unless there are so many that it has to.
    Only users' windows are drawn: what was replayed would look like their traffic.
    """
    windows = [window for window in windows if window.source == "users"]
    together = math.ceil(len(windows) / _MOST_POINTS)
    seen = [(window, _point(window, axis)) for window in windows if not window.no_data]
    no_data_before = itertools.accumulate(window.no_data for window in windows)
    stretch_of = [
        before for before, window in zip(no_data_before, windows, strict=True) if not window.no_data
    ]
    apart: list[Callable[[int], object]] = [
        lambda place: (seen[place][0].step, stretch_of[place]),
        lambda place: seen[place][0].step,
        lambda place: None,
    ]
    points: list[Point] = []
    for stretch in apart:
        points = []
        for _, places in itertools.groupby(range(len(seen)), key=stretch):
            points += _together([seen[place][1] for place in places], together)
        if len(points) <= 2 * _MOST_STRETCHES:
            break
    return points, len(points) < len(seen)


def _together(stretch: Sequence[Point], windows: int) -> list[Point]:
    """Take at least so many `windows` together, and as many as it takes to have enough requests."""
    points: list[Point] = []
    count = 0
    for point in stretch:
        if points and (count < windows or points[-1].fewest < LEAST_REQUESTS):
            points[-1], count = _sum(points[-1], point), count + 1
        else:
            points.append(point)
            count = 1
    if len(points) > 1 and points[-1].fewest < LEAST_REQUESTS:
        last = points.pop()
        points[-1] = _sum(points[-1], last)
    return points


def _point(window: JudgedWindow, axis: TimeAxis) -> Point:
    content = window.window
    if content is None:
        raise ValueError(f"window {window.number} was seen and holds nothing")
    return Point(
        began_s=max(axis.seconds(window.began_at), 0.0),
        ended_s=axis.seconds(window.at),
        seconds=content.seconds,
        stable=content.stable,
        candidate=content.candidate,
    )


def _sum(one: Point, other: Point) -> Point:
    def add(revision: str) -> Sample:
        first, second = getattr(one, revision), getattr(other, revision)
        return Sample(
            first.requests + second.requests,
            first.errors + second.errors,
            add_histograms(first.latency_buckets, second.latency_buckets),
        )

    return Point(one.began_s, other.ended_s, one.seconds + other.seconds, add("stable"), add("candidate"))
