"""What a release run writes in its record, event by event, so that a test can leave one out or change one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta

from slipway_core.record.events import Event, EventWriter
from slipway_core.record.kinds import (
    Approved,
    CandidateVerified,
    Promoted,
    ReleaseFinished,
    ReleaseStarted,
    RollbackStarted,
    RolledBack,
    StageFinished,
    StepFinished,
    WeightIntended,
)
from slipway_core.record.requirements import Requirements

START = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)
RUN, OTHER_RUN = "digits-3", "digits-3-again"
DIGEST, OTHER_DIGEST = "a" * 64, "b" * 64
V2, V3 = "s3://b/models/digits/2/repository", "s3://b/models/digits/3/repository"
REQUIRED = Requirements(weights=(5, 50), approvals=("canary", "promotion"), by_other=True)
WEIGHTS = (0, 5, 50, 100)

Write = Callable[[EventWriter, int, datetime], Event]


def started(required: Requirements | None = REQUIRED, by: str | None = "alice") -> Write:
    return lambda write, seq, at: write.event(
        seq, at, ReleaseStarted(stable_storage_uri=V2, required=required, triggered_by=by)
    )


def finished(stage: str, outcome: str = "passed", digest: str = DIGEST) -> Write:
    return lambda write, seq, at: write.event(
        seq, at, StageFinished(stage=stage, outcome=outcome, reason="why", manifest_sha256=digest)
    )


def verified(digest: str = DIGEST) -> Write:
    return lambda write, seq, at: write.event(seq, at, CandidateVerified(manifest_sha256=digest))


def approved(before: str, by: str = "bob", digest: str = DIGEST) -> Write:
    return lambda write, seq, at: write.event(seq, at, Approved(before=before, by=by, manifest_sha256=digest))


def intended(weight: int) -> Write:
    return lambda write, seq, at: write.event(
        seq, at, WeightIntended(weight=weight, storage_uri=V3, stable_storage_uri=V2)
    )


def stepped(weight: int, verdict: str = "pass") -> Write:
    return lambda write, seq, at: write.event(
        seq,
        at,
        StepFinished(
            weight=weight, verdict=verdict, reason="", candidate_requests=1, candidate_errors=0, seconds=1.0
        ),
    )


def going_back() -> Write:
    return lambda write, seq, at: write.event(
        seq, at, RollbackStarted(reason="errors", by="judge", stable_storage_uri=V2)
    )


def gone_back() -> Write:
    return lambda write, seq, at: write.event(
        seq, at, RolledBack(stable_storage_uri=V2, candidate_requests=1, candidate_errors=1)
    )


def promotion(digest: str = DIGEST) -> Write:
    return lambda write, seq, at: write.event(seq, at, Promoted(storage_uri=V3, manifest_sha256=digest))


def ended(outcome: str) -> Write:
    return lambda write, seq, at: write.event(seq, at, ReleaseFinished(outcome=outcome))  # type: ignore[arg-type]


# What a release that proves itself writes, in order.
GOOD: tuple[Write, ...] = (
    started(),
    finished("validate"),
    finished("benchmark"),
    verified(),
    approved("canary"),
    intended(5),
    stepped(5),
    intended(50),
    stepped(50),
    finished("canary"),
    approved("promotion"),
)


def record(*writes: Write, run: str = RUN) -> list[Event]:
    return recorded([(run, write) for write in writes])


def recorded(writes: Sequence[tuple[str, Write]]) -> list[Event]:
    return [
        write(EventWriter(run, "digits", 3), number + 1, START + timedelta(seconds=number))
        for number, (run, write) in enumerate(writes)
    ]
