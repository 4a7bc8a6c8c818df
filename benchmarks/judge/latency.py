"""Distributions of latency, and the share of requests that each of a histogram's buckets gets under them.

Requests are never drawn one by one: a window's histogram is one multinomial draw from exact probabilities.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from slipway_sandbox.services.envoy_config import LATENCY_BUCKETS_MS

Floats = NDArray[np.float64]

# What the sandbox's Envoy counts in, and Prometheus' default (client_golang's DefBuckets, seconds as ms).
# Upper bounds in ms.
ENVOY_BOUNDS_MS = (*map(float, LATENCY_BUCKETS_MS), math.inf)
PROMETHEUS_BOUNDS_MS = (5.0, 10.0, 25.0, 50.0, 100.0, 250.0, 500.0, 1000.0, 2500.0, 5000.0, 10000.0, math.inf)


class LatencyDistribution(Protocol):
    """A distribution of latencies."""

    def cdf(self, latency_ms: Floats) -> Floats:
        """Return the share of requests that take at most `latency_ms` (any shape, may hold inf)."""
        ...


@dataclass(frozen=True)
class Lognormal:
    """The usual shape: the logarithm is normal, with standard deviation `sigma`."""

    median_ms: float
    sigma: float

    def cdf(self, latency_ms: Floats) -> Floats:
        """Return the share of requests that take at most `latency_ms`."""
        shares: Floats = ndtr(np.log(latency_ms / self.median_ms) / self.sigma)
        return shares


@dataclass(frozen=True)
class ParetoTail:
    """A lognormal body; `tail_share` of the requests follow a Pareto distribution, which has no highest value.

    With `shape` 1.5 the tail has a mean but no variance.
    """

    body: Lognormal
    tail_share: float
    tail_from_ms: float
    shape: float

    def cdf(self, latency_ms: Floats) -> Floats:
        """Return the share of requests that take at most `latency_ms`."""
        beyond = np.maximum(latency_ms, self.tail_from_ms) / self.tail_from_ms
        shares: Floats = self.body.cdf(latency_ms) * (1 - self.tail_share)
        return shares + self.tail_share * (1 - beyond**-self.shape)


@dataclass(frozen=True)
class LatencyModel:
    """A distribution of latency, and the upper bounds (ms, inf last) of the buckets in which it is seen."""

    name: str
    distribution: LatencyDistribution
    bounds_ms: tuple[float, ...]

    def bucket_shares(self, scale: Floats, tail_share: Floats, tail_factor: float) -> Floats:
        """Return each bucket's share of the requests, shape (windows, buckets); rows sum to 1.

        All latencies are multiplied by `scale` (shape (windows,)), and those of `tail_share` of the requests
        (shape (windows,)) by `tail_factor` besides.
        """
        bounds = np.asarray(self.bounds_ms)[None, :] / scale[:, None]
        below = self.distribution.cdf(bounds)
        if tail_share.any():
            slow = tail_share[:, None]
            below = (1 - slow) * below + slow * self.distribution.cdf(bounds / tail_factor)
        return np.diff(below, axis=1, prepend=0.0)


def prometheus_quantile(buckets: dict[float, int], quantile: float) -> float:
    """Return a quantile (ms) as Prometheus' `histogram_quantile` estimates it; NaN of an empty histogram.

    `buckets` maps upper bounds, rising, `inf` last, to the requests in that bucket alone. It interpolates in
    a straight line within a bucket whose lower end is the bound before (0 for the first); in the last
    bucket it can only give the highest finite bound. https://prometheus.io/docs/prometheus/latest/querying/functions/
    """
    rank = quantile * sum(buckets.values())
    if rank <= 0:
        return math.nan
    reached, lower = 0, 0.0
    for bound, count in buckets.items():
        if count and reached + count >= rank:
            return lower if math.isinf(bound) else lower + (bound - lower) * (rank - reached) / count
        reached, lower = reached + count, bound
    return math.nan
