"""`conclude_s_26000_events`: what the task `conclude` takes after three days of a canary with windows of 10 s.

The record has 26,000 windows as the judge has judged them, in three attempts, appended one after the other as a canary
does; so the segments lie there that it leaves behind. S3 is moto's server in a process of its own.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from benchmarks.figure import Figure
from benchmarks.processes import run
from benchmarks.publishing.measure import object_store

_LIMIT_S = 60


def measure() -> Figure:
    """Return seconds from the first request of the task to the lock that is given back."""
    with object_store() as endpoint:
        filled = _side("fill", endpoint)
        concluded = _side("conclude", endpoint)
    parts = ", ".join(f"{name} {seconds:.1f}" for name, seconds in concluded["parts"].items())
    note = (
        f"to stay below {_LIMIT_S}; {parts}; peak {concluded['peak_mib']:.0f} MiB; "
        f"canary.html {concluded['page_kib']:.0f} KiB; an append took {filled['append_ms']:.1f} ms"
    )
    return Figure("conclude_s_26000_events", concluded["seconds"], "s", note=note)


def _side(side: str, endpoint: str) -> dict[str, Any]:
    command = [sys.executable, "-m", "benchmarks.long_canary_process", side, endpoint]
    outcome: dict[str, Any] = json.loads(run(command).splitlines()[-1])
    return outcome
