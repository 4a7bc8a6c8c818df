"""Charts of a canary's windows: values in, the geometry of an SVG out. Colours and texts are the template's."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from slipway.web.release.pooled_errors import LEAST_REQUESTS, Share, pooled_errors
from slipway_core.read_model.live import LiveSample, LiveWindow
from slipway_core.written_numbers import number, tick

WIDE, WIDTH, HEIGHT = 1180, 600, 220
_LEFT, _RIGHT, _TOP, _BOTTOM = 56, 12, 14, 26
_MOST_TICKS = 5
# Evidence below this says nothing; a chart down to the smallest float would hide what matters.
_LEAST_EVIDENCE = 0.01
# An axis of errors that ends below this makes much of one error, and one that follows a wide band hides the lines.
_LEAST_ERRORS, _MOST_OF_A_BAND = 2.0, 10.0

Values = Sequence[float | None]


@dataclass(frozen=True)
class Curve:
    """One line, broken where there is no value.

    :param kind: which of the template's styles it has.
    :param pieces: the points of each unbroken piece, as SVG has them.
    :param last: the place of the newest value.
    """

    kind: str
    label: str
    pieces: tuple[str, ...]
    last: tuple[float, float] | None = None


@dataclass(frozen=True)
class Mark:
    """A place on an axis, or a level across the chart, with its words."""

    at: float
    label: str
    kind: str = ""


@dataclass(frozen=True)
class Chart:
    """A chart; `description` is what it says, in words, for who does not see it."""

    name: str
    title: str
    description: str
    curves: tuple[Curve, ...]
    bands: tuple[Curve, ...] = ()
    levels: tuple[Mark, ...] = ()
    y_ticks: tuple[Mark, ...] = ()
    x_ticks: tuple[Mark, ...] = ()
    steps: tuple[Mark, ...] = ()
    width: int = WIDTH
    height: int = HEIGHT
    left: int = _LEFT
    top: int = _TOP
    bottom: int = HEIGHT - _BOTTOM

    @property
    def right(self) -> int:
        """The right end of the axis."""
        return self.width - _RIGHT


@dataclass(frozen=True)
class _Frame:
    """Where a moment and a value lie. `moments` are those of the values, `begins` and `ends` the ends of the axis."""

    moments: Sequence[datetime]
    begins: datetime
    ends: datetime
    low: float
    high: float
    is_log: bool = False
    width: int = WIDTH

    @property
    def seconds(self) -> float:
        return max((self.ends - self.begins).total_seconds(), 1.0)

    def x(self, at: datetime) -> float:
        share = (at - self.begins).total_seconds() / self.seconds
        return round(_LEFT + share * (self.width - _LEFT - _RIGHT), 1)

    def y(self, value: float) -> float:
        value = min(max(value, self.low), self.high)
        if self.is_log:
            share = math.log(value / self.low) / math.log(self.high / self.low)
        else:
            share = (value - self.low) / (self.high - self.low)
        return round(HEIGHT - _BOTTOM - share * (HEIGHT - _TOP - _BOTTOM), 1)

    def curve(self, kind: str, label: str, values: Values) -> Curve:
        pieces: list[list[tuple[float, float]]] = [[]]
        for at, value in zip(self.moments, values, strict=True):
            if value is None:
                pieces.append([])
            else:
                pieces[-1].append((self.x(at), self.y(value)))
        kept = [piece for piece in pieces if piece]
        return Curve(kind, label, tuple(_points(piece) for piece in kept), kept[-1][-1] if kept else None)

    def band(self, kind: str, lows: Values, highs: Values) -> Curve:
        pieces: list[list[tuple[datetime, float, float]]] = [[]]
        for at, low, high in zip(self.moments, lows, highs, strict=True):
            if low is None or high is None:
                pieces.append([])
            else:
                pieces[-1].append((at, low, high))
        shapes = [
            [(self.x(at), self.y(high)) for at, _, high in piece]
            + [(self.x(at), self.y(low)) for at, low, _ in reversed(piece)]
            for piece in pieces
            if len(piece) > 1
        ]
        return Curve(kind, "", tuple(_points(shape) for shape in shapes))

    def x_ticks(self) -> tuple[Mark, ...]:
        is_one_day = self.begins.astimezone(UTC).date() == self.ends.astimezone(UTC).date()
        shape = "%H:%M:%S" if self.seconds < 600 else "%H:%M" if is_one_day else "%d %b %H:%M"
        return tuple(
            Mark(self.x(at), f"{at.astimezone(UTC):{shape}}{'' if place else ' UTC'}")
            for place, at in enumerate(_spread(self.begins, self.ends, _MOST_TICKS))
        )


def charts_of(windows: Sequence[LiveWindow]) -> tuple[Chart, ...]:
    """Return the charts of a canary: the judge's evidence, the errors, the latency; () before the first window."""
    if not windows:
        return ()
    return (_evidence(windows), _errors(windows), _latency(windows))


def _evidence(windows: Sequence[LiveWindow]) -> Chart:
    newest = windows[-1]
    worse = [window.total_evidence for window in windows]
    no_worse = [window.no_worse for window in windows]
    limits = [limit for limit in (newest.threshold, newest.no_worse_threshold) if limit > 0]
    high = max([10.0, *(limit * 6 for limit in limits), *(min(value, 1e6) for value in worse + no_worse)])
    moments = [window.at for window in windows]
    frame = _Frame(moments, moments[0], moments[-1], _LEAST_EVIDENCE, high, is_log=True, width=WIDE)
    levels = [(newest.threshold, "worse: roll back", "worse")]
    if newest.no_worse_threshold != newest.threshold:
        levels.append((newest.no_worse_threshold, "as good: pass", "no-worse"))
    else:
        levels = [(newest.threshold, "decides", "both")]
    return Chart(
        "evidence",
        "Evidence of the judge",
        f"Evidence that the candidate is worse: {number(newest.total_evidence)} of {number(newest.threshold)}; "
        f"that it is as good: {number(newest.no_worse)} of {number(newest.no_worse_threshold)}.",
        (frame.curve("worse", "worse", worse), frame.curve("no-worse", "no worse", no_worse)),
        levels=tuple(
            Mark(frame.y(at), f"{words} at {number(at)}", kind) for at, words, kind in levels if at > 0
        ),
        y_ticks=tuple(Mark(frame.y(at), tick(at)) for at in _powers(_LEAST_EVIDENCE, high)),
        x_ticks=frame.x_ticks(),
        steps=_steps(frame, windows),
        width=WIDE,
    )


