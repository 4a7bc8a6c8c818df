"""Histograms whose buckets have other bounds, brought to the bounds that they share.

A histogram maps a bucket's upper bound in ms (`inf` last) to what fell in it alone. Leaving bounds out loses resolution
and nothing else, so histograms are compared and added on the bounds that all of them have.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

Histogram = Mapping[float, int]


def common_bounds(*histograms: Histogram) -> set[float]:
    """Return the bounds that all have; `inf` is one of every histogram that has any."""
    return set[float].intersection(*({*one, math.inf} if one else set() for one in histograms))


def coarsened(histogram: Histogram, bounds: set[float]) -> dict[float, int]:
    """Return the histogram on some of its bounds: what lay below one that is left out lies below the next.

    :param bounds: with `inf` where the histogram has requests above all others.
    """
    found, held = dict.fromkeys(sorted(bounds), 0), 0
    for bound in sorted({*histogram, *bounds}):
        held += histogram.get(bound, 0)
        if bound in bounds:
            found[bound], held = held, 0
    return found


def added(one: Histogram, other: Histogram) -> dict[float, int]:
    """Return both together, on the bounds that they share; one without bounds adds nothing."""
    if not one or not other:
        return dict(one or other)
    bounds = {*one} if {*one} == {*other} else common_bounds(one, other)
    left, right = coarsened(one, bounds), coarsened(other, bounds)
    return {bound: left[bound] + right[bound] for bound in left}


def grown(before: Histogram, after: Histogram) -> dict[float, int]:
    """Return what fell into the buckets of `after` since `before`; all of it where the histogram was reset.

    A bucket that is new began at 0, unless another one shrank with it: then the bounds are others than they were.
    """
    found = {bound: count - before.get(bound, 0) for bound, count in after.items()}
    if {*before} <= {*after} and min(found.values(), default=0) >= 0:
        return found
    bounds = common_bounds(before, after)
    earlier, now = coarsened(before, bounds), coarsened(after, bounds)
    found = {bound: now[bound] - earlier[bound] for bound in now}
    return dict(after) if min(found.values(), default=0) < 0 else found
