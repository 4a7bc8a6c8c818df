"""Records of whole releases, as their tasks write them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from slipway_core.record.events import (
    Event,
    EventWriter,
)
from slipway_core.record.kinds import (
    ReleaseFinished,
    ReleaseStarted,
    RollbackPhase,
    RollbackStarted,
    RolledBack,
    StageFinished,
    StageStarted,
    StepFinished,
    WeightIntended,
    WeightObserved,
    WindowJudged,
)

START = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)
WRITER = EventWriter(release_id="digits-3", model="digits", version=3)
V2, V3 = "s3://b/models/digits/2/repository", "s3://b/models/digits/3/repository"


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def rolled_back_release() -> list[Event]:
    """A release that passed one step, failed the next, and went back."""
    verdict = {"status": "inconclusive", "reason": "too little data"}
    write = WRITER
    return [
        write.event(1, at(0), ReleaseStarted(stable_storage_uri=V2)),
        write.event(2, at(1), StageStarted(stage="convert")),
        write.event(3, at(11), StageFinished(stage="convert", outcome="passed")),
        write.event(4, at(12), StageStarted(stage="canary")),
        write.event(5, at(13), WeightIntended(weight=5, storage_uri=V3, stable_storage_uri=V2)),
        write.event(6, at(14), WeightObserved(weight=5, traffic={"r2": 95, "r3": 5})),
        write.event(
            7,
            at(16),
            WindowJudged(verdict=verdict, candidate_requests=8, candidate_errors=0, first_bad_at=None),
        ),
        write.event(
            8,
            at(20),
            StepFinished(
                weight=5, verdict="pass", reason="", candidate_requests=60, candidate_errors=0, seconds=6.0
            ),
        ),
        write.event(9, at(20), WeightIntended(weight=50, storage_uri=V3, stable_storage_uri=V2)),
        write.event(10, at(21), WeightObserved(weight=50, traffic={"r2": 50, "r3": 50})),
        write.event(
            11,
            at(23),
            WindowJudged(verdict=verdict, candidate_requests=90, candidate_errors=7, first_bad_at=at(22)),
        ),
        write.event(
            12,
            at(24),
            StepFinished(
                weight=50,
                verdict="fail",
                reason="errors",
                candidate_requests=31,
                candidate_errors=9,
                seconds=3.0,
            ),
        ),
        write.event(13, at(24), RollbackStarted(reason="errors", by="judge", stable_storage_uri=V2)),
        write.event(14, at(24), RollbackPhase(phase="shield", detail="percent 0")),
        write.event(15, at(25.5), WeightObserved(weight=0, traffic={"r2": 100, "r3": 0})),
        write.event(16, at(26), RollbackPhase(phase="restore", detail="good URI")),
        write.event(
            17, at(30), RolledBack(stable_storage_uri=V2, candidate_requests=101, candidate_errors=11)
        ),
        write.event(18, at(31), StageFinished(stage="canary", outcome="refused", reason="errors")),
        write.event(19, at(32), ReleaseFinished(outcome="failed", reason="errors")),
    ]
