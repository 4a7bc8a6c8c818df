"""A story as it should go, to be spoiled by the tests: records, runs and what clients counted."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from slipway_core.record.events import Event, EventWriter
from slipway_core.record.fold import fold
from slipway_core.record.kinds import (
    Promoted,
    ReleaseFinished,
    ReleaseStarted,
    RollbackStarted,
    RolledBack,
    StageFinished,
    StageStarted,
    StepFinished,
    WeightIntended,
    WeightObserved,
)
from slipway_sandbox.demo.airflow_client import DagRun
from slipway_sandbox.demo.chapters import CHAPTERS, ChapterResult
from slipway_sandbox.demo.counts import Snapshot, Traffic
from slipway_sandbox.load.answers import Answer

BEGIN = datetime(2026, 1, 2, 3, 4, 0, tzinfo=UTC)
"""Chapters begin a hundred seconds apart, from here on."""


def at(version: int, seconds: float) -> datetime:
    return BEGIN + timedelta(seconds=100 * (version - 1) + seconds)


def recorded(version: int, outcome: str, refused_by: str = "validate") -> list[Event]:
    """The record of a release that took 60 s; a canary was at 20 % from second 30 to second 50."""
    write = EventWriter(f"run-{version}", "digits", version)
    events = [
        write.event(1, at(version, 0), ReleaseStarted()),
        write.event(2, at(version, 1), StageStarted(stage="convert")),
        write.event(3, at(version, 11), StageFinished(stage="convert", outcome="passed")),
    ]
    if outcome == "refused":
        events.append(write.event(4, at(version, 12), StageStarted(stage=refused_by)))
        events.append(
            write.event(
                5,
                at(version, 15),
                StageFinished(stage=refused_by, outcome="refused", reason="[64] is not [8, 8]"),
            )
        )
        events.append(
            write.event(
                6,
                at(version, 60),
                ReleaseFinished(outcome="refused", refused_by=refused_by, reason="[64] is not [8, 8]"),
            )
        )
        return events
    uri, stable = f"s3://slipway/models/digits/{version}/repository", None if version == 1 else "s3://stable"
    events += [
        write.event(
            4, at(version, 30), WeightIntended(weight=20, storage_uri=uri, stable_storage_uri=stable)
        ),
        write.event(5, at(version, 31), WeightObserved(weight=20, traffic={"new": 20, "old": 80})),
    ]
    if outcome == "promoted":
        events.append(_step(write, 6, version, "pass", errors=0))
        events.append(write.event(7, at(version, 55), Promoted(storage_uri=uri)))
    else:
        events.append(_step(write, 6, version, "fail", errors=12))
        events.append(
            write.event(
                7, at(version, 49), RollbackStarted(reason="errors", by="judge", stable_storage_uri=stable)
            )
        )
        events.append(
            write.event(8, at(version, 50), WeightObserved(weight=0, traffic={"new": 0, "old": 100}))
        )
        events.append(
            write.event(
                9,
                at(version, 55),
                RolledBack(
                    stable_storage_uri=stable,
                    candidate_requests=40,
                    candidate_errors=12,
                    first_bad_at=at(version, 32),
                ),
            )
        )
    last = write.event(events[-1].seq + 1, at(version, 60), ReleaseFinished(outcome=outcome))  # type: ignore[arg-type]
    return [*events, last]


def _step(write: EventWriter, seq: int, version: int, verdict: str, errors: int) -> Event:
    return write.event(
        seq,
        at(version, 48),
        StepFinished(
            weight=20,
            verdict=verdict,
            reason="",
            candidate_requests=40,
            candidate_errors=errors,
            seconds=17.0,
        ),
    )


def result_of(version: int, events: Sequence[Event], run_state: str = "success") -> ChapterResult:
    run = DagRun("model_release", f"run-{version}", run_state, at(version, 0), at(version, 60))
    return ChapterResult(CHAPTERS[version - 1], run, events, fold(events) if events else None)


def failed(version: int, seconds: float, revision: str | None) -> Answer:
    moment = at(version, seconds).timestamp()
    return Answer(moment, moment, moment, "http", revision, "HTTP 500: no")


def counted(failures: Sequence[Answer]) -> Traffic:
    """What clients counted from second 60 on: version 1, then 2 with a while of 3 beside it, 2 at the end."""
    revisions = {f"digits-predictor-0000{version}": str(version) for version in (1, 2, 3)}
    answers: dict[str, int] = {}
    snapshots = []
    for second in range(60, 400):
        version = "1" if second < 150 else "3" if 230 <= second < 250 and second % 5 == 0 else "2"
        answers[version] = answers.get(version, 0) + 50
        total = sum(answers.values())
        snapshots.append(
            Snapshot(
                at=(BEGIN + timedelta(seconds=second)).timestamp(),
                requests=total + len(failures),
                failed=len(failures),
                wrong=0,
                by_protocol={"http": total // 2, "grpc": total - total // 2},
                answered_by=dict(answers),
                versions=revisions,
            )
        )
    return Traffic(snapshots, failures)


@pytest.fixture
def good_story() -> list[ChapterResult]:
    """All four chapters as they should go."""
    return [
        result_of(1, recorded(1, "promoted")),
        result_of(2, recorded(2, "promoted")),
        result_of(3, recorded(3, "rolled_back"), "failed"),
        result_of(4, recorded(4, "refused"), "failed"),
    ]


@pytest.fixture
def good_traffic() -> Traffic:
    """Twelve requests failed, all on version 3 while it was a candidate."""
    return counted([failed(3, 32 + second, "digits-predictor-00003") for second in range(12)])


@pytest.fixture
def build() -> Any:
    """The builders of this module, for tests that spoil a part."""
    return {"recorded": recorded, "result_of": result_of, "failed": failed, "counted": counted}
