"""`tuning_p95_reduction_percent`: by how much a tuning lowers p95 at a fixed request rate, from Triton's defaults.

The rate is `SHARE_OF_SATURATION` of what Triton's defaults (one instance, no dynamic batching) answer at most, measured
right before: near saturation requests queue, and that is where batching and instances count. At a rate of a few
requests a second no setting of the digits model is faster than the defaults, and a tuning says so.
"""

from __future__ import annotations

import json
import sys

from benchmarks.figure import Figure
from benchmarks.processes import run
from benchmarks.publishing.measure import object_store
from benchmarks.sandbox import PROJECT_ROOT

FOLDER = PROJECT_ROOT / ".sandbox" / "bench" / "tuning"


def measure() -> Figure:
    """Tune the demo's second digits model; the report and its page lie in `.sandbox/bench/tuning` then."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    with object_store() as endpoint:
        command = [sys.executable, "-m", "benchmarks.tuning.process", endpoint, str(FOLDER)]
        report = json.loads(run(command).splitlines()[-1])
    interval, rate = report["against_defaults"], report["request_rate_rps"]
    found = f"at {rate:.0f} requests/s, of {report['saturation_rps']:.0f} that the defaults answer at most"
    if interval is None:
        return Figure("tuning_p95_reduction_percent", 0.0, "%", note=f"{report['summary']} {found}")
    low, high = (100 * (1 - interval[bound]) for bound in ("high", "low"))
    note = (
        f"95 % interval {low:.0f} to {high:.0f} over {interval['rounds']} rounds in turns; {found}; "
        f"best of {len(report['trials'])} trials: {report['best']}; "
        f"drift of the defaults {report['drift_percent']} %"
    )
    return Figure("tuning_p95_reduction_percent", -interval["change_percent"], "%", note=note)
