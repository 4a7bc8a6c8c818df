"""How sure a figure is: the interval in which the figure of many more rows would lie.

Of shares (each row 0 or 1) it is Wilson's (Wilson 1927), of other means, and of figures that are no mean, it is that of
the bootstrap over rows (Efron 1987, bias-corrected and accelerated; by percentiles where that is not defined). The seed
is fixed: the same answers have the same interval.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slipway_core.gates.interval import Interval

Array = NDArray[Any]

LEAST_VALUES = 8
"""Fewer numbers that are no shares say nothing of many more: rows drawn from so few are the same few again."""
_RESAMPLES = 1000
_SEED = 20_260_101
# The acceleration looks at each row once more for each row.
_LARGEST_ACCELERATED = 1000


def mean_interval(values: Sequence[float | None], confidence: float) -> Interval | None:
    """Return the interval of a mean; None without any number."""
    numbers = np.asarray([value for value in values if value is not None], dtype=np.float64)
    numbers = numbers[np.isfinite(numbers)]
    if not numbers.size:
        return None
    if np.isin(numbers, (0.0, 1.0)).all():
        return share_interval(int(numbers.sum()), numbers.size, confidence)
    return _bootstrap(numbers, np.mean, confidence)


def are_too_few(values: Sequence[float | None]) -> bool:
    """Return whether the figure of so few numbers decides nothing; shares have Wilson's interval, however few."""
    numbers = [value for value in values if value is not None]
    return len(numbers) < LEAST_VALUES and any(value not in (0, 1) for value in numbers)


def share_interval(hits: int, rows: int, confidence: float) -> Interval:
    """Return Wilson's interval of a share."""
    from scipy.stats import binomtest  # half a second, which only the task that validates shall pay

    found = binomtest(hits, rows).proportion_ci(confidence_level=confidence, method="wilson")
    return Interval(float(found.low), float(found.high), "Wilson")


def figure_interval(rows: int, figure: Callable[[Array], float], confidence: float) -> Interval:
    """Return the interval of a figure over the whole set.

    :param figure: the figure of the rows whose numbers it is given, some more than once.
    """
    draws = np.random.default_rng(_SEED).integers(0, rows, size=(_RESAMPLES // 4, rows))
    found = np.asarray([figure(draw) for draw in draws], dtype=np.float64)
    tail = 50 * (1 - confidence)
    low, high = np.percentile(found, (tail, 100 - tail))
    return Interval(float(low), float(high), "bootstrap")


def _bootstrap(numbers: Array, figure: Callable[..., Any], confidence: float) -> Interval:
    from scipy.stats import bootstrap

    if numbers.size < 2 or np.ptp(numbers) == 0:
        return Interval(float(numbers[0]), float(numbers[0]), "all rows alike")
    method = "BCa" if numbers.size <= _LARGEST_ACCELERATED else "percentile"
    with np.errstate(all="ignore"):
        found = bootstrap(
            (numbers,),
            figure,
            confidence_level=confidence,
            n_resamples=_RESAMPLES,
            method=method,
            rng=np.random.default_rng(_SEED),
            batch=100,
        ).confidence_interval
    low, high = float(found.low), float(found.high)
    if np.isfinite(low) and np.isfinite(high):
        return Interval(low, high, "bootstrap")
    return figure_interval(numbers.size, lambda rows: float(numbers[rows].mean()), confidence)
