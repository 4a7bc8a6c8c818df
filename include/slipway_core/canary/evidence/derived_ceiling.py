"""Ceilings that earlier windows give: how much a version that is no worse may fail, or how long it may take, later on.

What was seen earlier is another load and another hour. So the ceilings are generous: a version that is no worse is
assumed to fail at most `DRIFT` times as often as the earlier windows say (never held to less than `ERROR_FLOOR`, nor to
less than what they leave possible), and to take at most `SLOWER` times as long. What exceeds them is a gross fault, not
the weather.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from slipway_core.canary.e_process import NullHypothesis, Tally
from slipway_core.canary.latency import above, above_within, ceiling_bound, quantile_ms

# By how much the error rate may rise from earlier windows to later ones without a fault of the candidate.
DRIFT = 4.0
# Nobody is held to less: 3 % in both for some minutes is what a database that was moved does.
ERROR_FLOOR = 0.05
# Where nothing is known of stable, a version that fails more than half of its requests is not one to keep.
UNKNOWN_CEILING = 0.5
# By how much answers may become slower from earlier windows to later ones.
SLOWER = 3.0
# One in so many upper bounds of a rate lies below the rate.
_MISS = 1e-3
# With so many imagined good requests a few bad ones do not make a rate.
_IMAGINED = 10.0
_MINIMUM_ANSWERS = 50


@dataclass(frozen=True)
class LatencyCeiling:
    """No more than `share` of the answers may take longer than `bound_ms`."""

    bound_ms: float
    share: float

    def hypothesis(self, buckets: Mapping[float, int]) -> NullHypothesis | None:
        """Return what a window's histogram of the candidate is asked; None if it has not this bound."""
        if self.bound_ms not in buckets:
            return None
        return NullHypothesis(above(buckets, self.bound_ms), None, self.share)


def error_ceiling(earlier: Tally) -> float:
    """Return the highest error rate (0 to 1) of a version that is no worse than `earlier` windows.

    It lies below 1 by half of what the windows did well, so that a version that fails everything exceeds it.
    """
    if earlier.count <= 0:
        return UNKNOWN_CEILING
    rate = earlier.events / earlier.count
    tolerated = max(ERROR_FLOOR, DRIFT * rate, upper_bound(earlier))
    highest = max(UNKNOWN_CEILING, (1.0 + earlier.events / (earlier.count + _IMAGINED)) / 2.0)
    return min(tolerated, highest)


def latency_ceiling(earlier: Mapping[float, int], level: float) -> LatencyCeiling | None:
    """Return the ceiling that a histogram of earlier windows gives at a level; None if it cannot tell.

    Were all answers `SLOWER` times as slow, as many would be above the bound as were above its `SLOWER`th part.
    """
    found = quantile_ms(earlier, level)
    if found is None or found[1] or sum(earlier.values()) < _MINIMUM_ANSWERS:
        return None
    bound = ceiling_bound(earlier, SLOWER * found[0])
    if bound is None:
        return None
    return LatencyCeiling(bound, upper_bound(above_within(earlier, bound / SLOWER)))


def upper_bound(tally: Tally) -> float:
    """Return the upper confidence bound of a rate, by Clopper and Pearson."""
    from scipy.special import betaincinv  # not at import: reading a DAG file needs no special functions

    if tally.events >= tally.count:
        return 1.0
    return float(betaincinv(tally.events + 1.0, tally.count - tally.events, 1.0 - _MISS))
