"""`benchmark.schedule` and `tuning.schedule`: what is refused where it is read, and when a time is due."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest

from slipway_core.errors import SpecError
from slipway_core.spec.release_file import parse_release_spec
from slipway_core.spec.schedules.cron import due_time

FILE = "model: digits\nsource: {format: onnx}\n%s: {schedule: '%s'}\n"
PARTS = ("benchmark", "tuning")
SUNDAY = datetime(2026, 11, 29, 3, 0, tzinfo=UTC)


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("cron", ["0 3 * * 0", "30 */6 * * *", "0 2 1 * *", "0 0 29 2 *", "15 4 * * MON-FRI"])
def test_a_time_that_comes_again_is_taken(part: str, cron: str) -> None:
    """Weekly, each six hours, monthly, on leap days, on workdays by name."""
    spec = parse_release_spec(FILE % (part, cron), "a file")
    assert getattr(spec, part).schedule == cron


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize(
    "cron",
    [
        "0 3 * *",
        "0 3 * * 0 0",
        "61 3 * * *",
        "0 25 * * *",
        "0 3 31 2 *",
        "0 3 * * FUNDAY",
        "@weekly",
        "every sunday",
        "*/10 * * * *",
        "0,30 3 * * *",
        "",
        "0  3 * * 0",
        "0 3 * * 0; rm",
        "0 3 " + "1," * 60 + "1 * *",
    ],
    ids=lambda text: text[:20] or "empty",
)
def test_a_mistyped_time_is_refused_where_it_is_read(part: str, cron: str) -> None:
    """Fields too few or too many, numbers that no clock has, a day that never comes, more than once an hour."""
    with pytest.raises(SpecError, match=rf"{part}.schedule"):
        parse_release_spec(FILE % (part, cron), "a file")


@pytest.mark.parametrize("later", [timedelta(0), timedelta(minutes=9), timedelta(hours=6)], ids=str)
def test_a_time_is_due_from_its_minute_on_for_some_hours(later: timedelta) -> None:
    """The same time each time it is asked, so that it is started once."""
    assert due_time("0 3 * * 0", SUNDAY + later) == SUNDAY


@pytest.mark.parametrize("later", [timedelta(seconds=-1), timedelta(hours=6, seconds=1)], ids=str)
def test_before_it_and_long_after_it_nothing_is_due(later: timedelta) -> None:
    """A schedule that is written today starts nothing of last week."""
    assert due_time("0 3 * * 0", SUNDAY + later) is None


def test_times_are_utc() -> None:
    """Whatever the time zone of the clock that is asked."""
    there = SUNDAY.astimezone(timezone(timedelta(hours=5)))
    assert due_time("0 3 * * 0", there) == SUNDAY
    assert due_time("0 8 * * 0", there) != SUNDAY
