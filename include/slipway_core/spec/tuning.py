"""The release file's `tuning`: what `model_tuning` searches for, and within which limits."""

from __future__ import annotations

import math
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from slipway_core.spec.load import LoadLevel
from slipway_core.spec.parts import Count, Milliseconds, SpecPart
from slipway_core.spec.schedules.cron import Cron

Quantile = Literal["p50", "p90", "p95", "p99"]
QueueDelay = Annotated[int, Field(ge=0, le=1_000_000)]
InstanceCount = Annotated[int, Field(ge=1, le=64)]
Concurrency = Annotated[int, Field(ge=1, le=4096)]


class TuningSearch(SpecPart):
    """The values that are searched, each a list: a list with one value keeps it as it is."""

    max_queue_delays_us: Annotated[tuple[QueueDelay, ...], Field(max_length=32)] = (
        0,
        100,
        500,
        1000,
        2000,
        5000,
    )
    """How long Triton may wait for a batch; empty: only without dynamic batching."""
    preferred_batch_sizes: Annotated[tuple[tuple[Count, ...], ...], Field(min_length=1, max_length=16)] = (
        (),
        (4,),
        (8,),
        (16,),
    )
    """Each a list of batch sizes; the empty list prefers none. Sizes above `max_batch_size` are left out."""
    without_batching: bool = True
    """Search without dynamic batching as well."""
    instances: Annotated[tuple[InstanceCount, ...], Field(min_length=1, max_length=16)] = (1, 2, 4)
    """How many copies of the model run side by side, for each GPU where there are some."""


class Tuning(SpecPart):
    """How `model_tuning` searches for better values of `serving`. It only proposes; it changes no file."""

    objective: Literal["latency", "throughput"] = "throughput"
    """`latency`: the lowest latency at a fixed rate of requests; `throughput`: the most answers a second while the
    latency keeps its bound.
    """
    quantile: Quantile = "p95"
    """The quantile of the latency."""
    request_rate_rps: Annotated[float, Field(gt=0, le=1_000_000)] | None = None
    """For `objective: latency`: how many requests are sent each second, whether or not answers come."""
    latency_max_ms: Milliseconds | None = None
    """For `objective: throughput`: the bound; default: `benchmark.slo.p99_ms`."""
    concurrencies: Annotated[tuple[Concurrency, ...], Field(min_length=1, max_length=16)] = (1, 4, 16)
    """For `objective: throughput`: how many requests are under way at a time, one measurement each."""
    trials: Annotated[int, Field(ge=1, le=500)] = 16
    """How many settings are tried at most, besides Triton's defaults and the present setting."""
    budget_s: Annotated[int, Field(ge=1, le=24 * 3600)] = 900
    """How long the trials may take together; the one under way is finished, then the best is confirmed."""
    requests: Count = 400
    """Requests of one measurement; more where they would be sent within less than a second."""
    rounds: Annotated[int, Field(ge=1, le=20)] = 3
    """How often a trial is measured. After each round a trial that is hopeless ends early."""
    confirm_rounds: Annotated[int, Field(ge=3, le=50)] = 7
    """How often the best setting and Triton's defaults are measured in turns at the end."""
    gain_min_percent: Annotated[float, Field(ge=0, lt=100)] = 5.0
    """A smaller gain isn't proposed."""
    seed: Annotated[int, Field(ge=0, lt=2**31)] = 1
    """The same seed and the same measurements give the same trials."""
    search: TuningSearch = TuningSearch()
    schedule: Cron | None = None
    """When `model_tuning` searches again for the live version, in five fields of cron, UTC, such as `0 2 1 * *`; left
    out: only when somebody starts it."""

    @model_validator(mode="after")
    def _has_a_rate(self) -> Self:
        if self.objective == "latency" and self.request_rate_rps is None:
            raise ValueError("`objective: latency` needs `request_rate_rps`")
        return self

    def requests_at(self, load: LoadLevel) -> int:
        """Return the requests of one measurement at a load: perf_analyzer wants a second of them at the least."""
        return max(self.requests, math.ceil(load.request_rate_rps or load.concurrency or 1))
