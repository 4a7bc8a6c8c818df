"""What a tuning ends with: the best setting against Triton's defaults and the present one, and whether to change."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from slipway_core.gates.benchmark.interval import ratio_interval
from slipway_core.tuning.objective import Objective, rounds_of
from slipway_core.tuning.trials import Point, Trial, TrialComparison, TuningPlan

Status = Literal["improved", "no_gain", "inconclusive", "nothing_kept"]
_CONFIDENCE = 0.95


@dataclass(frozen=True)
class RatioInterval:
    """How many times the baseline's figure the candidate's is: a trimmed geometric mean, and its 95 % interval.

    The two of a round and load were measured one right after the other, so what slows the machine meets both. For
    throughput the loads are measured one after another, and each of the two counts where it answers most.
    """

    ratio: float
    low: float
    high: float
    rounds: int

    @property
    def change_percent(self) -> float:
        """By how much the figure changes."""
        return 100.0 * (self.ratio - 1.0)

    @property
    def turned_round(self) -> RatioInterval:
        """How many times the candidate's figure the baseline's is."""
        high = 1.0 / self.low if self.low else math.inf
        return RatioInterval(1.0 / self.ratio, 1.0 / self.high, high, self.rounds)


@dataclass(frozen=True)
class Conclusion:
    """How a tuning ends.

    :param status: `improved`: a change is proposed; `no_gain`: none is worth it; `inconclusive`: the interval forbids
        both; `nothing_kept`: no setting keeps the service level.
    :param summary: the reason, in a sentence.
    :param against_defaults: the best against Triton's defaults; None: they are the same, or it was not measured.
    :param against_present: the best against the present setting, in the same way.
    """

    status: Status
    summary: str
    best: Trial | None = None
    against_defaults: RatioInterval | None = None
    against_present: RatioInterval | None = None


def figures(points: Sequence[Point], objective: Objective) -> list[float]:
    """Return the figure of each round."""
    best = map(objective.best_of_round, rounds_of(points))
    return [float(getattr(one, objective.figure)) for one in best]


def interval_of(comparison: TrialComparison, objective: Objective) -> RatioInterval | None:
    """Return the interval of a comparison; None if it has fewer than two rounds."""
    mine, theirs = (
        figures(one, objective) for one in (comparison.candidate_points, comparison.baseline_points)
    )
    if len(mine) != len(theirs):
        return None
    found = ratio_interval(mine, theirs, _CONFIDENCE)
    if found is None:
        return None
    ratio, interval = found
    return RatioInterval(ratio, interval.low, interval.high, len(mine))


def conclude(plan: TuningPlan, best: Trial | None, comparisons: Sequence[TrialComparison]) -> Conclusion:
    """Return how a tuning ends."""
    objective = Objective(plan.tuning, plan.slo)
    if best is None:
        return Conclusion("nothing_kept", "No setting that was measured keeps the service level.")
    intervals = {one.against: interval_of(one, objective) for one in comparisons}
    defaults, present = intervals.get("defaults"), intervals.get("present")
    if plan.present == plan.defaults:
        present = defaults
    elif defaults is not None and _is_proved(defaults.turned_round, objective):
        # One lucky trial stands against measurements in turns.
        return Conclusion("inconclusive", _defaults_are_better(defaults, objective), best, defaults, present)
    if best.setting == plan.present:
        summary = _present_is_best(plan, defaults)
        return Conclusion("no_gain", summary, best, defaults, None)
    missed = next((one for one in comparisons if objective.misses(one.candidate_points)), None)
    if missed is not None:
        why = "; ".join(objective.misses(missed.candidate_points))
        return Conclusion("inconclusive", f"Measured again, the best misses: {why}.", best, defaults, present)
    status, summary = _against_present(present, objective)
    return Conclusion(status, summary, best, defaults, present)


def _present_is_best(plan: TuningPlan, defaults: RatioInterval | None) -> str:
    found = f"within {plan.tuning.gain_min_percent:g} % of the best that was found, by single measurements"
    if plan.present == plan.defaults:
        return f"Triton's defaults, which are the present setting, are {found}."
    caveat = (
        ""
        if defaults is None
        else f" Against Triton's defaults it changes the figure by {_change_words(defaults)}."
    )
    return f"The present setting is {found}.{caveat}"


def _defaults_are_better(defaults: RatioInterval, objective: Objective) -> str:
    return (
        f"Measured in turns, Triton's defaults are better than what single measurements took for the best: with that "
        f"{objective.figure} changes by {_change_words(defaults)} against them. "
        "Tune again with more `rounds`, or on a quieter machine."
    )


def _against_present(present: RatioInterval | None, objective: Objective) -> tuple[Status, str]:
    """Return what the comparison with the present setting says."""
    if present is None:
        return "inconclusive", "The best was not compared with the present setting."
    least = f"{objective.tuning.gain_min_percent:g} %"
    changes = f"{objective.figure} changes by {_change_words(present)} against the present setting"
    if _is_proved(present, objective):
        return "improved", f"Measured in turns, {changes}."
    if max(_gains(present, objective)) < objective.tuning.gain_min_percent / 100.0:
        return "no_gain", f"Measured in turns, {changes}: no gain of {least}."
    return "inconclusive", f"Measured in turns, {changes}: it is unknown whether it is {least}."


def _is_proved(interval: RatioInterval, objective: Objective) -> bool:
    """Return whether the whole interval is a gain, of `gain_min_percent` or more."""
    worst = min(_gains(interval, objective))
    return worst > 0 and worst >= objective.tuning.gain_min_percent / 100.0


def _gains(interval: RatioInterval, objective: Objective) -> tuple[float, float]:
    """Return the gains at the interval's ends as shares of the baseline: a lower latency, or a higher throughput."""
    if objective.is_throughput:
        return interval.low - 1.0, interval.high - 1.0
    return 1.0 - interval.low, 1.0 - interval.high


def _change_words(interval: RatioInterval) -> str:
    low, high = (100.0 * (bound - 1.0) for bound in (interval.low, interval.high))
    return f"{interval.change_percent:+.1f} % (95 % interval {low:+.1f} to {high:+.1f} %, {interval.rounds} rounds)"
