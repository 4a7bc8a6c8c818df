"""Release windows: days, hours, time zones, midnight and the changes of daylight saving time."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from slipway_core.operations.windows import is_open, next_opening
from slipway_core.spec.rollout.release_windows import DAYS, ReleaseWindow

BERLIN = ZoneInfo("Europe/Berlin")
ZONES = ["UTC", "Europe/Berlin", "America/New_York", "Asia/Kathmandu", "Australia/Lord_Howe", "Pacific/Apia"]


def window(days: str, opens: str, closes: str, zone: str = "Europe/Berlin") -> ReleaseWindow:
    """Return a window of the days that the text names."""
    return ReleaseWindow.model_validate_json(
        f'{{"days": {days.split()!r}, "opens": "{opens}", "closes": "{closes}", "time_zone": "{zone}"}}'.replace(
            "'", '"'
        )
    )


def berlin(text: str) -> datetime:
    """Return a local time of Berlin."""
    return datetime.fromisoformat(text).replace(tzinfo=BERLIN)


OFFICE = window("mon tue wed thu", "09:00", "16:00")
NIGHT = window("fri", "22:00", "04:00")

# 2026-11-23 is a Monday.
MOMENTS = [
    (OFFICE, "2026-11-23T08:59:59", False),
    (OFFICE, "2026-11-23T09:00:00", True),
    (OFFICE, "2026-11-23T15:59:59", True),
    (OFFICE, "2026-11-23T16:00:00", False),
    (OFFICE, "2026-11-27T10:00:00", False),
    (NIGHT, "2026-11-27T21:59:59", False),
    (NIGHT, "2026-11-27T22:00:00", True),
    (NIGHT, "2026-11-28T03:59:59", True),
    (NIGHT, "2026-11-28T04:00:00", False),
    (NIGHT, "2026-11-27T03:00:00", False),
    (window("sun", "00:00", "24:00"), "2026-11-29T23:59:59", True),
    (window("sun", "00:00", "24:00"), "2026-11-30T00:00:00", False),
]


@pytest.mark.parametrize(("one", "moment", "expected"), MOMENTS, ids=str)
def test_it_is_open_on_its_days_in_its_hours(one: ReleaseWindow, moment: str, expected: bool) -> None:
    """By the clock of its time zone; over midnight it belongs to the day on which it opens."""
    assert is_open([one], berlin(moment)) is expected
    assert is_open([one], berlin(moment).astimezone(UTC)) is expected


def test_without_windows_it_is_always_open() -> None:
    """A release file that names none asks for none."""
    assert is_open([], berlin("2026-11-23T03:00:00"))


def test_summer_and_winter_are_the_same_hours() -> None:
    """Nine o'clock is another moment of UTC in summer."""
    winter, summer = berlin("2026-01-12T09:00:00"), berlin("2026-07-13T09:00:00")
    assert (winter.astimezone(UTC).hour, summer.astimezone(UTC).hour) == (8, 7)
    for moment in (winter, summer):
        assert is_open([OFFICE], moment)
        assert not is_open([OFFICE], moment - timedelta(seconds=1))


def test_an_hour_that_is_left_out() -> None:
    """On 2026-03-29 there is no 02:30 in Berlin: a window within the gap is not open, and opens a week later."""
    gap = window("sun", "02:10", "02:50")
    night = datetime(2026, 3, 29, 0, 0, tzinfo=UTC)
    assert not any(is_open([gap], night + timedelta(minutes=minute)) for minute in range(180))
    opens = next_opening([gap], night)
    assert opens is not None
    assert opens.astimezone(BERLIN) == berlin("2026-04-05T02:10:00")


def test_an_hour_that_is_there_twice() -> None:
    """On 2026-10-25 Berlin has 02:30 twice: a window opens at the later and closes at the earlier of both."""
    opens_then = window("sun", "02:30", "06:00")
    assert not is_open([opens_then], datetime(2026, 10, 25, 0, 30, tzinfo=UTC))
    assert is_open([opens_then], datetime(2026, 10, 25, 1, 30, tzinfo=UTC))
    closes_then = window("sun", "01:00", "02:30")
    assert is_open([closes_then], datetime(2026, 10, 25, 0, 29, tzinfo=UTC))
    assert not is_open([closes_then], datetime(2026, 10, 25, 0, 30, tzinfo=UTC))
    assert not is_open([closes_then], datetime(2026, 10, 25, 1, 0, tzinfo=UTC))


