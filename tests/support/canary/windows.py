"""Windows and judges for tests: requests, errors and latencies of stable and candidate."""

from __future__ import annotations

import math

from slipway_core.canary.judge import AnalysisPolicy, CanaryJudge, Window
from slipway_core.metrics.samples import Sample

BUCKETS = (5.0, 10.0, 20.0, 50.0, 100.0, math.inf)


def window(stable: tuple[int, int], candidate: tuple[int, int], seconds: float = 2.0) -> Window:
    """A window of (requests, errors) without latencies."""
    return Window(seconds, Sample(*stable), Sample(*candidate))


def timed(stable: tuple[int, ...], candidate: tuple[int, ...]) -> Window:
    """A window without errors, from the counts in BUCKETS."""
    return Window(
        10.0,
        Sample(sum(stable), 0, dict(zip(BUCKETS, stable, strict=True))),
        Sample(sum(candidate), 0, dict(zip(BUCKETS, candidate, strict=True))),
    )


def judge(weight: int = 5, bake_s: float = 0.0, **policy: float) -> CanaryJudge:
    made = CanaryJudge(AnalysisPolicy.from_mapping(policy))
    made.begin_step(weight, bake_s)
    return made


def windows_until_fail(judged: CanaryJudge, windows: list[Window]) -> int | None:
    for number, seen in enumerate(windows, start=1):
        if judged.observe(seen).status == "fail":
            return number
    return None
