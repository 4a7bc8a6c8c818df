"""What the golden set decides: each expectation with its figure's interval, and what stays undecided."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from include.model_release.gates.interval import Interval
from include.model_release.gates.validation.intervals import mean_interval
from include.model_release.gates.validation.scores import MEAN, ValidationScores

# The least that a figure of that name can be: a limit there asks for nothing.
_LEAST_POSSIBLE = 0.0


@dataclass(frozen=True)
class Sureness:
    """The expectations, each of a mean with `interval`, `method` and `decision`; and in words what is undecided."""

    expectations: tuple[dict[str, Any], ...]
    undecided: tuple[str, ...]


def sureness_of(numbers: ValidationScores, results: Sequence[Mapping[str, Any]]) -> Sureness:
    """Hold each figure's interval against its limit."""
    known = numbers.intervals()
    told: list[dict[str, Any]] = []
    undecided: list[str] = []
    decided = 0
    for result in results:
        if result.get("type") != MEAN:
            told.append(dict(result))
            continue
        kwargs = result["kwargs"]
        column, least, most = str(kwargs["column"]), kwargs.get("min_value"), kwargs.get("max_value")
        # A share cannot be above 1; of a figure without a lower limit, 1 is a limit.
        is_share = least is not None and most == 1.0
        least = None if is_share and least <= _LEAST_POSSIBLE else least
        most = None if is_share else most
        values = [value for value in numbers.columns.get(column, ()) if value is not None]
        # One row with a number that is no share has an interval of no width, and decides nothing.
        is_unknown = (
            known[column] is None if column in known else len(values) == 1 and values[0] not in (0, 1)
        )
        interval = known.get(column)
        if interval is None and not is_unknown:
            interval = mean_interval(values, numbers.validation.confidence)
        if least is None and most is None:
            told.append({**result, **_with(interval), "decision": "no_limit"})
            if not result.get("observed"):
                undecided.append(f"{_figure(result)}, and no limit is set for it")
            continue
        decided += 1
        decision = None if interval is None else interval.holds(least=least, most=most)
        if is_unknown:
            decision = "inconclusive"
            undecided.append(
                f"{result.get('meaning')}: {_figure(result)}, and how sure that is cannot be told"
            )
        told.append({**result, **_with(interval), "decision": decision})
        if decision == "inconclusive" and interval is not None:
            undecided.append(
                f"{result.get('meaning')}: {_figure(result)}, by these {numbers.rows} rows anything from "
                f"{interval.low:.4g} to {interval.high:.4g}"
            )
    if results and not decided:
        undecided.append("nothing that the model answers was held against a limit")
    return Sureness(tuple(told), tuple(undecided))


def _with(interval: Interval | None) -> dict[str, Any]:
    return {} if interval is None else {"interval": [interval.low, interval.high], "method": interval.method}


def _figure(result: Mapping[str, Any]) -> str:
    observed = result.get("observed")
    if not isinstance(observed, int | float):
        return f"`{result['kwargs']['column']}` has no number"
    return f"`{result['kwargs']['column']}` is {observed:.4g}"
