"""The kinds of events: what each of them says, typed, and the JSON document that it has in S3.

A field that every version of Slipway has written is required. One that was added later has a default, and is left out
of the document while it is not known. Fields that this version does not know are kept as they are, and so are events of
a kind that it does not know: a later version wrote them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Any, ClassVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, PlainSerializer

from slipway_core.admitted import Admitted
from slipway_core.record.requirements import Requirements
from slipway_core.record.shown import ShownThen, nothing_shown


@dataclass(frozen=True)
class Expected:
    """What a field must hold, in the words of the error for one that does not."""

    words: str


def _time(value: object) -> datetime | None:
    """Return the time in UTC that a document or a writer gives; None if there is none.

    :raises ValueError: it isn't a time; the message is what was found.
    """
    if value is None:
        return None
    try:
        moment = datetime.fromisoformat(value) if isinstance(value, str) else value
        if isinstance(moment, datetime):
            return moment.astimezone(UTC)
    except (ValueError, OverflowError) as error:
        raise ValueError(repr(value)) from error
    raise ValueError(repr(value))


def _built(kind: type[Requirements] | type[Admitted]) -> BeforeValidator:
    """Return what makes a value of a document's form; None, and what a writer gives, stay as they are."""

    def build(value: object) -> object:
        if value is None or isinstance(value, kind):
            return value
        if not isinstance(value, Mapping):
            raise ValueError(repr(value))
        return kind.from_dict(value)

    return BeforeValidator(build)


def _is_unknown(value: object) -> bool:
    return value is None


Text = Annotated[str, Expected("text")]
MaybeText = Annotated[str | None, Expected("text")]
Count = Annotated[int, Expected("a whole number")]
MaybeCount = Annotated[int | None, Expected("a whole number")]
Percent = Annotated[int, Field(ge=0, le=100), Expected("a whole number from 0 to 100")]
Seconds = Annotated[float, Field(allow_inf_nan=False), Expected("a finite number")]
MaybeSeconds = Annotated[float | None, Field(allow_inf_nan=False), Expected("a finite number")]
Document = Annotated[dict[str, Any], Expected("an object")]
Shares = Annotated[dict[str, int], Expected("percents by revision")]
MaybeTime = Annotated[
    datetime | None,
    BeforeValidator(_time),
    PlainSerializer(lambda value: None if value is None else value.isoformat()),
    Expected("a time (ISO 8601)"),
]
_AsDocument = PlainSerializer(lambda value: None if value is None else value.to_dict())
MaybeRequirements = Annotated[
    Requirements | None, _built(Requirements), _AsDocument, Expected("what a release must prove")
]
MaybeAdmitted = Annotated[Admitted | None, _built(Admitted), _AsDocument, Expected("what was admitted")]
Evidence = Annotated[ShownThen, Expected("addresses with the digests of what lies there")]


class KnownEvent(BaseModel):
    """What an event says, by the fields of its kind. `kind` is its name in S3."""

    model_config = ConfigDict(
        frozen=True, strict=True, extra="allow", protected_namespaces=(), arbitrary_types_allowed=True
    )

    kind: ClassVar[str]

    def to_document(self) -> dict[str, Any]:
        """Return the event's `data` in S3, ready for JSON."""
        return self.model_dump()


class ReleaseStarted(KnownEvent):
    """The release begins.

    `stable_storage_uri` is where the version lies that is live now, where that is known. `required` is what the release
    must prove before each raise of its weight, `triggered_by` the person who started the run, `reason` that person's
    reason. `landed_at` is when the last object of what training leaves, `ready.json`, was written. `admitted` is what
    the release's tasks must have been handed.
    """

    kind: ClassVar[str] = "release_started"

    stable_storage_uri: MaybeText = None
    required: MaybeRequirements = Field(default=None, exclude_if=_is_unknown)
    triggered_by: MaybeText = Field(default=None, exclude_if=_is_unknown)
    reason: MaybeText = Field(default=None, exclude_if=_is_unknown)
    landed_at: MaybeTime = Field(default=None, exclude_if=_is_unknown)
    admitted: MaybeAdmitted = Field(default=None, exclude_if=_is_unknown)


