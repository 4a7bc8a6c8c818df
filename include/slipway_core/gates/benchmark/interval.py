"""By how much the candidate differs from stable, and how sure that is: intervals over pairs of rounds.

Candidate and stable are measured in turns, the other one first each time (interleaved trials: Abedi and Brecht,
"Conducting Repeatable Experiments in Highly Variable Cloud Computing Environments", ICPE 2017), so that what slows the
machine meets both rounds of a pair and goes out of their ratio. The interval is of the geometric mean of the ratios
(an effect size with its interval, as Kalibera and Jones, "Rigorous Benchmarking in Reasonable Time", ISMM 2013, ask
for), trimmed by a fifth on each side, so that a disturbed pair does not decide, and Student's (Tukey and McLaughlin
1963; Yuen 1974). Fewer than five pairs are not trimmed, one alone has no interval.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from slipway_core.gates.interval import Interval

TRIMMED_SHARE = 0.2
_METHOD = "trimmed mean over pairs of rounds, Student"


def ratio_interval(
    candidate: Sequence[float], stable: Sequence[float], confidence: float
) -> tuple[float, Interval] | None:
    """Return the ratio of candidate to stable, and its interval; None for fewer than two pairs, or where one is 0.

    :param candidate: one figure for each round, in the same order as `stable`.
    """
    if any(value <= 0 for value in (*candidate, *stable)):
        return None
    logs = [math.log(mine / theirs) for mine, theirs in zip(candidate, stable, strict=True)]
    found = mean_interval(logs, confidence)
    if found is None:
        return None
    middle, interval = found
    return math.exp(middle), Interval(_exp(interval.low), _exp(interval.high), interval.method)


def difference_interval(
    candidate: Sequence[float], stable: Sequence[float], confidence: float
) -> tuple[float, Interval] | None:
    """Return by how much the candidate's figure is above stable's, and the interval; None for fewer than two pairs."""
    pairs = zip(candidate, stable, strict=True)
    return mean_interval([mine - theirs for mine, theirs in pairs], confidence)


def mean_interval(values: Sequence[float], confidence: float) -> tuple[float, Interval] | None:
    """Return the trimmed mean and its interval; None for fewer than two values."""
    if len(values) < 2:
        return None
    from scipy.stats import trim_mean  # half a second, which only the task that judges shall pay
    from scipy.stats.mstats import trimmed_mean_ci

    low, high = trimmed_mean_ci(values, limits=(TRIMMED_SHARE, TRIMMED_SHARE), alpha=1 - confidence)
    return float(trim_mean(values, TRIMMED_SHARE)), Interval(float(low), float(high), _METHOD)


def _exp(value: float) -> float:
    """Return e to the power, and the largest number where that is beyond it."""
    return math.exp(min(value, 700.0))
