"""Numbers as people read them."""

from __future__ import annotations

import pytest

from include.model_release.written_numbers import number


@pytest.mark.parametrize(
    ("value", "digits", "told"),
    [
        (0, 3, "0"),
        (0.0477, 3, "0.0477"),
        (0.00004, 3, "4e-05"),
        (14.23, 3, "14.2"),
        (999.7, 3, "1,000"),
        (2004.0, 3, "2,004"),
        (2004.0, 4, "2004"),
        (12345.0, 4, "12,345"),
        (2.13e9, 3, "2.1e+09"),
    ],
)
def test_a_number_is_written_without_an_exponent_where_it_can_be(
    value: float, digits: int, told: str
) -> None:
    """Thousands have separators; only what is very small or very large has an exponent."""
    assert number(value, digits) == told
