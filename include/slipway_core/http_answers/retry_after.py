"""When a server that has no time asks to be asked again (RFC 9110, section 10.2.3)."""

from __future__ import annotations

from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

HEADER = "Retry-After"
STATUSES = frozenset({429, 503})
"""Answers whose server has not begun what it was asked for."""
_TEXT_LIMIT = 64
_DIGITS_LIMIT = 9


def retry_after_s(value: object, now: datetime) -> float | None:
    """Return the seconds until the server wants to be asked again, 0 or more; None: the header does not say.

    :param value: the header's value: seconds, or a date of HTTP. Whatever else stands there says nothing.
    :param now: the present time, UTC.
    """
    if not isinstance(value, str) or len(value) > _TEXT_LIMIT:
        return None
    text = value.strip()
    if text.isascii() and text.isdigit():
        return float(text) if len(text) <= _DIGITS_LIMIT else float("inf")
    try:
        until = parsedate_to_datetime(text)
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
    if until.tzinfo is None:
        until = until.replace(tzinfo=UTC)
    try:
        return max((until - now).total_seconds(), 0.0)
    except OverflowError:
        return None
