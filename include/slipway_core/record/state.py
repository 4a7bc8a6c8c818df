"""What is known about a release: the state to which its events fold, and the report made of it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Literal, TypedDict

from slipway_core.admitted import Admitted
from slipway_core.record.events import Outcome
from slipway_core.record.requirements import Requirements


@dataclass(frozen=True)
class Stage:
    """One stage of an attempt.

    `outcome` is `running` until it is over, `seconds` counts from its first start, `manifest_sha256` tells which
    version a gate has looked at.
    """

    name: str
    outcome: str
    seconds: float | None
    started_at: datetime | None = None
    reason: str | None = None
    manifest_sha256: str | None = None


@dataclass(frozen=True)
class ApprovalGiven:
    """A person's agreement, `before` the `canary` or the `promotion`, to the version with that manifest."""

    before: str
    by: str
    manifest_sha256: str
    at: datetime


@dataclass(frozen=True)
class StepResult:
    """One finished step of the canary; counts and seconds are the step's own."""

    weight: int
    verdict: str
    candidate_requests: int
    candidate_errors: int
    seconds: float
    reason: str = ""


@dataclass(frozen=True)
class Rejection:
    """Why a version shall not be released any more: event number `seq`.

    `by` is the person who said so; None: the release's own `stage` did. `released_by` are the people whose releases it
    was about: who started the newest one, and who started the one that promoted it.
    """

    seq: int
    at: datetime
    reason: str
    by: str | None = None
    stage: str | None = None
    released_by: tuple[str, ...] = ()

    @property
    def sentence(self) -> str:
        """Who rejected it, when and why, in words."""
        who = self.by or f"the stage {self.stage or 'that is not named'} of its release"
        return f"rejected by {who} on {self.at:%Y-%m-%d at %H:%M:%S} UTC: {self.reason}"


@dataclass(frozen=True)
class HoldOverride:
    """A person's word that a freeze, or a closed release window, with this digest does not hold the version."""

    by: str
    reason: str
    hold_sha256: str
    at: datetime