class StageStarted(KnownEvent):
    """A stage begins, perhaps not for the first time."""

    kind: ClassVar[str] = "stage_started"

    stage: Text


class StageFinished(KnownEvent):
    """A stage is over.

    `outcome` is `passed`, `refused`, `inconclusive`, `failed`, `skipped`, `reused`, `left_out` or `cancelled`.
    `manifest_sha256` is the digest of the manifest of the version that a gate has looked at, `by` the person whose word
    ended it.
    """

    kind: ClassVar[str] = "stage_finished"

    stage: Text
    outcome: Text
    reason: MaybeText = None
    manifest_sha256: MaybeText = Field(default=None, exclude_if=_is_unknown)
    by: MaybeText = Field(default=None, exclude_if=_is_unknown)


class Approved(KnownEvent):
    """A person agreed, `before` the `canary` or the `promotion`, to the version with this manifest.

    `shown` is what was in front of that person, here and in what else people decide.
    """

    kind: ClassVar[str] = "approved"

    before: Text
    by: Text
    manifest_sha256: Text
    reason: MaybeText = None
    shown: Evidence = Field(default=(), exclude_if=nothing_shown)


class CandidateVerified(KnownEvent):
    """Every file of the published version was compared with its manifest, right before the canary."""

    kind: ClassVar[str] = "candidate_verified"

    manifest_sha256: Text


class WeightIntended(KnownEvent):
    """The candidate at `storage_uri` is to get `weight` percent of the traffic."""

    kind: ClassVar[str] = "weight_intended"

    weight: Percent
    storage_uri: Text
    stable_storage_uri: MaybeText


class WeightObserved(KnownEvent):
    """The traffic was seen to be split so.

    `weight` is the candidate's percent, `traffic` the percent of each revision, `candidate_url` the address at which a
    preview was seen.
    """

    kind: ClassVar[str] = "weight_observed"

    weight: Percent
    traffic: Shares
    candidate_url: MaybeText = Field(default=None, exclude_if=_is_unknown)


class WindowJudged(KnownEvent):
    """The judge has looked at a window.

    `verdict` is the judge's own document (`Verdict.to_dict()`), which the fold does not read. Counts are the
    candidate's since the canary began.
    """

    kind: ClassVar[str] = "window_judged"

    verdict: Document
    candidate_requests: Count
    candidate_errors: Count
    first_bad_at: MaybeTime


class StepFinished(KnownEvent):
    """A step of the canary is over. `verdict` is the status of the judge's last verdict; counts are the step's own."""

    kind: ClassVar[str] = "step_finished"

    weight: Percent
    verdict: Text
    reason: Text
    candidate_requests: Count
    candidate_errors: Count
    seconds: Seconds


class RollbackStarted(KnownEvent):
    """It was decided to go back. `by` is `judge`, `task failure`, `cancellation`, `guard` or `a person`."""

    kind: ClassVar[str] = "rollback_started"

    reason: Text
    by: Text
    stable_storage_uri: MaybeText


class RollbackPhase(KnownEvent):
    """The rollback has come to a phase; `detail` says what is being done."""

    kind: ClassVar[str] = "rollback_phase"

    phase: Text
    detail: Text


class RolledBack(KnownEvent):
    """The stable version alone has the traffic. Counts are the candidate's from the canary's start until weight 0.

    `requests_after_weight_0` are those that the router led to the candidate in `seconds_after_weight_0` afterwards. It
    is left out where the metrics source gave no data (0 seconds), and both are where nobody looked. `drained` says how
    what was open on the candidate ended, after `drain_seconds`: `counted` and `pods_ended` (nobody is on it),
    `still_asked`, or `unseen` (nobody can tell). `open_requests` is the last count of them. All are left out where no
    user had met the candidate.
    """

    kind: ClassVar[str] = "rolled_back"

    stable_storage_uri: MaybeText
    candidate_requests: MaybeCount
    candidate_errors: MaybeCount
    first_bad_at: MaybeTime = None
    weight_0_at: MaybeTime = None
    requests_after_weight_0: MaybeCount = Field(default=None, exclude_if=_is_unknown)
    seconds_after_weight_0: MaybeSeconds = Field(default=None, exclude_if=_is_unknown)
    drained: MaybeText = Field(default=None, exclude_if=_is_unknown)
    drain_seconds: MaybeSeconds = Field(default=None, exclude_if=_is_unknown)
    open_requests: MaybeCount = Field(default=None, exclude_if=_is_unknown)


