"""An S3 with the records and documents of many models; a release of some of them is under way.

    python -m benchmarks.dashboard.store MODELS VERSIONS

It prints its port and serves until its standard input ends. Each document is folded from events, as releases write
them. The events of versions that are over are names only: no page that is measured reads them.
"""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

from benchmarks.sorted_store import serve
from slipway_core.bucket_layout import live_key, model_view_key, repository_paths
from slipway_core.canary.judge import AnalysisPolicy, CanaryJudge
from slipway_core.canary.totals import Totals
from slipway_core.metrics.samples import Sample, Window
from slipway_core.read_model.live_fold import Watched, live_document, live_window
from slipway_core.read_model.model_fold import ModelContext, model_document, open_release, version_line
from slipway_core.record.events import Event
from slipway_core.record.kinds import (
    EventData,
    Promoted,
    ReleaseFinished,
    ReleaseStarted,
    RollbackStarted,
    RolledBack,
    StageFinished,
    StageStarted,
    StepFinished,
    VersionRejected,
    WeightIntended,
    WeightObserved,
    WindowJudged,
)
from slipway_core.record.requirements import Requirements
from slipway_core.spec.rollout.plan import CanaryPlan, RolloutStep

WEIGHTS = (5, 25, 50, 99)
WINDOWS = 20
"""Windows of each step, and four times as many in a live document."""
UNDER_WAY = 10
"""A release of every tenth model is under way."""
_STAGES = ("convert", "publish", "stage", "validate", "benchmark")
_PLAN = CanaryPlan(tuple(RolloutStep(weight=weight, bake_s=600) for weight in WEIGHTS))


def model_name(number: int) -> str:
    """Return the name of a model."""
    return f"model-{number:03}"


def events_of(model: str, version: int, live: int | None, ends: str, begins_at: datetime) -> list[Event]:
    """Return the record of a version.

    :param live: the version that is live when its release begins.
    :param ends: `promoted`, `rolled_back`, or `open`.
    """
    said = list(_said(model, version, live, ends))
    release_id = f"{model}-{version}"
    return [
        Event(seq, begins_at + timedelta(seconds=20 * seq), release_id, model, version, data)
        for seq, data in enumerate(said, start=1)
    ]


def _said(model: str, version: int, live: int | None, ends: str) -> Iterator[EventData]:
    own = repository_paths(model, version).storage_uri("bench")
    stable = None if live is None else repository_paths(model, live).storage_uri("bench")
    weights = () if live is None else WEIGHTS
    yield ReleaseStarted(
        stable_storage_uri=stable,
        required=Requirements(weights=weights),
        triggered_by="ada",
        reason="trained on the data of this week",
    )
    for stage in _STAGES:
        yield StageStarted(stage=stage)
        yield StageFinished(stage=stage, outcome="passed")
    yield StageStarted(stage="canary")
    for weight in weights if ends == "promoted" else weights[:2]:
        yield WeightIntended(weight=weight, storage_uri=own, stable_storage_uri=stable)
        yield WeightObserved(weight=weight, traffic={"old": 100 - weight, "new": weight})
        for _ in range(WINDOWS):
            verdict = {"status": "pass", "reason": "nothing speaks against it"}
            yield WindowJudged(
                verdict=verdict, candidate_requests=1000, candidate_errors=1, first_bad_at=None
            )
        if ends == "open" and weight == weights[1]:
            return
        yield StepFinished(
            weight=weight,
            verdict="pass" if ends == "promoted" else "fail",
            reason="as the windows tell",
            candidate_requests=1000,
            candidate_errors=1,
            seconds=600.0,
        )
    if ends == "promoted":
        yield StageFinished(stage="canary", outcome="passed")
        yield Promoted(storage_uri=own)
    else:
        reason = "more errors than stable: the evidence against the candidate reached its threshold"
        yield RollbackStarted(reason=reason, by="judge", stable_storage_uri=stable)
        yield RolledBack(stable_storage_uri=stable, candidate_requests=1000, candidate_errors=40)
        yield StageFinished(stage="canary", outcome="refused", reason=reason)
        yield VersionRejected(reason=reason, stage="canary")
    yield ReleaseFinished(outcome=ends)


def seeded(models: int, versions: int, now: datetime) -> tuple[dict[str, bytes], list[str]]:
    """Return objects by their keys, and the keys of which nothing but the name is needed."""
    objects: dict[str, bytes] = {}
    names: list[str] = []
    for number in range(models):
        model, live = model_name(number), None
        lines, stands = [], None
        for version in range(1, versions + 1):
            ends = "rolled_back" if version % 5 == 0 else "promoted"
            if version == versions and number % UNDER_WAY == 0:
                ends = "open"
            begins_at = now - timedelta(days=versions - version, minutes=30)
            events = events_of(model, version, live, ends, begins_at)
            if ends == "open":
                objects |= {event.key: event.to_bytes() for event in events}
                stands = open_release(events)
                objects[live_key(model)] = _live(model, version, now)
            names += [event.key for event in events]
            lines.append(version_line(events))
            live = version if ends == "promoted" else live
        document = model_document(model, lines, open_now=(stands,), context=ModelContext(), written_at=now)
        objects[model_view_key(model)] = document.to_bytes()
    return objects, names


def _live(model: str, version: int, now: datetime) -> bytes:
    judge = CanaryJudge(AnalysisPolicy())
    judge.begin_step(WEIGHTS[1], 600.0)
    buckets = {float(bound): 10 for bound in (5, 10, 25, 50, 100, 250)}
    verdict = judge.observe(Window(10.0, Sample(60, 0, buckets), Sample(60, 0, buckets)))
    watched = Watched(model, version, f"{model}-{version}", 1, 25, 200.0, False, "", "", verdict, Totals())
    windows = [live_window(verdict, now - timedelta(seconds=10 * ago)) for ago in range(4 * WINDOWS, 0, -1)]
    return live_document(watched, _PLAN, windows, at=now).to_bytes()


if __name__ == "__main__":
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    objects, names = seeded(*map(int, sys.argv[1:]), datetime.now(UTC))
    print(serve(objects.items(), names).get_host_and_port()[1], flush=True)
    print(json.dumps({"objects": len(objects), "names": len(names)}), file=sys.stderr)
    sys.stdin.read()
