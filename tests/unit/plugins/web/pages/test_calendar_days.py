"""The calendar's days: windows and freezes in the hours of each day, UTC."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from slipway.web.pages.calendar_days import DAYS, calendar_view
from slipway_core.read_model.documents import FreezeLine
from slipway_core.spec.rollout.release_windows import ReleaseWindow

NOW = datetime(2026, 11, 22, 15, 30, tzinfo=UTC)  # a Sunday
OFFICE = ReleaseWindow(days=("mon", "tue"), opens="09:00", closes="16:00", time_zone="Europe/Berlin")
NIGHT = ReleaseWindow(days=("mon",), opens="22:00", closes="02:00")


def freeze(hours: float) -> FreezeLine:
    return FreezeLine(by="ops", at=NOW, until=NOW + timedelta(hours=hours), reason="why")


def test_a_window_stands_in_the_hours_of_utc() -> None:
    """09:00 in Berlin is 08:00 in winter; one over midnight stands in both days."""
    view = calendar_view({"a": [OFFICE], "b": [NIGHT]}, {}, (), NOW)
    assert len(view.days) == DAYS
    first, second = view.rows
    assert [part.label for part in first.cells[1].opened] == ["08:00 to 15:00"]
    assert [part.label for part in second.cells[1].opened] == ["22:00 to 24:00"]
    assert [part.label for part in second.cells[2].opened] == ["00:00 to 02:00"]
    assert first.cells[0].label == "closed"


def test_a_freeze_stands_in_each_day_that_it_touches() -> None:
    """From the hour at which it began to the hour at which it ends."""
    (row,) = calendar_view({"a": []}, {"a": [freeze(20)]}, (), NOW).rows
    assert [part.label for part in row.cells[0].frozen] == ["15:30 to 24:00"]
    assert [part.label for part in row.cells[1].frozen] == ["00:00 to 11:30"]
    assert row.cells[2].frozen == ()
    assert row.cells[1].label == "open 00:00 to 24:00; frozen 00:00 to 11:30"


def test_a_freeze_of_every_model_has_a_line_for_those_without_windows() -> None:
    """A model with windows shows it in its own line."""
    view = calendar_view({"a": [OFFICE], "b": [], "c": []}, {}, [freeze(2)], NOW)
    assert [row.model for row in view.rows] == ["a", ""]
    assert view.never_held == ("b", "c")
    assert all(row.cells[0].frozen for row in view.rows)
