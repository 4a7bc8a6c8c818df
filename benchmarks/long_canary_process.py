"""One side of `conclude_s_26000_events`, in a process of its own.

    python -m benchmarks.long_canary_process fill ENDPOINT
    python -m benchmarks.long_canary_process conclude ENDPOINT

`fill` appends the record's events as the tasks of a canary do, `conclude` runs the operator on it. Each prints what it
has measured as JSON in its last line.
"""

from __future__ import annotations

import json
import math
import random
import sys
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

from benchmarks.processes import peak_mib
from benchmarks.publishing.process import BUCKET, airflow
from slipway_core.canary.judge import CanaryJudge
from slipway_core.canary.verdict import Verdict
from slipway_core.metrics.samples import Sample, Window
from slipway_core.record.kinds import (
    EventData,
    ReleaseFinished,
    ReleaseStarted,
    RollbackStarted,
    RolledBack,
    StageStarted,
    WeightIntended,
    WeightObserved,
    WindowJudged,
)
from slipway_core.spec.release_file import parse_release_spec
from slipway_sandbox.host.settings import PROJECT_ROOT

EVENTS, ATTEMPTS, WINDOW_S = 26_000, 3, 10.0
MODEL, VERSION, WEIGHT = "digits", 3, 5
BOUNDS_MS = (0.5, 1, 2.5, 5, 10, 25, 50, 100, 250, 500, 1000, 2500, math.inf)
_SPEC = parse_release_spec((PROJECT_ROOT / "include" / "releases" / "digits.yaml").read_text(), "digits.yaml")
_STABLE_URI, _CANDIDATE_URI = (f"s3://{BUCKET}/models/{MODEL}/{number}/repository" for number in (2, VERSION))


def fill(endpoint: str) -> dict[str, Any]:
    """Append three attempts to release one version; the canary of the last was ended after a day."""
    with airflow(endpoint):
        from slipway.hooks.s3_store import ModelStoreHook
        from slipway.release_record.record import ReleaseRecord

        store, at = ModelStoreHook(BUCKET), datetime(2026, 1, 2, tzinfo=UTC)
        began, count = time.monotonic(), 0
        for attempt in range(ATTEMPTS):
            record = ReleaseRecord(store, MODEL, VERSION, f"attempt-{attempt}")
            for data in _attempt(seed=attempt, is_last=attempt == ATTEMPTS - 1):
                at, count = at + timedelta(seconds=WINDOW_S), count + 1
                record.append(data, at=at)
        return {"append_ms": 1000 * (time.monotonic() - began) / count}


def _attempt(seed: int, *, is_last: bool) -> Iterator[EventData]:
    """Yield one attempt's events: one step that is watched, without data once an hour, until it is taken back."""
    judge, randomness = CanaryJudge(_SPEC.rollout.analysis), random.Random(seed)
    judge.begin_step(WEIGHT, 1e6)
    yield ReleaseStarted(stable_storage_uri=_STABLE_URI)
    yield StageStarted(stage="canary")
    yield WeightIntended(weight=WEIGHT, storage_uri=_CANDIDATE_URI, stable_storage_uri=_STABLE_URI)
    yield WeightObserved(weight=WEIGHT, traffic={"stable": 100 - WEIGHT, "candidate": WEIGHT})
    for number in range(EVENTS // ATTEMPTS):
        no_data = number % 360 == 359
        verdict = judge.observe_failure("no answer") if no_data else judge.observe(_window(randomness))
        yield _judged(verdict)
    yield RollbackStarted(reason="a person", by="a person", stable_storage_uri=_STABLE_URI)
    yield WeightObserved(weight=0, traffic={"stable": 100})
    yield RolledBack(stable_storage_uri=_STABLE_URI, candidate_requests=None, candidate_errors=None)
    if not is_last:
        yield ReleaseFinished(outcome="rolled_back")


def _judged(verdict: Verdict) -> WindowJudged:
    totals = verdict.statistics.canary
    return WindowJudged(
        verdict=verdict.to_dict(),
        candidate_requests=totals.candidate_requests,
        candidate_errors=totals.candidate_errors,
        first_bad_at=None,
    )


def _window(randomness: random.Random) -> Window:
    """Return a window of 100 requests a second, 5 % of them to the candidate, which is no worse."""
    return Window(WINDOW_S, _sample(randomness, 950), _sample(randomness, 50))


def _sample(randomness: random.Random, mean: int) -> Sample:
    requests = max(0, round(randomness.gauss(mean, math.sqrt(mean))))
    buckets: dict[float, int] = dict.fromkeys(map(float, BOUNDS_MS), 0)
    left = requests
    for bound in BOUNDS_MS:
        share = 1.0 if bound == math.inf else 0.5 * math.erfc(math.log(8 / bound) / 0.6 / math.sqrt(2))
        buckets[float(bound)] = min(left, max(0, round(requests * share) - (requests - left)))
        left -= buckets[float(bound)]
    errors = sum(randomness.random() < 0.005 for _ in range(requests))
    return Sample(requests, errors, buckets)


def conclude(endpoint: str) -> dict[str, Any]:
    """Run the operator as the task of the last attempt does."""
    with airflow(endpoint):
        import matplotlib.figure  # noqa: F401  a worker's import, which is not the record's doing

        from slipway.hooks.s3_store import ModelStoreHook
        from slipway.operators import conclude
        from slipway.release_run import ReleaseRun, StableVersion

        release_run = ReleaseRun(
            release_id=f"attempt-{ATTEMPTS - 1}",
            model=MODEL,
            version=VERSION,
            bucket=BUCKET,
            spec=_SPEC,
            stable=StableVersion(version=2, storage_uri=_STABLE_URI),
        )
        operator = conclude.ConcludeReleaseOperator(
            task_id="conclude", release=release_run.model_dump_json(), wanted="rolled_back"
        )
        store: ModelStoreHook = operator.store
        assert store.client
        parts: dict[str, float] = {}
        operator.record.events = _timed("reading", parts, operator.record.events)  # type: ignore[method-assign]
        conclude.canary_files = _timed("evidence and page", parts, conclude.canary_files)
        began = time.monotonic()
        operator.run({"dag": SimpleNamespace(dag_id="model_release"), "ti": None})  # type: ignore[typeddict-item]
        seconds = time.monotonic() - began
        page = store.read(f"{release_run.evidence_prefix}canary.html") or b""
        return {
            "seconds": seconds,
            "parts": parts,
            "page_kib": len(page) / 1024,
            "peak_mib": peak_mib(),
        }


def _timed(name: str, parts: dict[str, float], act: Callable[..., Any]) -> Callable[..., Any]:
    """Return the same function; what its calls take is added up under its name."""

    def timed(*arguments: Any) -> Any:
        began = time.monotonic()
        try:
            return act(*arguments)
        finally:
            parts[name] = parts.get(name, 0.0) + time.monotonic() - began

    return timed


def main() -> None:
    """Do what the command line says."""
    side = {"fill": fill, "conclude": conclude}[sys.argv[1]]
    print(json.dumps(side(sys.argv[2])))


if __name__ == "__main__":
    main()
