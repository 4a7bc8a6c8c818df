"""The latency of a converted model, inside the conversion's pod."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from typing import Any

from slipway_pod.models.answers import as_fed, rows_of_a_request
from slipway_pod.models.rows import GoldenRows
from slipway_pod.models.tensors import Signature

LATENCY_RUNS = 200
LATENCY_LIMIT_S = 2.0


def measure_latency(session: Any, signature: Signature, golden: GoldenRows, where: str) -> dict[str, Any]:
    """Return how long the converted model takes for one golden row after the other, in milliseconds; `where` it ran."""
    rows, size = golden.rows, rows_of_a_request(signature, golden) or 1
    taken_ms: list[float] = []
    ends_at = time.monotonic() + LATENCY_LIMIT_S
    # The first run warms up, and does not count.
    for turn in range(-1, LATENCY_RUNS):
        feeds = {column: as_fed(array) for column, array in golden.take([turn % rows] * size).items()}
        started = time.perf_counter()
        session.run(None, feeds)
        if turn >= 0:
            taken_ms.append(1000 * (time.perf_counter() - started))
        if taken_ms and time.monotonic() > ends_at:
            break
    taken_ms.sort()
    p50, p99 = (nearest_rank(taken_ms, percent) for percent in (50, 99))
    what = f"in process, {where}: to compare variants, not a benchmark of a server"
    figures = {"batch_size": size, "runs": len(taken_ms), "p50_ms": round(p50, 4), "p99_ms": round(p99, 4)}
    return {"what": what, **figures}


def nearest_rank(ordered: Sequence[float], percent: float) -> float:
    """Return the nearest-rank percentile: the smallest value that at least `percent` of all do not exceed."""
    return ordered[max(1, math.ceil(percent / 100 * len(ordered))) - 1]
