"""Numbers as people read them, on every page, in every command and message: evidence, percents, latencies."""

from __future__ import annotations

import math

_SMALLEST, _LARGEST = 1e-6, 1e12
_SMALL, _SMALL_DIGITS = 0.001, 2
_WIDEST_TICK = 1e5
_SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def number(value: float, digits: int = 3) -> str:
    """Write a number with some digits that count: `0.812`, `14.2`, `1,350`, `2,130,000,000`, `2.1 × 10¹⁵`.

    :param digits: how many; a whole number keeps all of those before its point, a very small one has two.
    """
    size = abs(value)
    if value == 0 or not math.isfinite(value):
        return f"{value:g}"
    if not _SMALLEST <= size < _LARGEST:
        return _power_of_ten(value)
    if size < _SMALL:
        places = min(digits, _SMALL_DIGITS) - 1 - math.floor(math.log10(size))
        return f"{value:.{places}f}".rstrip("0")
    return f"{value:,.{digits}g}" if size < 10**digits - 0.5 else f"{value:,.0f}"


def amount(value: float) -> str:
    """Write a number exactly where it is whole, or with six digits that count: `1,234,567`, `0.971234`."""
    return f"{value:,}" if isinstance(value, int) else number(value, 6)


def counted(count: int, noun: str, plural: str = "") -> str:
    """Write how many there are of something: `1 error`, `1,203 requests`, `2 retries`.

    :param noun: the singular.
    :param plural: the plural, where it is not the noun with an `s`.
    """
    return f"{count:,} {noun if count == 1 else plural or f'{noun}s'}"


def tick(value: float) -> str:
    """Write a number that stands beside an axis, where there is little room: `0.01`, `10,000`, `10⁶`."""
    return number(value) if value == 0 or _SMALL <= abs(value) < _WIDEST_TICK else _power_of_ten(value)


def _power_of_ten(value: float) -> str:
    mantissa, _, exponent = f"{value:.1e}".partition("e")
    power = f"10{str(int(exponent)).translate(_SUPERSCRIPTS)}"
    shown = mantissa.removesuffix(".0")
    return {"1": power, "-1": f"-{power}"}.get(shown, f"{shown} × {power}")
