"""What one round has measured, in one form whatever tool made the load."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from slipway_pod.models.latency import nearest_rank

_PERCENTS = (10, 50, 90, 95, 99)
_NAMES = ("avg", *(f"p{percent}" for percent in _PERCENTS))


@dataclass(frozen=True)
class Load:
    """A level of load: so many requests in flight, or so many a second. The other one is None."""

    concurrency: int | None = None
    request_rate_rps: float | None = None

    def __str__(self) -> str:
        if self.request_rate_rps is not None:
            return f"{self.request_rate_rps:g} requests/s"
        return f"concurrency {self.concurrency}"

    def requests(self, asked: int) -> int:
        """Return how many requests a round has: those asked for, and at least a second of them at a request rate.

        perf_analyzer, which genai-perf drives too, takes no fewer.
        """
        return max(asked, math.ceil(self.request_rate_rps or 0))

    @property
    def name(self) -> str:
        """Return the level as a part of a file's name."""
        if self.request_rate_rps is not None:
            return f"rate-{self.request_rate_rps:g}"
        return f"concurrency-{self.concurrency}"


@dataclass(frozen=True)
class Quantiles:
    """A latency's average and quantiles, in milliseconds."""

    avg_ms: float
    p10_ms: float
    p50_ms: float
    p90_ms: float
    p95_ms: float
    p99_ms: float

    @classmethod
    def of(cls, latencies_ms: Sequence[float]) -> Quantiles:
        """Return those of single latencies, by nearest rank; zeros if there is none."""
        ordered = sorted(latencies_ms) or [0.0]
        average = sum(ordered) / len(ordered)
        return cls(round(average, 4), *(round(nearest_rank(ordered, percent), 4) for percent in _PERCENTS))

    @classmethod
    def from_report(cls, metric: Mapping[str, Any] | None) -> Quantiles | None:
        """Return those that a tool reports in milliseconds as `avg`, `p10`, …; None if one is not a number."""
        values = [(metric or {}).get(name, math.nan) for name in _NAMES]
        if not all(isinstance(value, int | float) and math.isfinite(value) for value in values):
            return None
        return cls(*(round(float(value), 4) for value in values))


@dataclass(frozen=True)
class RoundFigures:
    """The figures of one round. Throughput counts answers without error; latencies are those of such answers."""

    requests: int
    errors: int
    throughput_rps: float
    latency: Quantiles
    ttft_ms: Quantiles | None = None
    itl_ms: Quantiles | None = None
    output_tokens_per_s: float | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the figures as they stand in `result.json`; the latency's own beside the others."""
        figures = asdict(self)
        return {**figures, **figures.pop("latency")}
