"""Latency as a rate: which answers count as slow, so that histograms can be judged as errors are.

"The candidate is slower than stable by more than the margin" is asked at a few points of stable's
distribution. Take a bound x and the bound y >= (1 + margin) x. Were the candidate slower by the margin at
most, no more of its answers would be above y than of stable's above x. That is a claim about two rates,
whatever the shape of the distribution (quantiles by counting, as in Howard and Ramdas, "Sequential estimation
of quantiles", Bernoulli 2022), and it needs nothing between the buckets: no interpolation, no assumption. The
price is resolution: y is the next bucket's bound, so with coarse buckets the margin that is really tested is
larger than the one asked for.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from include.model_release.evidence import Tally


@dataclass(frozen=True)
class Comparison:
    """Stable's answers above `stable_bound_ms` against the candidate's above `candidate_bound_ms`."""

    quantile: float
    stable_bound_ms: float
    candidate_bound_ms: float


def above(buckets: Mapping[float, int], bound_ms: float) -> Tally:
    """Return the requests above `bound_ms`, out of all in the histogram; `bound_ms` must be one of its
    bounds.
    """
    total = sum(buckets.values())
    return Tally(float(sum(count for bound, count in buckets.items() if bound > bound_ms)), float(total))


def quantile_bound(buckets: Mapping[float, int], quantile: float) -> float | None:
    """Return the smallest bound (ms, perhaps inf) with at least `quantile` of the requests at or below; None
    if empty.
    """
    total = sum(buckets.values())
    if total <= 0:
        return None
    reached = 0
    for bound in sorted(buckets):
        reached += buckets[bound]
        if reached >= quantile * total:
            return bound
    return None


def comparison_at(past: Mapping[float, int], quantile: float, margin: float) -> Comparison | None:
    """Choose the bounds to compare at `quantile` from stable's `past` histogram; None where its buckets
    cannot tell.

    `margin` is a fraction (0.25 is 25 %).
    """
    stable_bound = quantile_bound(past, quantile)
    if stable_bound is None or math.isinf(stable_bound):
        return None
    wanted = stable_bound * (1.0 + margin)
    candidate_bound = min((bound for bound in past if bound >= wanted * (1 - 1e-12)), default=math.inf)
    if math.isinf(candidate_bound):
        return None
    return Comparison(quantile, stable_bound, candidate_bound)


def ceiling_bound(buckets: Mapping[float, int], ceiling_ms: float) -> float | None:
    """Return the smallest finite bound at or above `ceiling_ms`: what lies above it is too slow."""
    return min((bound for bound in buckets if ceiling_ms <= bound < math.inf), default=None)


def add_histograms(one: Mapping[float, int], other: Mapping[float, int]) -> dict[float, int]:
    """Return the sum of two histograms, bucket by bucket."""
    return {bound: one.get(bound, 0) + other.get(bound, 0) for bound in sorted({*one, *other})}
