"""`benchmark_false_refusals`, `benchmark_found_percent`: what the benchmark gate says on a machine that is busy.

A real tritonserver serves the demo's digits model, the same one as a candidate, and one whose graph has more work, so
that it is 30 % slower; how much it is, is measured before the machine is busy. Then ten processes that only compute run
beside server and load generator, and the gate is run again and again, each time by the pod's own program with the real
perf_analyzer. A false refusal is a `fail` of the same model; found is a `fail` of the slower one. What each run came to
lies in `.sandbox/bench/benchmark_gate.json`.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from functools import cache
from pathlib import Path
from queue import Queue
from typing import Any

from benchmarks.benchmark_gate.models import GOOD, SLOWER, add_slower, served
from benchmarks.benchmark_gate.rerun import BUCKET, GOLDEN_KEY, Gate
from benchmarks.figure import Figure
from benchmarks.processes import s3_client
from benchmarks.publishing.measure import object_store
from benchmarks.sandbox import PROJECT_ROOT
from slipway_core.spec.release_file import Benchmark, ServiceLevel
from slipway_digit_models.training import golden_set
from slipway_sandbox.host.child_process import end_with_parent

RERUNS = 50
BUSY_PROCESSES = 10
SLOWER_PERCENT = 30.0
# So many runs at a time, each with a server of its own; most of a run is the start of load generators.
LANES = 2
# The load decides what can be seen. Next to ten busy processes the median of a latency of 2 ms differs by 50 % from
# round to round, since half of the requests are interrupted; the fastest tenth differs by 10 %.
BENCHMARK = Benchmark(
    concurrency=1,
    requests=100,
    rounds=6,
    max_rounds=12,
    timeout_s=600,
    slo=ServiceLevel(p99_ms=60_000),
    compared=("p10",),
    max_regression_percent=10.0,
    regression_floor_ms=0.05,
)
_TABLE = PROJECT_ROOT / ".sandbox" / "bench" / "benchmark_gate.json"


def measure_false_refusals() -> Figure:
    """Count how often a version as good as stable is refused."""
    found = _runs()
    verdicts = Counter(row["status"] for row in found["runs"] if row["model"] == GOOD)
    note = f"of {verdicts.total()} runs of the same model; {_words(verdicts, found)}"
    return Figure("benchmark_false_refusals", float(verdicts["fail"]), "refusals", note=note)


def measure_found() -> Figure:
    """Measure how often a version that is 30 % slower is refused, in percent."""
    found = _runs()
    verdicts = Counter(row["status"] for row in found["runs"] if row["model"] == SLOWER)
    note = (
        f"{verdicts['fail']} of {verdicts.total()} runs of a model that is {found['slower_percent']:.0f} % slower; "
        f"{_words(verdicts, found)}"
    )
    return Figure("benchmark_found_percent", 100.0 * verdicts["fail"] / verdicts.total(), "%", note=note)


def _words(verdicts: Counter[str], found: dict[str, Any]) -> str:
    return f"{verdicts['inconclusive']} inconclusive; {BUSY_PROCESSES} busy processes; {found['seconds']:.0f} s in all"


@cache
def _runs(reruns: int = RERUNS) -> dict[str, Any]:
    """Return what all runs came to; both figures are taken of the same ones."""
    began = time.monotonic()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        endpoint = stack.enter_context(object_store())
        store = s3_client(endpoint)
        store.create_bucket(Bucket=BUCKET)
        store.put_object(Bucket=BUCKET, Key=GOLDEN_KEY, Body=golden_set(2))
        servers = [stack.enter_context(served(folder / f"models-{lane}")) for lane in range(LANES)]
        gates = [Gate(BENCHMARK, one.server.ports, endpoint, store) for one in servers]
        percent, content = add_slower(servers[0], SLOWER_PERCENT, gates[0].measure)
        for other in servers[1:]:
            other.load(SLOWER, content)
        results: dict[str, Any] = {"slower_percent": percent, "seconds": 0.0, "runs": []}
        stack.enter_context(busy(BUSY_PROCESSES))
        lanes = stack.enter_context(ThreadPoolExecutor(LANES))
        asked = [(model, number) for number in range(reruns) for model in (GOOD, SLOWER)]
        free = Queue[Gate]()
        for gate in gates:
            free.put(gate)
        for row in lanes.map(lambda one: _row(free, *one), asked):
            results["runs"].append(row)
            results["seconds"] = time.monotonic() - began
            _TABLE.parent.mkdir(parents=True, exist_ok=True)
            _TABLE.write_text(json.dumps(results, indent=1))
    return results


def _row(free: Queue[Gate], model: str, number: int) -> dict[str, Any]:
    """Run the gate once, on a server on which it is the only one."""
    gate = free.get()
    began = time.monotonic()
    try:
        verdict = gate.judge(model)
    finally:
        free.put(gate)
    row = {
        "model": model,
        "run": number,
        "status": verdict.status,
        "pairs": verdict.pairs,
        "warnings": len(verdict.warnings),
        "seconds": round(time.monotonic() - began, 1),
        "reasons": [one.sentence for one in verdict.comparisons if one.decision is not None],
    }
    print(f"  {number:>3} {model:<14} {verdict.status:<13} {row['reasons']}", file=sys.stderr, flush=True)
    return row


@contextmanager
def busy(processes: int) -> Iterator[None]:
    """Keep so many processes computing, which end with this one at the latest."""
    started = [
        subprocess.Popen([sys.executable, "-c", "while True: pass"], preexec_fn=end_with_parent)
        for _ in range(processes)
    ]
    try:
        yield
    finally:
        for one in started:
            one.kill()
            one.wait()
