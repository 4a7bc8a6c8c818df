"""Times, amounts and percents as people read them."""

from __future__ import annotations

from datetime import UTC, datetime

from slipway_core import written_numbers

_UNITS = (("d", 86400), ("h", 3600), ("min", 60), ("s", 1))


def iso(at: datetime) -> str:
    """Return a time as a program reads it: ISO 8601, UTC."""
    return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def utc(at: datetime | None) -> str:
    """Return a time as people write it; a dash for none."""
    return "–" if at is None else at.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S")


def duration(seconds: float | None) -> str:
    """Return a duration in its two largest units: `3 d 4 h`, `45 s`; a dash for none."""
    if seconds is None:
        return "–"
    left = max(0, round(seconds))
    parts: list[str] = []
    for name, size in _UNITS:
        count, left = divmod(left, size)
        if count or (parts and left):
            parts.append(f"{count} {name}")
        if len(parts) == 2:
            break
    return " ".join(part for part in parts if not part.startswith("0 ")) or "0 s"


def ago(at: datetime | None, now: datetime) -> str:
    """Return how long ago something was, in its largest unit: `3 d ago`; a dash for never."""
    if at is None:
        return "–"
    seconds = (now - at).total_seconds()
    return "now" if seconds < 1 else f"{_largest(seconds)} ago"


def age(at: datetime | None, now: datetime) -> str:
    """Return how long something has been so, in its largest unit: `3 d`; a dash for never."""
    return "–" if at is None else _largest(max((now - at).total_seconds(), 0.0))


def in_time(at: datetime | None, now: datetime) -> str:
    """Return in how long something will be: `in 3 min`; `now` once it is due, a dash for never."""
    if at is None:
        return "–"
    seconds = (at - now).total_seconds()
    return "now" if seconds < 1 else f"in {_largest(seconds)}"


def percent(share: float | None) -> str:
    """Return a percent from 0 to 100; a dash for none."""
    return "–" if share is None else f"{share:g} %"


def amount(value: float | int | None) -> str:
    """Return a number with separators for thousands, or with six digits that count; a dash for none."""
    return "–" if value is None else written_numbers.amount(value)


def size(count: int | None) -> str:
    """Return a number of bytes in a unit that people read; a dash for none."""
    if count is None:
        return "–"
    if count < 1024:
        return f"{count} B"
    amount_left = float(count)
    for unit in ("KiB", "MiB", "GiB", "TiB"):
        amount_left /= 1024
        if amount_left < 1024 or unit == "TiB":
            break
    return f"{amount_left:.1f} {unit}"


def _largest(seconds: float) -> str:
    for name, size in _UNITS:
        if seconds >= size:
            return f"{int(seconds // size)} {name}"
    return "0 s"
