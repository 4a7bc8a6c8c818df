"""Charts of a canary's windows."""

from __future__ import annotations

import itertools
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slipway.web.release.charts import Chart, charts_of
from slipway_core.read_model.live import LiveSample, LiveWindow

START = datetime(2026, 11, 22, 12, tzinfo=UTC)


def _sample(requests: int = 100, errors: int = 1, p99_ms: float | None = 40.0) -> LiveSample:
    share = 100.0 * errors / requests if requests else None
    return LiveSample(
        requests=requests,
        errors=errors,
        error_percent=share,
        error_percent_low=None if share is None else share / 2,
        error_percent_high=None if share is None else share * 2,
        p50_ms=p99_ms,
        p99_ms=p99_ms,
    )


def _window(number: int, **changes: Any) -> LiveWindow:
    given_: dict[str, Any] = {
        "at": START + timedelta(seconds=10 * number),
        "status": "inconclusive",
        "weight": 5,
        "stable": _sample(),
        "candidate": _sample(),
        "total_evidence": 0.5,
        "threshold": 100.0,
        "no_worse": 2.0,
        "no_worse_threshold": 100.0,
    }
    return LiveWindow(**(given_ | changes))


def _chart(windows: list[LiveWindow], name: str) -> Chart:
    return next(one for one in charts_of(windows) if one.name == name)


def _places(chart: Chart) -> list[tuple[float, float]]:
    pieces = [piece for curve in (*chart.curves, *chart.bands) for piece in curve.pieces]
    return [
        (float(x), float(y)) for piece in pieces for x, y in (point.split(",") for point in piece.split())
    ]


def test_before_the_first_window_there_is_no_chart() -> None:
    """Nothing is drawn of nothing."""
    assert charts_of([]) == ()


def test_evidence_stands_against_its_threshold_on_a_log_scale() -> None:
    """Ten times the evidence is the same step upwards everywhere, and the threshold has its line and its words."""
    windows = [_window(number, total_evidence=10.0**number) for number in range(4)]
    chart = _chart(windows, "evidence")
    heights = [float(point.split(",")[1]) for point in chart.curves[0].pieces[0].split()]
    rises = [before - after for before, after in itertools.pairwise(heights)]
    assert rises == pytest.approx([rises[0]] * 3, abs=0.2)
    (level,) = chart.levels
    assert level.label == "decides at 100"
    assert heights[2] == pytest.approx(level.at, abs=0.1)
    assert "1,000 of 100" in chart.description


def test_two_thresholds_have_a_line_each() -> None:
    """Where worse and no worse are decided at other values each says what it means."""
    chart = _chart([_window(0, no_worse_threshold=20.0), _window(1, no_worse_threshold=20.0)], "evidence")
    assert [one.label for one in chart.levels] == ["worse: roll back at 100", "as good: pass at 20"]


def test_a_window_without_data_breaks_the_line() -> None:
    """No data is not drawn as zero, nor as if it were what lies between."""
    windows = [_window(0), _window(1), _window(2, stable=None, candidate=None, no_data=True), _window(3)]
    candidate = next(one for one in _chart(windows, "errors").curves if one.kind == "candidate")
    assert [len(piece.split()) for piece in candidate.pieces] == [2, 1]


def test_a_new_weight_is_marked() -> None:
    """Where the weight changed stands which one began."""
    windows = [_window(0), _window(1), _window(2, weight=20), _window(3, weight=20)]
    for chart in charts_of(windows):
        assert [mark.label for mark in chart.steps] == ["20 %"]


_VALUES = st.floats(0, 1e300)
_SAMPLES = st.none() | st.builds(
    _sample, st.integers(0, 10**9), st.integers(0, 1000), st.none() | st.floats(0, 1e9)
)


@given(
    st.lists(st.tuples(_VALUES, _VALUES, _SAMPLES, _SAMPLES, st.integers(0, 2)), min_size=1, max_size=30),
    _VALUES,
)
def test_nothing_is_drawn_outside_of_the_chart(
    seen: list[tuple[float, float, LiveSample | None, LiveSample | None, int]], threshold: float
) -> None:
    """Whatever the windows hold, every point lies within the chart, and there are few ticks."""
    windows = [
        _window(
            number - number % (1 + repeats),
            total_evidence=worse,
            no_worse=no_worse,
            stable=stable,
            candidate=candidate,
            threshold=threshold,
        )
        for number, (worse, no_worse, stable, candidate, repeats) in enumerate(seen)
    ]
    windows.sort(key=lambda window: window.at)
    for chart in charts_of(windows):
        assert all(
            chart.left <= x <= chart.right and chart.top <= y <= chart.bottom for x, y in _places(chart)
        )
        assert len(chart.y_ticks) < 12
        assert len(chart.x_ticks) < 8
