"""What a suite of expectations said of a table, and what follows by the policy of each."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from slipway_core.gates.validation.intervals import LEAST_VALUES, are_too_few, mean_interval
from slipway_core.gates.validation.scores import MEAN
from slipway_core.written_numbers import number as written

_NAMES = {"golden": "golden set", "answers": "answers"}
# These look at a column's values together: of a few they say nothing of many more.
_TOGETHER = frozenset(
    {
        "expect_column_median_to_be_between",
        "expect_column_sum_to_be_between",
        "expect_column_stdev_to_be_between",
        "expect_column_quantile_values_to_be_between",
        "expect_column_unique_value_count_to_be_between",
        "expect_column_proportion_of_unique_values_to_be_between",
        "expect_column_most_common_value_to_be_in_set",
        "expect_column_value_z_scores_to_be_less_than",
    }
)
_COLUMN_KEYS = ("column", "column_A", "column_B")
# These show from a column without a value as well.
_OF_ABSENCE = frozenset(
    {
        "expect_column_to_exist",
        "expect_column_values_to_be_null",
        "expect_column_values_to_not_be_null",
        "expect_column_proportion_of_non_null_values_to_be_between",
    }
)


@dataclass(frozen=True)
class SuiteResult:
    """One suite as it went.

    :ivar results: `{"type", "kwargs", "meaning", "policy", "success", "observed", "unexpected"}` each.
    :ivar document: where the library's own result lies, below the release's evidence.
    :ivar columns: those of the table, where its rows are a sample whose means have an interval.
    """

    about: Literal["golden", "answers"]
    rows: int
    results: Sequence[Mapping[str, Any]]
    document: str
    columns: Mapping[str, Sequence[Any]] = field(default_factory=dict)

    def decided(self, confidence: float) -> list[dict[str, Any]]:
        """Return the expectations, each of a mean with its interval, and what so many values decide."""
        return [
            {**one, **_decided(one, self.columns, confidence)} if self.columns else dict(one)
            for one in self.results
        ]


@dataclass(frozen=True)
class SuitesFound:
    """All suites together: in words what fails, warns and is not decided; and the tables for the report."""

    failures: tuple[str, ...]
    warnings: tuple[str, ...]
    undecided: tuple[str, ...]
    tables: tuple[dict[str, Any], ...]


def judge_suites(suites: Sequence[SuiteResult], confidence: float, *, insists: bool) -> SuitesFound:
    """Hold each suite's results against the policies of its expectations.

    :param insists: whether what the rows do not decide is left undecided, and does not fail.
    """
    failures, warnings, undecided, tables = [], [], [], []
    for suite in suites:
        expectations = suite.decided(confidence)
        for one in expectations:
            words = f"{_NAMES[suite.about]}: {one['meaning']}{_observed(one)}"
            unsure = one.get("decision") == "inconclusive"
            if unsure and one["policy"] == "fail":
                undecided.append(f"{words}, {_why_unsure(one, suite.rows)}")
            if one["success"]:
                continue
            if one["policy"] == "warn":
                warnings.append(words)
            elif not (unsure and insists):
                failures.append(words)
        tables.append(
            {
                "about": suite.about,
                "rows": suite.rows,
                "document": suite.document,
                "expectations": expectations,
            }
        )
    return SuitesFound(tuple(failures), tuple(warnings), tuple(undecided), tuple(tables))


def _decided(
    result: Mapping[str, Any], columns: Mapping[str, Sequence[Any]], confidence: float
) -> dict[str, Any]:
    """Return what the column's values decide: nothing if there are too few of them, or none at all.

    The library calls most expectations of a column without a value met.
    """
    asked = [str(result["kwargs"][key]) for key in _COLUMN_KEYS if key in result["kwargs"]]
    if not asked or any(name not in columns for name in asked) or result["type"] in _OF_ABSENCE:
        return {}
    known = [[one for one in columns[name] if _is_value(one)] for name in asked]
    fewest = min(known, key=len)
    few = are_too_few(fewest) if result["type"] == MEAN else len(fewest) < LEAST_VALUES
    if not fewest or (few and result["type"] in {MEAN, *_TOGETHER}):
        return {"values": len(fewest), "decision": "inconclusive"}
    return _interval(result, fewest, confidence) if result["type"] == MEAN else {}


def _is_value(one: Any) -> bool:
    return one is not None and not (isinstance(one, float) and math.isnan(one))


def _interval(result: Mapping[str, Any], values: Sequence[Any], confidence: float) -> dict[str, Any]:
    interval = mean_interval([one for one in values if isinstance(one, int | float)], confidence)
    if interval is None:
        return {}
    least, most = result["kwargs"].get("min_value"), result["kwargs"].get("max_value")
    decision = interval.holds(least=least, most=most)
    return {"interval": [interval.low, interval.high], "method": interval.method, "decision": decision}


def _observed(result: Mapping[str, Any]) -> str:
    observed = result.get("observed")
    shown = written(observed, 4) if isinstance(observed, float) else str(observed)[:80]
    return "" if observed is None else f" (found {shown})"


def _why_unsure(result: Mapping[str, Any], rows: int) -> str:
    if "interval" not in result:
        return f"by {result['values']} values, which decide nothing"
    low, high = result["interval"]
    return f"by these {rows} rows anything from {written(low, 4)} to {written(high, 4)}"
