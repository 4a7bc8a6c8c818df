"""What a tuning looks for: the loads of a round, what a trial costs, and whether it keeps the service level."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby

from slipway_core.spec.benchmark import ServiceLevel
from slipway_core.spec.load import LoadLevel
from slipway_core.spec.tuning import Tuning
from slipway_core.tuning.trials import Point
from slipway_core.written_numbers import amount, number

# A server that answers fewer than this share of the requests that come does not keep up: its queue only grows.
_KEPT_UP = 0.95


@dataclass(frozen=True)
class Objective:
    """The release file's `tuning` and `benchmark.slo` as questions to measurements.

    A *cost* is smaller for a better setting: milliseconds for `latency`, minus answers a second for `throughput`.
    There a round that keeps its bound nowhere costs how many times the bound it takes at least: more than any other.
    """

    tuning: Tuning
    slo: ServiceLevel

    @property
    def figure(self) -> str:
        """The figure that is made better, with its unit."""
        return "throughput_rps" if self.is_throughput else f"{self.tuning.quantile}_ms"

    @property
    def is_throughput(self) -> bool:
        """Whether throughput is looked for, else latency."""
        return self.tuning.objective == "throughput"

    @property
    def bound_ms(self) -> float:
        """For throughput: the most that the latency may be."""
        return self.tuning.latency_max_ms or self.slo.p99_ms

    def label(self) -> str:
        """Return the objective in words."""
        if self.is_throughput:
            return f"the most answers a second with {self.tuning.quantile} at most {amount(self.bound_ms)} ms"
        return f"the lowest {self.tuning.quantile} at {self.loads()[0].label}"

    def loads(self) -> tuple[LoadLevel, ...]:
        """Return the loads of one round."""
        if self.is_throughput:
            return tuple(LoadLevel(concurrency=one) for one in sorted(set(self.tuning.concurrencies)))
        return (LoadLevel(request_rate_rps=self.tuning.request_rate_rps),)

    def latency_ms(self, point: Point) -> float:
        """Return the latency that is meant."""
        return float(getattr(point, f"{self.tuning.quantile}_ms"))

    def best_of_round(self, points: Sequence[Point]) -> Point:
        """Return the measurement of a round that counts."""
        if not self.is_throughput:
            return points[0]
        within = [one for one in points if self.latency_ms(one) <= self.bound_ms and not self._fails(one)]
        if within:
            return max(within, key=lambda one: one.throughput_rps)
        return min(points, key=self.latency_ms)

    def cost_of_round(self, points: Sequence[Point]) -> float:
        """Return what one round costs."""
        best = self.best_of_round(points)
        if not self.is_throughput:
            return self.latency_ms(best)
        if self.latency_ms(best) > self.bound_ms:
            return self.latency_ms(best) / self.bound_ms
        return 0.0 if self._fails(best) else -best.throughput_rps

    def costs(self, points: Iterable[Point]) -> list[float]:
        """Return the cost after each round: the median of those so far."""
        each = [self.cost_of_round(one) for one in rounds_of(points)]
        return [statistics.median(each[:count]) for count in range(1, len(each) + 1)]

    def misses(self, points: Sequence[Point]) -> tuple[str, ...]:
        """Return which parts of the service level a setting misses, by the medians of its rounds; none: it keeps it."""
        best = [self.best_of_round(one) for one in rounds_of(points)]
        if not best:
            return ("nothing was measured",)
        found = []
        p99_ms = statistics.median(one.p99_ms for one in best)
        if p99_ms > self.slo.p99_ms:
            found.append(f"p99 is {number(p99_ms, 4)} ms; `benchmark.slo.p99_ms` is {self.slo.p99_ms:g}")
        errors = 100.0 * sum(one.errors for one in best) / max(1, sum(one.requests for one in best))
        if errors > self.slo.error_percent_max:
            found.append(
                f"{number(errors)} % of the requests failed; allowed are {self.slo.error_percent_max:g} %"
            )
        throughput = statistics.median(one.throughput_rps for one in best)
        if self.is_throughput:
            latency_ms = statistics.median(map(self.latency_ms, best))
            if latency_ms > self.bound_ms:
                found.append(
                    f"{self.tuning.quantile} is {number(latency_ms, 4)} ms; the bound is {amount(self.bound_ms)} ms"
                )
        elif self.tuning.request_rate_rps and throughput < _KEPT_UP * self.tuning.request_rate_rps:
            found.append(
                f"it answers {number(throughput, 4)} of {amount(self.tuning.request_rate_rps)} requests a second: "
                "it does not keep up, and its latency grows as long as that lasts"
            )
        return tuple(found)

    def _fails(self, point: Point) -> bool:
        return 100.0 * point.errors > self.slo.error_percent_max * point.requests


def rounds_of(points: Iterable[Point]) -> list[list[Point]]:
    """Return the measurements by round, in order."""
    ordered = sorted(points, key=lambda one: one.round)
    return [list(group) for _, group in groupby(ordered, key=lambda one: one.round)]
