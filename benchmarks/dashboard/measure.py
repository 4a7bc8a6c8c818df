"""`dashboard_p95_ms`: how soon the overview and a model's document are there, with 100 models of 50 versions each.

The store is benchmarks/dashboard/store.py, the pages come from benchmarks/dashboard/server.py, each in a process of its
own. Asked is one page after another, over one connection: the overview, then a model that was not asked for before.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Sequence

import httpx

from benchmarks.dashboard.store import UNDER_WAY, model_name
from benchmarks.figure import Figure, MeasureError
from benchmarks.processes import server
from benchmarks.sorted_store import BUCKET

MODELS, VERSIONS, ROUNDS = 100, 50, 100
_LIMIT_S = 60.0


def measure() -> Figure:
    """Return the larger one of both pages' 95th percentiles; both, and the very first page, are in the note."""
    size = [str(number) for number in (MODELS, VERSIONS)]
    with (
        server([sys.executable, "-m", "benchmarks.dashboard.store", *size]) as endpoint,
        server([sys.executable, "-m", "benchmarks.dashboard.server", endpoint, BUCKET]) as address,
        httpx.Client(base_url=address, timeout=_LIMIT_S) as client,
    ):
        first_ms = _first_ms(client)
        overview, model = [], []
        for number in range(ROUNDS):
            name = model_name(number % MODELS)
            overview.append(_took_ms(client, "/", name))
            model.append(_took_ms(client, f"/api/models/{name}", name))
    worst = {"overview": percentile(overview, 0.95), "model": percentile(model, 0.95)}
    times = ", ".join(f"{page} {value:.0f} ms" for page, value in worst.items())
    note = (
        f"p95 of {ROUNDS} each: {times}; the first page after the start {first_ms:.0f} ms; {MODELS} models, "
        f"{VERSIONS} versions, {-(-MODELS // UNDER_WAY)} releases under way"
    )
    return Figure("dashboard_p95_ms", max(worst.values()), "ms", note=note)


def percentile(values: Sequence[float], share: float) -> float:
    """Return the smallest value that so large a share of the values does not exceed."""
    return sorted(values)[math.ceil(share * len(values)) - 1]


def _first_ms(client: httpx.Client) -> float:
    """Return how long the first overview took, loaded again while it says that nothing is known yet."""
    began = time.perf_counter()
    while client.get("/").status_code == httpx.codes.SERVICE_UNAVAILABLE:
        if time.perf_counter() - began > _LIMIT_S:
            raise MeasureError(f"no overview came within {_LIMIT_S:.0f} s")
    _took_ms(client, "/", model_name(0))
    return (time.perf_counter() - began) * 1000


def _took_ms(client: httpx.Client, path: str, expected: str) -> float:
    began = time.perf_counter()
    answer = client.get(path)
    took_ms = (time.perf_counter() - began) * 1000
    if answer.status_code != 200 or expected not in answer.text:
        raise MeasureError(
            f"{path} was answered with {answer.status_code}, without {expected}: {answer.text[:300]}"
        )
    return took_ms
