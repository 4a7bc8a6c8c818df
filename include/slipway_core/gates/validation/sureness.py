"""What the golden set decides: each expectation with its figure's interval, and what stays undecided."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from slipway_core.gates.interval import Interval
from slipway_core.gates.validation.intervals import LEAST_VALUES, are_too_few, mean_interval
from slipway_core.gates.validation.scores import MEAN, ValidationScores
from slipway_core.written_numbers import number as written

# The least that a figure of that name can be: a limit there asks for nothing.
_LEAST_POSSIBLE = 0.0
_ROUNDING = 1e-9


@dataclass(frozen=True)
class Sureness:
    """The expectations, each of a mean with `interval`, `method` and `decision`; and in words what is undecided."""

    expectations: tuple[dict[str, Any], ...]
    undecided: tuple[str, ...]


def sureness_of(numbers: ValidationScores, results: Sequence[Mapping[str, Any]]) -> Sureness:
    """Hold each figure's interval against its limit."""
    known = numbers.intervals()
    expectations: list[dict[str, Any]] = []
    undecided: list[str] = []
    decided = 0
    for result in results:
        if result.get("type") != MEAN:
            expectations.append(dict(result))
            continue
        kwargs = result["kwargs"]
        column, least, most = str(kwargs["column"]), kwargs.get("min_value"), kwargs.get("max_value")
        values = [value for value in numbers.columns.get(column, ()) if value is not None]
        interval = known.get(column)
        is_unknown = are_too_few(values)
        if column in known:
            is_unknown = interval is None or numbers.rows < LEAST_VALUES
        if interval is None and not is_unknown:
            interval = mean_interval(values, numbers.validation.confidence)
        if least is not None and most == 1.0 and _is_share(values, interval):
            # It can be neither below 0 nor above 1: there these are no limits.
            least, most = None if least <= _LEAST_POSSIBLE else least, None
        if least is None and most is None:
            expectations.append({**result, **_with(interval), "decision": "no_limit"})
            if not result.get("observed"):
                undecided.append(f"{_figure(result)}, and no limit is set for it")
            continue
        decided += 1
        decision = None if interval is None else interval.holds(least=least, most=most)
        if is_unknown:
            decision = "inconclusive"
            undecided.append(f"{result.get('meaning')}: {_figure(result)}, with too few rows for an interval")
        elif decision == "inconclusive" and interval is not None:
            undecided.append(
                f"{result.get('meaning')}: {_figure(result)}, by these {numbers.rows} rows anything from "
                f"{written(interval.low, 4)} to {written(interval.high, 4)}"
            )
        expectations.append({**result, **_with(interval), "decision": decision})
    if results and not decided:
        undecided.append("none of the model's answers was compared with a limit")
    return Sureness(tuple(expectations), tuple(undecided))


def _is_share(values: Sequence[float], interval: Interval | None) -> bool:
    """Return whether a figure lies between 0 and 1 by its nature; one of a scorer's may only be asked to."""
    known = (*values, *(() if interval is None else (interval.low, interval.high)))
    return all(_LEAST_POSSIBLE <= value <= 1.0 + _ROUNDING for value in known)


def _with(interval: Interval | None) -> dict[str, Any]:
    return {} if interval is None else {"interval": [interval.low, interval.high], "method": interval.method}


def _figure(result: Mapping[str, Any]) -> str:
    observed = result.get("observed")
    if not isinstance(observed, int | float):
        return f"`{result['kwargs']['column']}` has no number"
    return f"`{result['kwargs']['column']}` is {written(observed, 4)}"
