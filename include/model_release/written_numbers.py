"""Numbers as people read them: evidence, percents, latencies."""

from __future__ import annotations

_SMALLEST, _LARGEST = 0.001, 1e6


def number(value: float, digits: int = 3) -> str:
    """Write a number with some digits that count: `0.812`, `14.2`, `1,350`, `2.1e+09`.

    :param digits: how many of a number that is neither very small nor very large.
    """
    if value == 0 or _SMALLEST <= abs(value) < 10**digits - 0.5:
        return f"{value:.{digits}g}"
    return f"{value:,.0f}" if 1 <= abs(value) < _LARGEST else f"{value:.2g}"
