"""Latency as a rate: which answers count as slow, so that histograms can be judged as errors are.

"The candidate is slower than stable by more than the margin" is tested at a few levels of stable's
distribution. Take a bucket's bound b that stable's answers exceed rarely enough. Were the candidate slower by
the margin m at most, no more of its answers would be above b than of stable's above b / (1 + m). That is a
null hypothesis about two rates, whatever the distribution (quantiles by counting, as in Howard and Ramdas, "Sequential
estimation of quantiles", Bernoulli 2022).

b / (1 + m) seldom is a bound itself. How much of stable's bucket lies above it is read off as if the answers
were spread evenly over the bucket on a logarithmic scale. The reading only says how large the margin is that
is really granted: between two versions with the same latencies the hypothesis is true for any reading.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from slipway_core.canary.e_process import Tally

# From the body of the distribution to the tail, where a few very slow answers show first.
LEVELS: tuple[float, ...] = (0.5, 0.75, 0.9, 0.95, 0.99, 0.999, 0.9999)
# A level is tested when so many of stable's past answers lie beyond it.
_MINIMUM_BEYOND = 1.0


def levels_up_to(quantile: float) -> tuple[float, ...]:
    """Return the levels below `quantile`, and `quantile` itself."""
    return (*(level for level in LEVELS if level < quantile), quantile)


def above(buckets: Mapping[float, int], bound_ms: float) -> Tally:
    """Return the requests above `bound_ms`, out of all in the histogram; `bound_ms` must be one of its
    bounds.
    """
    total = sum(buckets.values())
    return Tally(float(sum(count for bound, count in buckets.items() if bound > bound_ms)), float(total))


def above_within(buckets: Mapping[float, int], latency_ms: float) -> Tally:
    """Return the requests above `latency_ms`, which may lie within a bucket: then a part of it counts."""
    events, below = 0.0, 0.0
    for bound in sorted(buckets):
        if below >= latency_ms:
            events += buckets[bound]
        elif bound > latency_ms:
            events += buckets[bound] * _part_above(latency_ms, below, bound)
        below = bound
    return Tally(events, float(sum(buckets.values())))


def _part_above(latency_ms: float, low: float, high: float) -> float:
    if math.isinf(high):
        return 1.0
    if low <= 0:
        return (high - latency_ms) / high
    return math.log(high / latency_ms) / math.log(high / low)


def quantile_ms(buckets: Mapping[float, int], quantile: float) -> tuple[float, bool] | None:
    """Return a quantile of a histogram (upper bound in ms to requests in the bucket) in ms, for people.

    Between two bounds the requests are taken to lie evenly on a logarithmic axis, below the first bound
    evenly on a linear one; the judge's evidence assumes neither. With True the quantile lies above the last
    finite bound, which is then given. None: no requests, or no finite bound.
    """
    bounds = sorted(buckets)
    wanted = quantile * sum(buckets.values())
    finite = [bound for bound in bounds if math.isfinite(bound)]
    if wanted <= 0 or not finite:
        return None
    reached, low = 0.0, 0.0
    for bound in finite:
        count = buckets[bound]
        if count > 0 and reached + count >= wanted:
            part = (wanted - reached) / count
            return (low * (bound / low) ** part if low > 0 else bound * part), False
        reached, low = reached + count, bound
    return finite[-1], True


def bounds_at(past: Mapping[float, int], levels: Sequence[float]) -> list[float | None]:
    """Return the bound (ms) to test at each level of stable's `past`; None if it cannot tell.

    It cannot where too few answers lie beyond the level, or all finite bounds lie below it.
    """
    total = sum(past.values())
    cumulative, reached = [], 0
    for bound in sorted(past):
        reached += past[bound]
        cumulative.append((bound, reached))
    found: list[float | None] = []
    for level in levels:
        bound = next((bound for bound, below in cumulative if below >= level * total), math.inf)
        usable = total * (1.0 - level) >= _MINIMUM_BEYOND and math.isfinite(bound)
        found.append(bound if usable else None)
    return found


def bound_below(buckets: Mapping[float, int], bound_ms: float) -> float:
    """Return the greatest bound below `bound_ms`, or `bound_ms` itself where it is the lowest."""
    return max((bound for bound in buckets if bound < bound_ms), default=bound_ms)


def ceiling_bound(buckets: Mapping[float, int], ceiling_ms: float) -> float | None:
    """Return the smallest finite bound at or above `ceiling_ms`: what lies above it is too slow."""
    return min((bound for bound in buckets if ceiling_ms <= bound < math.inf), default=None)


def add_histograms(one: Mapping[float, int], other: Mapping[float, int]) -> dict[float, int]:
    """Return the sum of two histograms, bucket by bucket."""
    return {bound: one.get(bound, 0) + other.get(bound, 0) for bound in sorted({*one, *other})}
