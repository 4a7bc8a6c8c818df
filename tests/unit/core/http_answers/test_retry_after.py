"""The header Retry-After: seconds, a date, or anything at all."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slipway_core.http_answers.retry_after import retry_after_s

NOW = datetime(2026, 11, 26, 10, 0, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("0", 0.0),
        (" 120 ", 120.0),
        ("Thu, 26 Nov 2026 10:00:30 GMT", 30.0),
        ("Thu, 26 Nov 2026 09:00:00 GMT", 0.0),
        ("Thu, 26 Nov 2026 11:00:30 +0100", 30.0),
        ("9" * 20, float("inf")),
        ("-5", None),
        ("1.5", None),
        ("soon", None),
        ("", None),
        ("9" * 5000, None),
        (None, None),
        (7, None),
    ],
    ids=str,
)
def test_what_the_header_says(value: object, seconds: float | None) -> None:
    """Seconds and dates are read, a date that is over means at once, and what is neither says nothing."""
    assert retry_after_s(value, NOW) == seconds


@given(st.text(max_size=70))
def test_any_text_is_a_number_of_seconds_or_none(value: str) -> None:
    """Whatever a server writes there, nothing fails, and nobody is asked before now."""
    seconds = retry_after_s(value, NOW)
    assert seconds is None or seconds >= 0
