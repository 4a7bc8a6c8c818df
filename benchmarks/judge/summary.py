"""A cell's canaries as shares with intervals, held against its goals."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, median, stdev
from typing import Any

from scipy.stats import binomtest, norm

from benchmarks.judge.canary_run import Outcome, Watched
from benchmarks.judge.cell import PLAN_WORDS, Cell, Goal

CONFIDENCE = 0.95


@dataclass(frozen=True)
class Estimate:
    """A measured number, and the interval that holds the true one with 95 % confidence."""

    value: float
    low: float
    high: float

    @classmethod
    def of_share(cls, count: int, total: int) -> Estimate:
        """Return the share `count` of `total` with the exact interval of Clopper and Pearson."""
        interval = binomtest(count, total).proportion_ci(CONFIDENCE, method="exact")
        return cls(count / total, float(interval.low), float(interval.high))

    @classmethod
    def of_mean(cls, values: Sequence[float]) -> Estimate:
        """Return the mean with its normal interval, which with fewer than two values has no end."""
        mean = fmean(values)
        half = math.inf
        if len(values) > 1:
            half = float(norm.ppf(0.5 + CONFIDENCE / 2)) * stdev(values) / math.sqrt(len(values))
        return cls(mean, mean - half, mean + half)


@dataclass(frozen=True)
class Held:
    """A goal and what was measured. `sure`: the whole interval lies on the side that the number is on."""

    goal: Goal
    measured: Estimate

    @property
    def reached(self) -> bool:
        """Whether the measured number keeps the goal."""
        return self._keeps(self.measured.value)

    @property
    def sure(self) -> bool:
        """Whether both ends of the interval say the same."""
        return self.reached == self._keeps(self.measured.low) == self._keeps(self.measured.high)

    def _keeps(self, value: float) -> bool:
        return value <= self.goal.limit if self.goal.at_most else value >= self.goal.limit


@dataclass(frozen=True)
class Ended:
    """How one judge ended a cell's canaries. `found`: failed, and not before the fault began.

    Minutes (None where none was found) and requests count from the fault's beginning; `median_requests`
    belongs to the canaries that were found, `mean_requests` to all.
    """

    failed: Estimate
    found: Estimate
    passed: Estimate
    median_minutes: float | None
    median_requests: float | None
    mean_requests: Estimate

    @classmethod
    def of(cls, watched: Sequence[Watched], fault_s: float) -> Ended:
        """Sum up; `fault_s` is when the fault began."""
        failed = [one for one in watched if one.status == "fail"]
        found = [one for one in failed if one.at_s > fault_s]
        passed = sum(one.status == "pass" for one in watched)
        return cls(
            Estimate.of_share(len(failed), len(watched)),
            Estimate.of_share(len(found), len(watched)),
            Estimate.of_share(passed, len(watched)),
            median((one.at_s - fault_s) / 60 for one in found) if found else None,
            median(one.requests for one in found) if found else None,
            Estimate.of_mean([one.requests for one in watched]),
        )

    def measured(self, goal: Goal) -> Estimate:
        """Return what a goal is about."""
        measures = {
            "failed": self.failed,
            "found": self.found,
            "passed": self.passed,
            "promoted": self.passed,
            "requests": self.mean_requests,
            "met": self.mean_requests,
        }
        return measures[goal.measure]


@dataclass(frozen=True)
class CellResult:
    """A cell as measured: ours, the others by name, the goals, and ours again for each plan and latency model."""

    cell: Cell
    runs: int
    ours: Ended
    others: dict[str, Ended]
    goals: tuple[Held, ...]
    parts: dict[str, Ended]

    @classmethod
    def of(cls, cell: Cell, outcomes: Sequence[Outcome]) -> CellResult:
        """Sum up one cell's canaries."""
        fault_s = cell.traffic.fault_begins_s
        ours = Ended.of([outcome.ours for outcome in outcomes], fault_s)
        settings = {
            f"weights {PLAN_WORDS[one.plan]}, {one.latency_model}": (one.plan, one.latency_model)
            for one in outcomes
        }
        return cls(
            cell,
            len(outcomes),
            ours,
            {
                name: Ended.of([outcome.others[name] for outcome in outcomes], fault_s)
                for name in outcomes[0].others
            },
            tuple(Held(goal, ours.measured(goal)) for goal in cell.goals),
            {
                name: Ended.of(
                    [one.ours for one in outcomes if (one.plan, one.latency_model) == setting], fault_s
                )
                for name, setting in settings.items()
            },
        )

    @property
    def reached(self) -> bool:
        """Whether all goals were kept."""
        return all(held.reached for held in self.goals)

    def mark(self) -> str:
        """Return ✓ or ✗; in brackets where an interval leaves it open."""
        decisive = [held for held in self.goals if held.reached == self.reached]
        # One sure miss settles a miss; to be sure of success all goals must be.
        sure = all(held.sure for held in decisive) if self.reached else any(held.sure for held in decisive)
        sign = "✓" if self.reached else "✗"
        return sign if sure else f"({sign})"

    def wald_ratio(self) -> float | None:
        """Return how many times Wald's number the candidate answered on average; None where there is no such number."""
        if self.cell.wald_requests is None:
            return None
        return self.ours.mean_requests.value / self.cell.wald_requests

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-ready form."""
        return {
            "title": self.cell.title,
            "group": self.cell.group,
            "runs": self.runs,
            "ours": _plain(self.ours),
            "others": {name: _plain(ended) for name, ended in self.others.items()},
            "wald_requests": self.cell.wald_requests,
            "wald_requests_with_margin": self.cell.wald_requests_with_margin,
            "wald_ratio": self.wald_ratio(),
            "goals": [
                {
                    "goal": held.goal.words(),
                    "measured": vars(held.measured),
                    "reached": held.reached,
                    "sure": held.sure,
                }
                for held in self.goals
            ],
            "reached": self.reached,
            "parts": {name: _plain(ended) for name, ended in self.parts.items()},
        }


def _plain(ended: Ended) -> dict[str, Any]:
    return {
        name: vars(value) if isinstance(value, Estimate) else value for name, value in vars(ended).items()
    }
