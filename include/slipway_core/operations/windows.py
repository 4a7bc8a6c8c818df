"""Release windows: whether one is open at a moment, and when the next one opens.

Where the clocks are put forward or back, a local time is left out or there twice. Then a window opens at the later of
both readings and closes at the earlier one: it is never longer than its hours say.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo

from slipway_core.spec.rollout.release_windows import DAYS, ReleaseWindow

# A window that daylight saving time has swallowed opens a week later.
_DAYS_AHEAD = 15


def is_open(windows: Sequence[ReleaseWindow], now: datetime) -> bool:
    """Return whether a window is open; without any window it always is.

    :param now: with a time zone.
    """
    return not windows or any(begins <= now < ends for begins, ends in _spans(windows, now))


def next_opening(windows: Sequence[ReleaseWindow], now: datetime) -> datetime | None:
    """Return when the next window opens after `now`, UTC; None if none does within two weeks."""
    return min((begins for begins, _ in _spans(windows, now) if begins > now), default=None)


def open_times(windows: Sequence[ReleaseWindow], now: datetime) -> list[tuple[datetime, datetime]]:
    """Return beginning and end, UTC, of the times that a window is open, from yesterday to two weeks ahead.

    They are in order, and none overlaps another.
    """
    found: list[tuple[datetime, datetime]] = []
    for begins, ends in sorted(_spans(windows, now)):
        if found and begins <= found[-1][1]:
            found[-1] = (found[-1][0], max(found[-1][1], ends))
        else:
            found.append((begins, ends))
    return found


def _spans(windows: Sequence[ReleaseWindow], now: datetime) -> Iterator[tuple[datetime, datetime]]:
    """Yield beginning and end, UTC, of every time that a window is open from yesterday on."""
    for window in windows:
        zone = ZoneInfo(window.time_zone)
        today = now.astimezone(zone).date()
        for ahead in range(-1, _DAYS_AHEAD):
            day = _shifted(today, ahead)
            if day is None or DAYS[day.weekday()] not in window.days:
                continue
            last = day if window.closes > window.opens else _shifted(day, 1)
            if last is None:
                continue
            begins, ends = max(_moments(day, window.opens, zone)), min(_moments(last, window.closes, zone))
            if begins < ends:
                yield begins, ends


def _shifted(day: date, days: int) -> date | None:
    try:
        return day + timedelta(days=days)
    except OverflowError:
        return None


def _moments(day: date, clock: str, zone: ZoneInfo) -> list[datetime]:
    """Return both readings of a local time, UTC; mostly they are the same."""
    hours, minutes = (int(part) for part in clock.split(":"))
    whole, hours = divmod(hours, 24)
    local = datetime.combine(_shifted(day, whole) or day, time(hours, minutes), tzinfo=zone)
    return [local.replace(fold=fold).astimezone(UTC) for fold in (0, 1)]
