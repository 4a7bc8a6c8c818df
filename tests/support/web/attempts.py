"""A release on its way into the store: what its tasks say, one event after another."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from slipway.hooks.s3_store import ModelStoreHook
from slipway_core.bucket_layout import repository_paths
from slipway_core.record.events import Event
from slipway_core.record.kinds import (
    Approved,
    EventData,
    Promoted,
    ReleaseFinished,
    ReleaseStarted,
    RollbackPhase,
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
from slipway_core.record.requirements import Before, Requirements

PLAN = (5, 25, 50)
MINUTE = timedelta(minutes=1)
_STAGES = ("convert", "publish", "stage", "validate", "benchmark")


@dataclass
class Attempt:
    """One release on its way into the store."""

    store: ModelStoreHook
    model: str
    version: int
    stable: int | None
    begins: datetime
    by: str | None = "mira"
    approvals: tuple[Before, ...] = ()
    reason: str | None = None
    release_id: str = ""
    first_seq: int = 1

    def __post_init__(self) -> None:
        self._at, self.next_seq = self.begins, self.first_seq
        self.release_id = self.release_id or f"{self.model}-{self.version}"
        self.uri = self._uri(self.version)
        self.stable_uri = None if self.stable is None else self._uri(self.stable)

    def say(self, *said: EventData, after: timedelta = timedelta(seconds=20)) -> None:
        """Write events, one after another."""
        for data in said:
            self._at += after
            event = Event(self.next_seq, self._at, self.release_id, self.model, self.version, data)
            assert self.store.write_once(event.key, event.to_bytes())
            self.next_seq += 1

    def begin(self, *, until: str = "benchmark", ends: str = "passed", reason: str | None = None) -> None:
        """Write the stages up to one, and how that one ended; "": it still runs."""
        required = Requirements(weights=PLAN if self.stable else (), approvals=self.approvals)
        self.say(
            ReleaseStarted(
                stable_storage_uri=self.stable_uri,
                required=required,
                triggered_by=self.by,
                reason=self.reason,
            )
        )
        for stage in _STAGES:
            self.say(StageStarted(stage=stage))
            if stage != until:
                self.say(StageFinished(stage=stage, outcome="passed"), after=MINUTE)
                continue
            if ends:
                self.say(StageFinished(stage=stage, outcome=ends, reason=reason), after=MINUTE)
            return

    def approve(self, by: str, before: Before = "canary") -> None:
        """Write a person's agreement."""
        stage = "approve" if before == "canary" else "approve_promotion"
        self.say(
            StageStarted(stage=stage),
            Approved(before=before, by=by, manifest_sha256="0" * 64, reason="the figures are fine"),
            StageFinished(stage=stage, outcome="passed"),
        )

    def step(
        self, weight: int, verdict: str = "", *, requests: int = 400, errors: int = 1, reason: str = ""
    ) -> None:
        """Write a step of the canary; without a verdict it is under way."""
        self.say(
            WeightIntended(weight=weight, storage_uri=self.uri, stable_storage_uri=self.stable_uri),
            WeightObserved(weight=weight, traffic={"stable": 100 - weight, "candidate": weight}),
        )
        self.say(
            WindowJudged(
                verdict={"status": verdict or "inconclusive", "reason": reason or "too few requests yet"},
                candidate_requests=requests,
                candidate_errors=errors,
                first_bad_at=None,
            ),
            after=MINUTE,
        )
        if verdict:
            self.say(
                StepFinished(
                    weight=weight,
                    verdict=verdict,
                    reason=reason,
                    candidate_requests=requests,
                    candidate_errors=errors,
                    seconds=120.0,
                )
            )

    def promote(self) -> None:
        """Write all steps and the promotion."""
        if self.stable:
            self.say(StageStarted(stage="canary"))
            for weight in PLAN:
                self.step(weight, "pass", requests=weight * 40)
            self.say(StageFinished(stage="canary", outcome="passed"))
        self.say(
            StageStarted(stage="promote"),
            Promoted(storage_uri=self.uri),
            StageFinished(stage="promote", outcome="passed"),
            ReleaseFinished(outcome="promoted"),
        )

    def roll_back(self, reason: str) -> None:
        """Write a first step that fails, and the way back."""
        self.say(StageStarted(stage="canary"))
        self.step(PLAN[0], "fail", requests=210, errors=17, reason=reason)
        self.say(
            RollbackStarted(reason=reason, by="judge", stable_storage_uri=self.stable_uri),
            RollbackPhase(phase="shield", detail="percent 0"),
            WeightObserved(weight=0, traffic={"stable": 100, "candidate": 0}),
            RolledBack(
                stable_storage_uri=self.stable_uri,
                candidate_requests=210,
                candidate_errors=17,
                weight_0_at=self._at,
            ),
            StageFinished(stage="canary", outcome="refused", reason=reason),
            VersionRejected(reason=reason, stage="canary"),
            ReleaseFinished(outcome="rolled_back", refused_by="canary", reason=reason),
        )

    def refuse(self, stage: str, reason: str) -> None:
        """Write stages up to one that refuses the version."""
        self.begin(until=stage, ends="refused", reason=reason)
        self.say(
            VersionRejected(reason=reason, stage=stage),
            ReleaseFinished(outcome="refused", refused_by=stage, reason=reason),
        )

    def _uri(self, version: int) -> str:
        return repository_paths(self.model, version).storage_uri(self.store.bucket)
