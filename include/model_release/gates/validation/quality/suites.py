"""What a suite of expectations said of a table, and what follows by the policy of each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from include.model_release.gates.validation.intervals import mean_interval
from include.model_release.gates.validation.scores import MEAN

_NAMES = {"golden": "golden set", "answers": "answers"}


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

    def told(self, confidence: float) -> list[dict[str, Any]]:
        """Return the expectations, each of a mean with its interval and what that decides."""
        return [
            {**one, **_interval(one, self.columns, confidence)} if self.columns else dict(one)
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
        told = suite.told(confidence)
        for one in told:
            words = f"{_NAMES[suite.about]}: {one['meaning']}{_observed(one)}"
            unsure = one.get("decision") == "inconclusive"
            if unsure and one["policy"] == "fail":
                undecided.append(f"{words}, by these {suite.rows} rows anything from {_ends(one)}")
            if one["success"]:
                continue
            if one["policy"] == "warn":
                warnings.append(words)
            elif not (unsure and insists):
                failures.append(words)
        tables.append(
            {"about": suite.about, "rows": suite.rows, "document": suite.document, "expectations": told}
        )
    return SuitesFound(tuple(failures), tuple(warnings), tuple(undecided), tuple(tables))


def _interval(
    result: Mapping[str, Any], columns: Mapping[str, Sequence[Any]], confidence: float
) -> dict[str, Any]:
    if result["type"] != MEAN:
        return {}
    values = columns.get(str(result["kwargs"].get("column")), ())
    numbers = [one for one in values if isinstance(one, int | float)]
    interval = mean_interval(numbers, confidence)
    if interval is None:
        return {}
    least, most = result["kwargs"].get("min_value"), result["kwargs"].get("max_value")
    decision = interval.holds(least=least, most=most)
    return {"interval": [interval.low, interval.high], "method": interval.method, "decision": decision}


def _observed(result: Mapping[str, Any]) -> str:
    observed = result.get("observed")
    shown = f"{observed:.4g}" if isinstance(observed, float) else str(observed)[:80]
    return "" if observed is None else f" (found {shown})"


def _ends(result: Mapping[str, Any]) -> str:
    low, high = result["interval"]
    return f"{low:.4g} to {high:.4g}"