class Promoted(KnownEvent):
    """The candidate alone has the traffic."""

    kind: ClassVar[str] = "promoted"

    storage_uri: Text
    manifest_sha256: MaybeText = Field(default=None, exclude_if=_is_unknown)


class ReleaseFinished(KnownEvent):
    """The attempt is over. `outcome` is one of `OUTCOMES`."""

    kind: ClassVar[str] = "release_finished"

    outcome: Text
    refused_by: MaybeText = None
    reason: MaybeText = None


class VersionRejected(KnownEvent):
    """The version shall not be released any more, until somebody lifts this.

    `by` is the person who said so, in a run of their own; without one the release's `stage` did.
    """

    kind: ClassVar[str] = "version_rejected"

    reason: Text
    by: MaybeText = None
    stage: MaybeText = None
    shown: Evidence = Field(default=(), exclude_if=nothing_shown)


class VersionUnrejected(KnownEvent):
    """A person has lifted the rejections up to event number `rejection_seq`: those that they have seen."""

    kind: ClassVar[str] = "version_unrejected"

    reason: Text
    by: Text
    rejection_seq: Count
    shown: Evidence = Field(default=(), exclude_if=nothing_shown)


class RaiseHeld(KnownEvent):
    """A raise to `weight` percent waits: `hold` says for what, `until` when that ends by itself at the earliest."""

    kind: ClassVar[str] = "raise_held"

    weight: Percent
    hold: Text
    until: MaybeTime = None


class HoldOverridden(KnownEvent):
    """A person has said that a freeze, or a closed release window, does not hold this version.

    `hold` is what holds the version, in words, `hold_sha256` its digest, `set_by` the person who wrote the freeze.
    """

    kind: ClassVar[str] = "hold_overridden"

    by: Text
    reason: Text
    hold: Text
    hold_sha256: Text
    set_by: MaybeText = None
    shown: Evidence = Field(default=(), exclude_if=nothing_shown)


@dataclass(frozen=True)
class UnknownEvent:
    """An event of a kind that only a later version knows, as it was written. It keeps its number and means nothing."""

    kind: str
    document: Mapping[str, Any]

    def to_document(self) -> dict[str, Any]:
        """Return the event's `data` in S3."""
        return dict(self.document)


EventData = KnownEvent | UnknownEvent
# The kinds that give a reason.
Reasoned = (
    ReleaseStarted
    | StageFinished
    | Approved
    | StepFinished
    | RollbackStarted
    | ReleaseFinished
    | VersionRejected
    | VersionUnrejected
    | HoldOverridden
)

_BY_NAME: dict[str, type[KnownEvent]] = {
    one.kind: one
    for one in (
        ReleaseStarted,
        StageStarted,
        StageFinished,
        Approved,
        CandidateVerified,
        WeightIntended,
        WeightObserved,
        WindowJudged,
        StepFinished,
        RollbackStarted,
        RollbackPhase,
        RolledBack,
        Promoted,
        ReleaseFinished,
        VersionRejected,
        VersionUnrejected,
        RaiseHeld,
        HoldOverridden,
    )
}
KINDS = tuple(_BY_NAME)


def parse_event_data(kind: str, document: Mapping[str, Any]) -> EventData:
    """Return what an event of this kind says.

    :param document: the event's `data` in S3.
    :raises pydantic.ValidationError: a field that this kind needs is missing, or holds something else.
    """
    known = _BY_NAME.get(kind)
    return UnknownEvent(kind, document) if known is None else known.model_validate(document)


def expected_of(kind: str, field: str) -> str:
    """Return what a field of a known kind must hold, in words."""
    metadata = _BY_NAME[kind].model_fields[field].metadata
    return next(one.words for one in metadata if isinstance(one, Expected))
