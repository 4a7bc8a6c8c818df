"""Plans and trials of a tuning, as values."""

from __future__ import annotations

from typing import Any

from slipway_core.spec.benchmark import ServiceLevel
from slipway_core.spec.load import LoadLevel
from slipway_core.spec.tuning import Tuning
from slipway_core.tuning.settings import Setting, present_setting, space_of, triton_defaults
from slipway_core.tuning.trials import Point, Trial, TrialKind, TuningPlan

CONFIG: dict[str, Any] = {
    "name": "digits",
    "max_batch_size": 64,
    "dynamic_batching": {"max_queue_delay_microseconds": 1000},
    "instance_group": [{"kind": "KIND_CPU", "count": 1}],
    "version_policy": {"specific": {"versions": [1]}},
}
AT_RATE = {"objective": "latency", "request_rate_rps": 100.0}


def make_plan(
    *, config: dict[str, Any] | None = None, slo_p99_ms: float = 100.0, **tuning: Any
) -> TuningPlan:
    """Return a plan for the digits model; `tuning` as in the release file, latency at 100 requests/s by default."""
    asked = Tuning.model_validate({**AT_RATE, **tuning}, strict=False)
    published = config or CONFIG
    return TuningPlan(
        model="digits",
        version=1,
        run="manual",
        manifest_sha256="7" * 64,
        tuning=asked,
        slo=ServiceLevel(p99_ms=slo_p99_ms),
        space=space_of(asked.search, published),
        defaults=triton_defaults(published),
        present=present_setting(published),
    )


def point(p95_ms: float, number: int = 1, **figures: Any) -> Point:
    """Return a measurement; every latency follows from its p95."""
    values = {"requests": 400, "errors": 0, "throughput_rps": 100.0, **figures}
    latencies = {"p50_ms": p95_ms / 2, "p90_ms": p95_ms * 0.9, "p95_ms": p95_ms, "p99_ms": p95_ms * 1.2}
    return Point(round=number, load=LoadLevel(request_rate_rps=100.0), **{**latencies, **values})


def trial(number: int, setting: Setting, *p95_ms: float, kind: TrialKind = "search", **changes: Any) -> Trial:
    """Return a trial that was measured to its end, one round a latency."""
    points = tuple(point(one, place) for place, one in enumerate(p95_ms, start=1))
    values: dict[str, Any] = {"state": "complete", "points": points, "seconds": 10.0, **changes}
    return Trial(number=number, kind=kind, setting=setting, **values)
