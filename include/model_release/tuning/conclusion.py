"""What a tuning ends with: the best setting against Triton's defaults and the present one, and whether to change."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from include.model_release.gates.benchmark.interval import ratio_interval
from include.model_release.tuning.objective import Objective, rounds_of
from include.model_release.tuning.trials import Comparison, Point, Trial, TuningPlan

Status = Literal["improved", "no_gain", "inconclusive", "nothing_kept"]
_CONFIDENCE = 0.95


@dataclass(frozen=True)
class RatioInterval:
    """How many times the baseline's figure the candidate's is: a trimmed geometric mean, and its 95 % interval.

    The two of a round were measured one right after the other, so what slows the machine meets both.
    """

    ratio: float
    low: float
    high: float
    rounds: int

    @property
    def change_percent(self) -> float:
        """By how much the figure changes."""
        return 100.0 * (self.ratio - 1.0)


@dataclass(frozen=True)
class Conclusion:
    """How a tuning ends.

    :param status: `improved`: a change is proposed; `no_gain`: none is worth it; `inconclusive`: the interval forbids
        both; `nothing_kept`: no setting keeps the service level.
    :param told: the reason, in a sentence.
    :param against_defaults: the best against Triton's defaults; None: they are the same, or it was not measured.
    :param against_present: the best against the present setting, in the same way.
    """

    status: Status
    told: str
    best: Trial | None = None
    against_defaults: RatioInterval | None = None
    against_present: RatioInterval | None = None


def figures(points: Sequence[Point], objective: Objective) -> list[float]:
    """Return the figure of each round."""
    best = map(objective.best_of_round, rounds_of(points))
    return [float(getattr(one, objective.figure)) for one in best]


def interval_of(comparison: Comparison, objective: Objective) -> RatioInterval | None:
    """Return the interval of a comparison; None where it has fewer than two rounds."""
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


def conclude(plan: TuningPlan, best: Trial | None, comparisons: Sequence[Comparison]) -> Conclusion:
    """Return how a tuning ends."""
    objective = Objective(plan.tuning, plan.slo)
    if best is None:
        return Conclusion("nothing_kept", "No setting that was measured keeps the service level.")
    intervals = {one.against: interval_of(one, objective) for one in comparisons}
    defaults, present = intervals.get("defaults"), intervals.get("present")
    if plan.present == plan.defaults:
        present = defaults
    if best.setting == plan.present:
        told = _present_is_best(plan, defaults)
        return Conclusion("no_gain", told, best, defaults, None)
    missed = next((one for one in comparisons if objective.misses(one.candidate_points)), None)
    if missed is not None:
        why = "; ".join(objective.misses(missed.candidate_points))
        return Conclusion("inconclusive", f"Measured again, the best misses: {why}.", best, defaults, present)
    status, told = _against_present(present, objective)
    return Conclusion(status, told, best, defaults, present)


def _present_is_best(plan: TuningPlan, defaults: RatioInterval | None) -> str:
    least = f"{plan.tuning.gain_min_percent:g} %"
    if plan.present == plan.defaults:
        return f"Triton's defaults, which are the present setting, are within {least} of the best that was found."
    told = (
        "" if defaults is None else f" Against Triton's defaults it changes the figure by {_told(defaults)}."
    )
    return f"The present setting is within {least} of the best that was found.{told}"


def _against_present(present: RatioInterval | None, objective: Objective) -> tuple[Status, str]:
    """Return what the comparison with the present setting says."""
    if present is None:
        return "inconclusive", "The best was not compared with the present setting."
    least = objective.tuning.gain_min_percent / 100.0
    # Gains as shares of the present figure: a lower latency, or a higher throughput.
    gains = [bound - 1.0 if objective.is_throughput else 1.0 - bound for bound in (present.low, present.high)]
    worst, hoped = min(gains), max(gains)
    changes = f"{objective.figure} changes by {_told(present)} against the present setting"
    if worst >= least:
        return "improved", f"Measured in turns, {changes}."
    if hoped < least:
        return "no_gain", f"Measured in turns, {changes}: no gain of {100 * least:g} %."
    return "inconclusive", f"Measured in turns, {changes}: whether it is {100 * least:g} % cannot be told."


def _told(interval: RatioInterval) -> str:
    low, high = (100.0 * (bound - 1.0) for bound in (interval.low, interval.high))
    return f"{interval.change_percent:+.1f} % (95 % interval {low:+.1f} to {high:+.1f} %, {interval.rounds} rounds)"