def _errors(windows: Sequence[LiveWindow]) -> Chart:
    points, is_pooled = pooled_errors(windows)
    shares = {
        "stable": [point.stable for point in points],
        "candidate": [point.candidate for point in points],
    }
    seen = [share for each in shares.values() for share in each if share is not None]
    # A band may be wide where there are few requests: it is cut rather than that the lines lie flat.
    widest = min(_usual([share.high for share in seen]), _MOST_OF_A_BAND)
    high = min(100.0, max([_LEAST_ERRORS, widest, *(1.5 * share.percent for share in seen)]))
    frame = _Frame([point.at for point in points], windows[0].at, windows[-1].at, 0.0, high)
    last = {name: _last(each) for name, each in shares.items()}
    return Chart(
        "errors",
        "Errors, % of requests",
        f"Errors most recently: {_word(last['candidate'], '%')} candidate, {_word(last['stable'], '%')} stable."
        + (
            f" Windows are combined until a point has at least {LEAST_REQUESTS} requests."
            if is_pooled
            else ""
        ),
        tuple(
            frame.curve(name, name, [None if share is None else share.percent for share in each])
            for name, each in shares.items()
        ),
        bands=tuple(
            frame.band(
                name,
                [None if share is None else share.low for share in each],
                [None if share is None else share.high for share in each],
            )
            for name, each in shares.items()
        ),
        y_ticks=_linear_ticks(frame),
        x_ticks=frame.x_ticks(),
        steps=_steps(frame, windows),
    )


def _last(shares: Sequence[Share | None]) -> float | None:
    """Return the last point's share in percent; None: it has none."""
    return shares[-1].percent if shares and shares[-1] is not None else None


def _latency(windows: Sequence[LiveWindow]) -> Chart:
    stable, candidate = _both(windows, lambda sample: sample.p99_ms)
    stable_50, candidate_50 = _both(windows, lambda sample: sample.p50_ms)
    seen = [value for value in (*stable, *candidate) if value is not None]
    frame = _linear(windows, max([1.0, *(1.15 * value for value in seen)]))
    return Chart(
        "latency",
        "Latency, ms: p99, and p50 dashed",
        f"p99 in the last window: {_word(candidate[-1], 'ms')} candidate, {_word(stable[-1], 'ms')} stable.",
        (
            frame.curve("stable half", "", stable_50),
            frame.curve("candidate half", "", candidate_50),
            frame.curve("stable", "stable", stable),
            frame.curve("candidate", "candidate", candidate),
        ),
        y_ticks=_linear_ticks(frame),
        x_ticks=frame.x_ticks(),
        steps=_steps(frame, windows),
    )


def _both(
    windows: Iterable[LiveWindow], value: Callable[[LiveSample], float | None]
) -> tuple[list[float | None], list[float | None]]:
    """Return a value of the stable version and of the candidate, window by window."""
    stable, candidate = [], []
    for window in windows:
        stable.append(None if window.stable is None else value(window.stable))
        candidate.append(None if window.candidate is None else value(window.candidate))
    return stable, candidate


def _steps(frame: _Frame, windows: Sequence[LiveWindow]) -> tuple[Mark, ...]:
    """Return where the weight changed."""
    marks = []
    for before, window in itertools.pairwise(windows):
        if window.weight is not None and window.weight != before.weight:
            marks.append(Mark(frame.x(window.at), f"{window.weight} %"))
    return tuple(marks)


def _linear(windows: Sequence[LiveWindow], high: float) -> _Frame:
    moments = [window.at for window in windows]
    return _Frame(moments, moments[0], moments[-1], 0.0, high)


def _linear_ticks(frame: _Frame) -> tuple[Mark, ...]:
    step = _round_step(frame.high / 4)
    count = int(frame.high / step)
    return tuple(Mark(frame.y(place * step), tick(place * step)) for place in range(count + 1))


def _round_step(rough: float) -> float:
    size: float = 10.0 ** math.floor(math.log10(rough))
    return next(size * factor for factor in (1, 2, 5, 10) if size * factor >= rough)


def _powers(low: float, high: float) -> list[float]:
    first, last = round(math.log10(low)), math.floor(math.log10(high))
    every = max(1, math.ceil((last - first) / _MOST_TICKS))
    return [10.0**power for power in range(first, last + 1) if power % every == 0]


def _usual(values: Values) -> float:
    """Return a value that nine of ten do not exceed."""
    seen = sorted(value for value in values if value is not None)
    return seen[int(0.9 * (len(seen) - 1))] if seen else 0.0


def _spread(first: datetime, last: datetime, most: int) -> list[datetime]:
    if first == last:
        return [first]
    return [first + (last - first) * place / (most - 1) for place in range(most)]


def _points(pairs: Iterable[tuple[float, float]]) -> str:
    return " ".join(f"{x:g},{y:g}" for x, y in pairs)


def _word(value: float | None, unit: str) -> str:
    return "no" if value is None else f"{number(value)} {unit}"
