"""Numbers as people read them."""

from __future__ import annotations

import math
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slipway_core.written_numbers import amount, counted, number, tick

ROOT = Path(__file__).resolve().parents[3]
# What would write `2.1e+09` for a figure: `{value:.4g}` in Python, `"%.4g"` in a template.
DIGITS_THAT_COUNT = re.compile(r"""\.[0-9*]+g[}"']""")


@pytest.mark.parametrize(
    ("value", "digits", "told"),
    [
        (0, 3, "0"),
        (0.0477, 3, "0.0477"),
        (0.00004, 3, "0.00004"),
        (0.000456, 3, "0.00046"),
        (0.0000004, 3, "4 × 10⁻⁷"),
        (14.23, 3, "14.2"),
        (999.7, 3, "1,000"),
        (2004.0, 3, "2,004"),
        (2004.0, 4, "2,004"),
        (12345.0, 4, "12,345"),
        (1234.5678, 6, "1,234.57"),
        (-1234.5678, 6, "-1,234.57"),
        (999_999.7, 6, "1,000,000"),
        (1_000_000, 3, "1,000,000"),
        (2.13e9, 3, "2,130,000,000"),
        (2.13e15, 3, "2.1 × 10¹⁵"),
        (-1e300, 3, "-10³⁰⁰"),
        (math.inf, 3, "inf"),
        (math.nan, 3, "nan"),
    ],
)
def test_a_number_is_written_without_an_exponent_where_it_can_be(
    value: float, digits: int, told: str
) -> None:
    """Thousands have separators; only what is very small or very large is written with a power of ten."""
    assert number(value, digits) == told


@given(st.floats(), st.integers(min_value=1, max_value=8))
def test_no_number_is_written_as_a_computer_does(value: float, digits: int) -> None:
    """`2.1e+09` is what nobody says; and what is written is the number, to its digits."""
    told = number(value, digits)
    assert not re.search(r"[0-9]e[+-]?[0-9]", told)
    if math.isfinite(value) and "×" not in told and "10" not in told[:3]:
        back = float(told.replace(",", ""))
        least = min(digits, 2) if abs(value) < 0.001 else digits
        assert back == pytest.approx(value, rel=10.0 ** (1 - least), abs=1e-9)


@pytest.mark.parametrize(
    ("value", "told"),
    [
        (0, "0"),
        (1234567, "1,234,567"),
        (10**13, "10,000,000,000,000"),
        (0.9712345, "0.971235"),
        (2.5e6, "2,500,000"),
    ],
)
def test_a_count_is_written_whole(value: float, told: str) -> None:
    """No digit of a count is left out, however large it is."""
    assert amount(value) == told


@pytest.mark.parametrize(
    ("value", "told"),
    [
        (0.0, "0"),
        (0.01, "0.01"),
        (1000.0, "1,000"),
        (10_000.0, "10,000"),
        (1e6, "10⁶"),
        (2e5, "2 × 10⁵"),
        (1e-4, "10⁻⁴"),
    ],
)
def test_a_tick_is_short(value: float, told: str) -> None:
    """Beside an axis there is room for six characters or so."""
    assert tick(value) == told


def test_no_page_command_or_message_has_a_way_of_its_own() -> None:
    """A figure is written by `number`, `amount` or `tick`, which know where an exponent begins."""
    found = [
        f"{path.relative_to(ROOT)}:{line}"
        for folder in ("include/slipway_core", "plugins/slipway", "dags")
        for path in sorted((ROOT / folder).rglob("*"))
        if path.suffix in (".py", ".j2") and path.name != "written_numbers.py"
        for line, text in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1)
        if DIGITS_THAT_COUNT.search(text)
    ]
    assert found == []


@pytest.mark.parametrize(
    ("count", "noun", "plural", "written"),
    [
        (0, "error", "", "0 errors"),
        (1, "error", "", "1 error"),
        (2, "error", "", "2 errors"),
        (1203, "request", "", "1,203 requests"),
        (1, "more file", "", "1 more file"),
        (2, "retry", "retries", "2 retries"),
    ],
)
def test_a_count_has_its_noun_in_the_right_number(count: int, noun: str, plural: str, written: str) -> None:
    assert counted(count, noun, plural) == written
