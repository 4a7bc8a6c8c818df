"""`metrics_p95_ms`: how soon Prometheus has the numbers of 100 models with 50 versions each.

Store and server are those of `dashboard_p95_ms`. A scrape asks after a pause in which what is known grows too old to be
notified again, so that each of them has something read from the store.
"""

from __future__ import annotations

import sys
import time

import httpx

from benchmarks.dashboard.measure import MODELS, VERSIONS, percentile
from benchmarks.dashboard.store import UNDER_WAY, model_name
from benchmarks.figure import Figure, MeasureError
from benchmarks.processes import server
from benchmarks.sorted_store import BUCKET

SCRAPES, PAUSE_S = 40, 3.2
_LIMIT_S = 60.0
_ACCEPT = {"Accept": "application/openmetrics-text;version=1.0.0"}


def measure() -> Figure:
    """Return the 95th percentile of the scrapes; the very first one and how much there is are in the note."""
    size = [str(number) for number in (MODELS, VERSIONS)]
    with (
        server([sys.executable, "-m", "benchmarks.dashboard.store", *size]) as endpoint,
        server([sys.executable, "-m", "benchmarks.dashboard.server", endpoint, BUCKET]) as address,
        httpx.Client(base_url=address, timeout=_LIMIT_S, headers=_ACCEPT) as client,
    ):
        first_ms, text = _first(client)
        took_ms = []
        for _ in range(SCRAPES):
            time.sleep(PAUSE_S)
            one_ms, text = _scrape(client)
            took_ms.append(one_ms)
    series = [line for line in text.splitlines() if not line.startswith("#")]
    note = (
        f"p95 of {SCRAPES} scrapes, {PAUSE_S:g} s apart; the first after the start {first_ms:.0f} ms; "
        f"{len(series)} series, {len(text) / 1000:.0f} kB; {MODELS} models, {VERSIONS} versions, "
        f"{-(-MODELS // UNDER_WAY)} releases under way"
    )
    return Figure("metrics_p95_ms", percentile(took_ms, 0.95), "ms", note=note)


def _first(client: httpx.Client) -> tuple[float, str]:
    """Return how long it took until a scrape was answered: on a busy machine the first one may come too early."""
    began = time.perf_counter()
    while client.get("/metrics").status_code == 503 and time.perf_counter() < began + _LIMIT_S:
        time.sleep(0.1)
    _, text = _scrape(client)
    return (time.perf_counter() - began) * 1000, text


def _scrape(client: httpx.Client) -> tuple[float, str]:
    began = time.perf_counter()
    answer = client.get("/metrics")
    took_ms = (time.perf_counter() - began) * 1000
    last = f'slipway_live_version{{model="{model_name(MODELS - 1)}"}}'
    if answer.status_code != 200 or last not in answer.text:
        raise MeasureError(
            f"/metrics was answered with {answer.status_code}, without {last}: {answer.text[:300]}"
        )
    return took_ms, answer.text
