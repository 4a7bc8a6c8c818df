"""Shares of errors, of windows that are taken together."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from slipway.web.release.charts import charts_of
from slipway.web.release.pooled_errors import LEAST_REQUESTS, PooledErrors, Share, pooled_errors
from slipway_core.read_model.live import LiveSample, LiveWindow

START = datetime(2026, 11, 22, 12, tzinfo=UTC)


def _windows(*samples: tuple[int, int] | None, **changes: Any) -> list[LiveWindow]:
    """Return a window for each (requests, errors) of the candidate; stable has as many requests and no errors."""
    return [
        LiveWindow(
            at=START + timedelta(seconds=10 * place),
            status="inconclusive",
            no_data=sample is None,
            stable=None if sample is None else LiveSample(requests=sample[0], errors=0),
            candidate=None if sample is None else LiveSample(requests=sample[0], errors=sample[1]),
            **({"weight": 5} | changes),
        )
        for place, sample in enumerate(samples)
    ]


def _candidate(point: PooledErrors) -> float | None:
    return None if point.candidate is None else point.candidate.percent


def test_windows_of_few_requests_are_one_point() -> None:
    """One error in a window of four requests is not drawn as 25 %."""
    points, is_pooled = pooled_errors(_windows((4, 1), (6, 0), (5, 0), (5, 0), (40, 0)))
    assert [_candidate(point) for point in points] == [5.0, 0.0]
    assert is_pooled


def test_what_is_left_over_joins_the_point_before() -> None:
    """The last windows of a step, too few requests for a point, make no point of their own."""
    points, _ = pooled_errors(_windows((30, 0), (2, 2)))
    assert [_candidate(point) for point in points] == [100 * 2 / 32]
    assert points[-1].at == START + timedelta(seconds=10)


def test_windows_with_enough_requests_stay_as_they_are() -> None:
    """Where each window has enough requests nothing is taken together."""
    points, is_pooled = pooled_errors(_windows(*[(LEAST_REQUESTS, 1)] * 3))
    assert len(points) == 3
    assert not is_pooled


def test_no_point_reaches_over_a_window_without_data() -> None:
    """No data breaks the line also where windows are taken together."""
    points, _ = pooled_errors(_windows((5, 0), (5, 0), None, (5, 5)))
    assert [_candidate(point) for point in points] == [0.0, None, 100.0]


def test_no_point_reaches_over_a_new_weight_or_another_source() -> None:
    """What was seen at another weight, or asked by a replay, is another point."""
    windows = _windows((5, 0)) + _windows((5, 5), weight=20) + _windows((5, 1), weight=20, source="replay")
    assert [_candidate(point) for point in pooled_errors(windows)[0]] == [0.0, 100.0, 20.0]


@pytest.mark.parametrize(
    ("requests", "errors", "expected"),
    [(20, 0, (0.0, 0.0, 16.11)), (20, 20, (100.0, 83.89, 100.0)), (100, 10, (10.0, 5.52, 17.44))],
    ids=["none", "all", "some"],
)
def test_the_interval_is_wilsons(requests: int, errors: int, expected: tuple[float, float, float]) -> None:
    """The interval has the values of the published formula, and stays between 0 and 100 %."""
    share = Share.of(requests, errors)
    assert share is not None
    assert (share.percent, share.low, share.high) == pytest.approx(expected, abs=0.01)


def test_without_requests_there_is_no_share() -> None:
    """Nobody asked is not 0 % of errors."""
    assert Share.of(0, 0) is None


def test_the_errors_of_a_healthy_canary_at_low_traffic_look_healthy() -> None:
    """With two requests a window and no error the axis ends at 10 % at most, and one error does not fill the chart."""
    healthy, one_error = (
        _windows(*[(2, 0)] * 60),
        _windows(*[(2, 1 if place == 30 else 0) for place in range(60)]),
    )
    for windows in (healthy, one_error):
        chart = next(chart for chart in charts_of(windows) if chart.name == "errors")
        assert float(chart.y_ticks[-1].label) <= 10
    assert "combined until a point has at least 20 requests" in chart.description


def test_the_axis_of_errors_ends_at_100_percent() -> None:
    """A share of requests cannot lie above 100 %, so the axis does not either."""
    chart = next(chart for chart in charts_of(_windows(*[(50, 50)] * 3)) if chart.name == "errors")
    assert float(chart.y_ticks[-1].label) == 100
