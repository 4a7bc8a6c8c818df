"""What a scorer returned: checked, and with an interval for each figure that is no mean over the rows."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from typing import Any

from slipway_rules.scoring import FIGURE_NAME, NAMES_LIMIT

RESAMPLES = 250
# With fewer an interval says nothing.
LEAST_RESAMPLES = 50
SEED = 20_260_101
Figures = Callable[[Mapping[str, Any]], Mapping[str, Any]]


def checked_scores(found: Any, rows: int) -> dict[str, Any]:
    """Return a scorer's scores as float64, a finite one for each row by name; NaN: this row has none.

    :raises ValueError: they are something else; it says what.
    """
    import numpy as np

    if not isinstance(found, Mapping) or not 1 <= len(found) <= NAMES_LIMIT:
        raise ValueError(f"score() must return a mapping of 1 to {NAMES_LIMIT} arrays")
    scores = {}
    for name, values in found.items():
        column = np.asarray(values)
        if not isinstance(name, str) or not FIGURE_NAME.fullmatch(name):
            raise ValueError(f"score() must name its arrays in letters, digits and _, not {str(name)[:80]!r}")
        if column.shape != (rows,) or column.dtype.kind not in "biuf":
            raise ValueError(
                f"score() must return a number for each of {rows} rows as {name!r}, "
                f"not {column.dtype} of shape {list(column.shape)}"
            )
        column = column.astype(np.float64)
        if np.isinf(column).any():  # the worst that there is: it must not be left out of the mean
            raise ValueError(
                f"score() must return finite numbers as {name!r}, or NaN for a row that has none, "
                f"not {column[np.isinf(column)][0]} for row {int(np.isinf(column).argmax())}"
            )
        scores[name] = column
    return scores


def figures_of(
    scores: Mapping[str, Any], figures: Figures | None, confidence: float, limit_s: float
) -> dict[str, dict[str, Any]]:
    """Return by name each figure that is no mean, with its interval by the bootstrap over rows.

    :param figures: the scorer's own function; None: it has none.
    :param limit_s: how long the resampling may take; an interval of too few samples is left out.
    :raises ValueError: they are no figures; it says what.
    """
    if figures is None:
        return {}
    import numpy as np

    found = _checked_figures(figures(scores), scores)
    rows = len(next(iter(scores.values())))
    draws = np.random.default_rng(SEED).integers(0, rows, size=(RESAMPLES, rows))
    samples: dict[str, list[float]] = {name: [] for name in found}
    ends_at = time.monotonic() + limit_s
    for draw in draws:
        if time.monotonic() > ends_at:
            break
        again = _checked_figures(figures({name: values[draw] for name, values in scores.items()}), scores)
        for name in found:
            value = again.get(name)
            if value is not None:
                samples[name].append(value)
    tail = 50 * (1 - confidence)
    intervals: dict[str, dict[str, Any]] = {}
    for name, value in found.items():
        known = samples[name]
        low, high = (
            np.percentile(known, (tail, 100 - tail)) if len(known) >= LEAST_RESAMPLES else (None, None)
        )
        intervals[name] = {
            "value": value,
            "low": None if low is None else float(low),
            "high": None if high is None else float(high),
            "samples": len(known),
        }
    return intervals


def _checked_figures(found: Any, scores: Mapping[str, Any]) -> dict[str, float | None]:
    """Return figures as numbers, None for what is not finite."""
    if not isinstance(found, Mapping) or len(found) > NAMES_LIMIT:
        raise ValueError(f"figures() must return a mapping of at most {NAMES_LIMIT} numbers")
    figures: dict[str, float | None] = {}
    for name, value in found.items():
        if not isinstance(name, str) or not FIGURE_NAME.fullmatch(name) or name in scores:
            raise ValueError(
                f"figures() must name its numbers in letters, digits and _, and as no score is: {str(name)[:80]!r}"
            )
        number = float(value)
        figures[name] = number if math.isfinite(number) else None
    return figures