CLOCKS = st.builds("{:02}:{:02}".format, st.integers(0, 23), st.integers(0, 59))
WINDOWS = st.builds(
    lambda days, opens, closes, zone: window(" ".join(days), opens, closes, zone),
    st.lists(st.sampled_from(DAYS), min_size=1, unique=True),
    CLOCKS,
    st.just("24:00"),
    st.sampled_from(ZONES),
) | st.builds(
    lambda days, clocks, zone: window(" ".join(days), clocks[0], clocks[1], zone),
    st.lists(st.sampled_from(DAYS), min_size=1, unique=True),
    st.tuples(CLOCKS, CLOCKS).filter(lambda both: both[0] != both[1]),
    st.sampled_from(ZONES),
)
NOW = st.timedeltas(timedelta(), timedelta(days=3650)).map(
    lambda since: datetime(2024, 1, 1, tzinfo=UTC) + since
)


@given(st.lists(WINDOWS, min_size=1, max_size=3), NOW)
def test_it_opens_when_it_says(windows: list[ReleaseWindow], now: datetime) -> None:
    """At the next opening a window is open, and a closed one is closed until then, in every time zone and season."""
    opens = next_opening(windows, now)
    assert opens is not None
    assert now < opens <= now + timedelta(days=15)
    assert is_open(windows, opens)
    if not is_open(windows, now):
        for share in (0.0, 0.25, 0.5, 0.75, 0.999):
            assert not is_open(windows, now + (opens - now) * share)


@given(WINDOWS, NOW)
def test_it_is_never_open_outside_of_its_hours(one: ReleaseWindow, now: datetime) -> None:
    """What the wall clock says of an open moment is within the hours, on a day that is named."""
    if not is_open([one], now):
        return
    local = now.astimezone(ZoneInfo(one.time_zone))
    clock = f"{local:%H:%M}"
    over_midnight = one.closes <= one.opens
    if over_midnight and clock < one.closes:
        local -= timedelta(days=1)
    else:
        assert one.opens <= clock
        assert over_midnight or clock < one.closes
    assert DAYS[local.weekday()] in one.days


REFUSED = {
    "no day": ('{"days": [], "opens": "09:00", "closes": "10:00"}', "at least 1"),
    "a day twice": ('{"days": ["mon", "mon"], "opens": "09:00", "closes": "10:00"}', "twice"),
    "another day": ('{"days": ["monday"], "opens": "09:00", "closes": "10:00"}', "'mon'"),
    "a moment": ('{"days": ["mon"], "opens": "09:00", "closes": "09:00"}', "is empty"),
    "no time": ('{"days": ["mon"], "opens": "9", "closes": "10:00"}', "hours and minutes"),
    "a number of YAML": ('{"days": ["mon"], "opens": "09:00", "closes": 960}', "with quotes"),
    "opens at the end": ('{"days": ["mon"], "opens": "24:00", "closes": "10:00"}', "23:59"),
    "no zone": (
        '{"days": ["mon"], "opens": "09:00", "closes": "10:00", "time_zone": "Europe/Berln"}',
        "Berlin",
    ),
    "a path": (
        '{"days": ["mon"], "opens": "09:00", "closes": "10:00", "time_zone": "../../etc/passwd"}',
        "IANA",
    ),
    "a folder": ('{"days": ["mon"], "opens": "09:00", "closes": "10:00", "time_zone": "Europe"}', "IANA"),
    "a huge zone": (
        '{"days": ["mon"], "opens": "09:00", "closes": "10:00", "time_zone": "' + "A" * 100_000 + '"}',
        "IANA",
    ),
}


@pytest.mark.parametrize(("content", "told"), REFUSED.values(), ids=REFUSED)
def test_what_is_no_window_is_refused(content: str, told: str) -> None:
    """With what it should be."""
    with pytest.raises(ValidationError, match=told):
        ReleaseWindow.model_validate_json(content)
