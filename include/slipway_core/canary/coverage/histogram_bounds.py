"""Latencies of two revisions whose histograms have other bounds: what is certain of them, and whether it is enough.

The candidate's histogram is brought to stable's bounds. Where a bucket of it lies across one of them, its answers are
taken for as fast as they can have been when something is to count against the candidate, and for as slow as they can
have been when something is to be shown for it. So both null hypotheses keep what they promise; what is lost is power,
and where the bounds tell too little of each other, the latencies were not compared.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Literal

from slipway_core.canary.latency import bounds_at, levels_up_to

Histogram = Mapping[float, int]
# Levels of stable's distribution at which a slower candidate would have to be seen.
_MUST_SEE = (0.5, 0.99)
# How many times slower it may be, at these levels, without its buckets telling.
_UNSEEN_FACTOR = 4.0
# The part of the candidate's answers of which a bound may say nothing.
_UNKNOWN_PART = 0.05


def on_bounds(histogram: Histogram, bounds: Histogram, taken_for: Literal["fast", "slow"]) -> Histogram:
    """Return a histogram on the bounds of another one, its answers as fast or as slow as they can have been."""
    if {*histogram} == {*bounds} or not histogram or not bounds:
        return histogram
    wanted = sorted({*bounds, math.inf})
    found, low = dict.fromkeys(wanted, 0), 0.0
    for bound in sorted(histogram):
        # Answers of a bucket are above `low`, and at most `bound`.
        place = next(one for one in wanted if (one > low if taken_for == "fast" else one >= bound))
        found[place] += histogram[bound]
        low = bound
    return found


def tells(candidate: Histogram, stable: Histogram, quantile: float) -> bool:
    """Return whether the candidate's buckets would show one that is several times slower than stable.

    :param quantile: up to where latencies are compared.
    """
    if not candidate or not stable:
        return False
    if {*candidate} == {*stable}:
        return any(map(math.isfinite, stable))
    fast, slow = on_bounds(candidate, stable, "fast"), on_bounds(candidate, stable, "slow")
    levels = [level for level in levels_up_to(quantile) if level in _MUST_SEE] or [quantile]
    known = [bound for bound in stable if math.isfinite(bound) and _is_known(fast, slow, bound)]
    for level, theirs in zip(levels, bounds_at(stable, levels), strict=True):
        if theirs is None:
            if level == levels[0]:
                return False
            continue
        if not any(theirs <= bound <= _UNSEEN_FACTOR * theirs for bound in known):
            return False
    return True


def _is_known(fast: Histogram, slow: Histogram, bound: float) -> bool:
    """Return whether it is known of nearly all answers on which side of a bound they are."""
    surely = sum(count for one, count in fast.items() if one > bound)
    perhaps = sum(count for one, count in slow.items() if one > bound)
    return perhaps - surely <= _UNKNOWN_PART * sum(fast.values())