@dataclass(frozen=True)
class ReleaseState:
    """What the record says about the newest attempt to release a version.

    `required` is what this attempt must prove before a raise, `admitted` what its tasks must have been handed,
    None if the record does not tell. `verified_sha256`
    is the digest of the manifest that every published file was checked against, "" before that. `exposed` tells
    whether users were to meet this version. `standing` is about all attempts: whether the version was promoted last
    or rolled back last, "" if neither ever happened; `promoted_sha256` is the manifest it was promoted with,
    `promoted_for` the person who started that release.
    `earlier` are the outcomes of the attempts before this one, `open` for one that never ended.
    `landed_at` is when training had left the version, `rollback_started_at` when it was decided to take it back.
    `rejection` is about all attempts, too: the last one, unless somebody has lifted it. `rolled_back_by` tells whose
    decision the rollback of this attempt was. `overrides` are about all attempts; `held` says what the next raise of
    this one waits for, "" if it waits for nothing.
    """

    model: str
    version: int
    release_id: str
    attempts: int = 1
    earlier: tuple[Outcome, ...] = ()
    outcome: Outcome = "open"
    refused_by: str | None = None
    reason: str | None = None
    triggered_by: str | None = None
    required: Requirements | None = None
    admitted: Admitted | None = None
    verified_sha256: str = ""
    approvals: tuple[ApprovalGiven, ...] = ()
    exposed: bool = False
    standing: Literal["", "promoted", "rolled_back"] = ""
    promoted_sha256: str = ""
    promoted_for: str | None = None
    rejection: Rejection | None = None
    overrides: tuple[HoldOverride, ...] = ()
    held: str = ""
    landed_at: datetime | None = None
    started_at: datetime | None = None
    finished_at: datetime | None = None
    stages: tuple[Stage, ...] = ()
    canary: tuple[StepResult, ...] = ()
    stable_storage_uri: str | None = None
    storage_uri: str | None = None
    weight: int | None = None
    intended_weight: int | None = None
    rolling_back: bool = False
    rolled_back_by: str | None = None
    rollback_phase: str | None = None
    rollback_started_at: datetime | None = None
    first_bad_at: datetime | None = None
    weight_0_at: datetime | None = None
    drained: str | None = None
    drain_seconds: float | None = None
    open_requests: int | None = None
    candidate_requests: int | None = None
    candidate_errors: int | None = None
    last_seq: int = 0
    last_at: datetime | None = None
    strays: int = 0

    @property
    def seconds(self) -> float | None:
        """Seconds from the start of the attempt to its end, or to its last event while it is open."""
        end = self.finished_at or self.last_at
        return None if self.started_at is None or end is None else (end - self.started_at).total_seconds()

    @property
    def bad_requests_before_rollback(self) -> int | None:
        """Errors that the candidate gave from the canary's start until weight 0 was seen; None without a rollback."""
        return self.candidate_errors if self.outcome == "rolled_back" else None

    @property
    def seconds_from_first_bad_answer_to_weight_0(self) -> float | None:
        """How long users could meet the fault; None if no bad answer was seen or no rollback took place.

        Both times were observed by a scrape, so each is late by up to one scrape interval.
        """
        if self.outcome != "rolled_back" or self.first_bad_at is None or self.weight_0_at is None:
            return None
        return max((self.weight_0_at - self.first_bad_at).total_seconds(), 0.0)

    @property
    def seconds_from_landed_to_promoted(self) -> float | None:
        """How long the version was on its way to all users; None if it was not promoted, or nobody knows."""
        if self.outcome != "promoted" or self.landed_at is None or self.finished_at is None:
            return None
        return max((self.finished_at - self.landed_at).total_seconds(), 0.0)

    @property
    def seconds_from_decision_to_weight_0(self) -> float | None:
        """How long the candidate kept users after it was decided to go back; None without a rollback."""
        if self.outcome != "rolled_back" or self.rollback_started_at is None or self.weight_0_at is None:
            return None
        return max((self.weight_0_at - self.rollback_started_at).total_seconds(), 0.0)

    @property
    def next_seq(self) -> int:
        """The number that the next event takes."""
        return self.last_seq + 1


class StageReport(TypedDict):
    """A stage in `report.json`; `seconds` is null until it is over."""

    name: str
    outcome: str
    seconds: float | None


class StepReport(TypedDict):
    """A finished step of the canary in `report.json`."""

    weight: int
    verdict: str
    candidate_requests: int
    candidate_errors: int
    seconds: float | None


class CanaryReport(TypedDict):
    """The canary in `report.json`; without a rollback the last two are null."""

    steps: list[StepReport]
    bad_requests_before_rollback: int | None
    seconds_from_first_bad_answer_to_weight_0: float | None


class ReleaseReport(TypedDict):
    """The entry of `report.json` for one release."""

    model: str
    version: int
    outcome: Outcome
    refused_by: str | None
    reason: str | None
    seconds: float | None
    stages: list[StageReport]
    canary: CanaryReport


def release_report(state: ReleaseState) -> ReleaseReport:
    """Return the entry of `report.json` for one release, JSON-ready."""
    return {
        "model": state.model,
        "version": state.version,
        "outcome": state.outcome,
        "refused_by": state.refused_by,
        "reason": state.reason,
        "seconds": _rounded(state.seconds),
        "stages": [
            {"name": stage.name, "outcome": stage.outcome, "seconds": _rounded(stage.seconds)}
            for stage in state.stages
        ],
        "canary": {
            "steps": [
                {
                    "weight": step.weight,
                    "verdict": step.verdict,
                    "candidate_requests": step.candidate_requests,
                    "candidate_errors": step.candidate_errors,
                    "seconds": _rounded(step.seconds),
                }
                for step in state.canary
            ],
            "bad_requests_before_rollback": state.bad_requests_before_rollback,
            "seconds_from_first_bad_answer_to_weight_0": _rounded(
                state.seconds_from_first_bad_answer_to_weight_0
            ),
        },
    }


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 3)
