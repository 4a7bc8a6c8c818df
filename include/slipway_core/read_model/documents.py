"""The document of one model: its versions, what is live, and the release that is under way.

    s3://BUCKET/views/models/MODEL.json

It is folded from the records of the model's versions (`model_fold`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from pydantic import Field, model_validator

from slipway_core.read_model.stored import (
    Count,
    Line,
    ModelName,
    Part,
    Percent,
    ReadModelDocument,
    Seconds,
    Version,
)
from slipway_core.record.events import Outcome
from slipway_core.value_types import UtcTime

VERSIONS_LIMIT = 2000
"""A document holds so many versions, the newest ones, and the live one with the one before it."""

CONTEXT_LINES = 200
"""Freezes, and findings, that a document holds."""

Standing = Literal["", "promoted", "rolled_back"]


class GateLine(Part):
    """A stage of a release: `outcome` is `running` until it is over, `seconds` is None until then."""

    stage: Line
    outcome: Line
    reason: Line = ""
    seconds: Seconds | None = None
    started_at: UtcTime | None = None


class RejectionLine(Part):
    """Why a version shall not be released any more. `by` is a person; "": the `stage` of its release said so."""

    sentence: Line
    at: UtcTime
    by: Line = ""
    stage: Line = ""


class ApprovalLine(Part):
    """A person's agreement, `before` the `canary` or the `promotion`."""

    before: Line
    by: Line
    at: UtcTime


class LiveMark(Part):
    """An event that tells which version has all users: event number `seq` of the record it lies in."""

    at: UtcTime
    seq: Count
    version: Version


class VersionLine(Part):
    """What the record of one version says, in short.

    `ended` counts the attempts by their outcomes. `landed_at` is when training had left the version.
    `release_id` is the run id of the newest attempt; `outcome`, `refused_by`, `reason` and the times are that one's.
    `triggered_by` is who started it, `started_reason` that person's reason; both are "" if nobody did. `standing`
    is about all attempts. `promoted_for` is who started the release that promoted it. `rejected_only` tells that no
    release of it was ever started. `files_gone` tells that retention has deleted its files. `weights` are the canary's
    steps, as they were pinned. `live_marks` are what the record tells of who had all users. `unreadable` says what is
    wrong with a record that cannot be folded; then nothing else is known of the version.
    """

    model: ModelName
    version: Version
    release_id: Line
    attempts: Count = 1
    outcome: Outcome = "open"
    ended: dict[Outcome, Count] = Field(default_factory=dict)
    refused_by: Line = ""
    reason: Line = ""
    triggered_by: Line = ""
    started_reason: Line = ""
    landed_at: UtcTime | None = None
    started_at: UtcTime | None = None
    finished_at: UtcTime | None = None
    gates: Annotated[tuple[GateLine, ...], Field(max_length=100)] = ()
    standing: Standing = ""
    promoted_for: Line = ""
    rejection: RejectionLine | None = None
    rejected_only: bool = False
    pinned: bool = False
    approvals: Annotated[tuple[ApprovalLine, ...], Field(max_length=100)] = ()
    rolled_back_by: Line = ""
    rolling_back: bool = False
    candidate_requests: Count | None = None
    candidate_errors: Count | None = None
    rollback_started_at: UtcTime | None = None
    first_bad_at: UtcTime | None = None
    weight_0_at: UtcTime | None = None
    drained: Line = ""
    weights: Annotated[tuple[Percent, ...], Field(max_length=100)] = ()
    last_seq: Count = 0
    last_at: UtcTime | None = None
    files_gone: bool = False
    live_marks: Annotated[tuple[LiveMark, ...], Field(max_length=100)] = ()
    unreadable: Line = ""

    @property
    def seconds(self) -> float | None:
        """Seconds from the start of the attempt to its end; None while it is open, or never began."""
        if self.started_at is None or self.finished_at is None:
            return None
        return max((self.finished_at - self.started_at).total_seconds(), 0.0)


class FreezeLine(Part):
    """A freeze of the model, in force from `at` until `until` unless it is lifted; `key` is its object's."""

    by: Line
    at: UtcTime
    until: UtcTime
    reason: Line
    key: Line = ""


class FindingLine(Part):
    """What was seen amiss with the model, and is open; `version` is None if it is not known what is live."""

    name: Line
    check: Line
    version: Version | None = None
    summary: Line
    opened_at: UtcTime | None = None


class OpenRelease(Part):
    """The release that is under way.

    `stage` is where it is, as the record names stages; `step` is the number of the canary's step, from 1, of `steps`; 0
    before the first. `verdict` is the status of the judge's last verdict. `held` says what the next raise waits for,
    `paused` why a person wants the canary to stay at its weight, `waits_for_approval` before what a person is asked
    (`canary`, `promotion`); each is "" if there is nothing of it. `is_rollback` tells that a person's rollback of
    the version is under way, to `stable_version`. `held_since`, `paused_since` and `waits_since` are when that began,
    as far as it is known; `held_until` is when what holds it ends by itself at the earliest.
    """

    version: Version
    release_id: Line
    stage: Line = ""
    step: Count = 0
    steps: Count = 0
    weights: Annotated[tuple[Percent, ...], Field(max_length=100)] = ()
    weight_intended: Percent | None = None
    weight_observed: Percent | None = None
    verdict: Line = ""
    held: Line = ""
    paused: Line = ""
    waits_for_approval: Line = ""
    held_since: UtcTime | None = None
    held_until: UtcTime | None = None
    paused_since: UtcTime | None = None
    waits_since: UtcTime | None = None
    triggered_by: Line = ""
    stable_version: Version | None = None
    rolling_back: bool = False
    is_rollback: bool = False
    started_at: UtcTime | None = None
    updated_at: UtcTime | None = None


class ModelDocument(ReadModelDocument):
    """What is known of a model: `versions` newest first, `last` the newest one whose release is over.

    `live_version` has all users by the records since `live_since`, `previous_version` had them before; None: none.
    `live_promoted_for` is who started the release that promoted it, `live_approved_by` who agreed to it. `freezes` are
    those of this model that had not ended when the document was written, `findings` the open ones.
    """

    called: ClassVar[str] = "document of a model"
    limit_bytes: ClassVar[int] = 16 << 20

    model: ModelName
    written_at: UtcTime
    live_version: Version | None = None
    live_since: UtcTime | None = None
    live_promoted_for: Line = ""
    live_approved_by: Annotated[tuple[Line, ...], Field(max_length=100)] = ()
    previous_version: Version | None = None
    versions: Annotated[tuple[VersionLine, ...], Field(max_length=VERSIONS_LIMIT + 2)] = ()
    open_release: OpenRelease | None = None
    last: VersionLine | None = None
    freezes: Annotated[tuple[FreezeLine, ...], Field(max_length=CONTEXT_LINES)] = ()
    findings: Annotated[tuple[FindingLine, ...], Field(max_length=CONTEXT_LINES)] = ()

    @model_validator(mode="after")
    def _of_one_model(self) -> ModelDocument:
        numbers = [line.version for line in self.versions]
        if numbers != sorted(set(numbers), reverse=True):
            raise ValueError("the versions are not in order, newest first")
        if any(line.model != self.model for line in self.versions):
            raise ValueError("a version of another model is in it")
        return self

    def line(self, version: int) -> VersionLine | None:
        """Return what is known of a version; None if nothing is."""
        return next((line for line in self.versions if line.version == version), None)


@dataclass(frozen=True)
class Unreadable:
    """A model of which nothing can be shown, and why, in words."""

    model: str
    reason: str
