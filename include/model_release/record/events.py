"""The events of a release's record: what one is, what its key is, and how each kind is made."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal, NoReturn

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, ValidationError, field_validator

from include.model_release.errors import UserError

KINDS = (
    "release_started",
    "stage_started",
    "stage_finished",
    "approved",
    "candidate_verified",
    "weight_intended",
    "weight_observed",
    "window_judged",
    "step_finished",
    "rollback_started",
    "rollback_phase",
    "rolled_back",
    "promoted",
    "release_finished",
)

Outcome = Literal["open", "promoted", "rolled_back", "refused", "failed", "cancelled"]
OUTCOMES: tuple[Outcome, ...] = ("open", "promoted", "rolled_back", "refused", "failed", "cancelled")

# More events than any release writes; a larger number under records/ was not written by Slipway.
SEQ_LIMIT = 999_999_999
_KEY = re.compile(
    r"records/(?P<model>[^/]+)/(?P<version>[1-9][0-9]{0,18})/(?P<seq>[0-9]{6,9})-(?P<kind>[a-z0-9_]{1,64})\.json"
)


class RecordError(UserError):
    """The events of a release contradict each other or are not all there."""


class Event(BaseModel):
    """One thing that was intended or seen. `release_id` is the Airflow run id, `at` is UTC, `seq` counts from
    1.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", protected_namespaces=())

    seq: int = Field(ge=1, le=SEQ_LIMIT)
    at: AwareDatetime
    kind: str
    release_id: str
    model: str
    version: int = Field(ge=1)
    data: dict[str, Any] = Field(default_factory=dict)

    @field_validator("at")
    @classmethod
    def _in_utc(cls, value: datetime) -> datetime:
        try:
            return value.astimezone(UTC)
        except OverflowError as error:
            raise ValueError("a time before the year 1 or after the year 9999 in UTC") from error

    @property
    def event_id(self) -> tuple[int, str]:
        """What makes two copies of one event the same: its key in the store says no more."""
        return (self.seq, self.kind)

    @property
    def key(self) -> str:
        """The event's key in the bucket."""
        return event_key(self.model, self.version, self.seq, self.kind)

    # What others may have written is read with these: each names the event and the field that is wrong.

    def text(self, name: str) -> str | None:
        """Return a text of `data`, None where there is none. Raises RecordError for anything else."""
        value = self.data.get(name)
        if value is not None and not isinstance(value, str):
            self._wrong(name, "text", value)
        return value

    def whole(self, name: str) -> int | None:
        """Return a whole number of `data`, None where there is none. Raises RecordError for anything else."""
        value = self.data.get(name)
        if value is not None and (isinstance(value, bool) or not isinstance(value, int)):
            self._wrong(name, "a whole number", value)
        return value

    def percent(self, name: str) -> int:
        """Return a percent of `data`, 0 to 100. Raises RecordError for anything else, and where there is none."""
        value = self.whole(name)
        if value is None or not 0 <= value <= 100:
            self._wrong(name, "a whole number from 0 to 100", value)
        return value

    def number(self, name: str) -> float | None:
        """Return a finite number of `data`, None where there is none. Raises RecordError for anything else."""
        value = self.data.get(name)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            self._wrong(name, "a finite number", value)
        return float(value)

    def time(self, name: str) -> datetime | None:
        """Return a time of `data` in UTC, None where there is none. Raises RecordError for anything else."""
        value = self.text(name)
        if value is None:
            return None
        try:
            return datetime.fromisoformat(value).astimezone(UTC)
        except (ValueError, OverflowError):
            self._wrong(name, "a time (ISO 8601)", value)

    def mapping(self, name: str) -> Mapping[str, Any] | None:
        """Return an object of `data`, None where there is none. Raises RecordError for anything else."""
        value = self.data.get(name)
        if value is not None and not isinstance(value, Mapping):
            self._wrong(name, "an object", value)
        return value

    def _wrong(self, name: str, expected: str, value: object) -> NoReturn:
        raise RecordError(
            f"{self.key} cannot be right: `{name}`",
            expected=expected,
            found=repr(value)[:120],
            remedy="look at the object; nobody but Slipway should write under records/",
        )

    def to_bytes(self) -> bytes:
        """Return the object's content: JSON with sorted keys."""
        return json.dumps(self.model_dump(mode="json"), sort_keys=True, indent=1).encode()

    @classmethod
    def from_bytes(cls, content: bytes, source: str = "an event") -> Event:
        """Read an event; `source` is what an error calls it. Raises RecordError if it is none."""
        try:
            return cls.model_validate_json(content)
        except ValidationError as error:
            raise RecordError(
                f"{source} is not an event of a release",
                expected="JSON with seq, at, kind, release_id, model, version and data",
                found=str(error.errors(include_url=False)[0]["msg"]),
                remedy="look at the object; nobody but Slipway should write under records/",
            ) from error


def event_key(model: str, version: int, seq: int, kind: str) -> str:
    """Return `records/MODEL/VERSION/SEQ-EVENT.json`, SEQ with six digits so that names sort as events
    happened.
    """
    return f"records/{model}/{version}/{seq:06d}-{kind}.json"


def parse_event_key(key: str) -> tuple[str, int, int, str]:
    """Return (model, version, seq, kind) of an event's key; raises RecordError if it is none."""
    match = _KEY.fullmatch(key)
    if match is None:
        raise RecordError(
            f"{key!r} is not the key of an event",
            expected="records/MODEL/VERSION/SEQ-EVENT.json, SEQ with six digits",
            found=repr(key),
            remedy="remove what others have put under records/",
        )
    return match["model"], int(match["version"]), int(match["seq"]), match["kind"]


@dataclass(frozen=True)
class EventWriter:
    """Makes the events of one release, typed; the caller gives the next free `seq` and the time."""

    release_id: str
    model: str
    version: int

    def _event(self, seq: int, at: datetime, kind: str, **data: Any) -> Event:
        return Event(
            seq=seq,
            at=at,
            kind=kind,
            release_id=self.release_id,
            model=self.model,
            version=self.version,
            data=data,
        )

    def release_started(
        self,
        seq: int,
        at: datetime,
        *,
        stable_storage_uri: str | None = None,
        required: Mapping[str, Any] | None = None,
        triggered_by: str | None = None,
        reason: str | None = None,
    ) -> Event:
        """The release begins; the URI of what is live now, where it is known.

        `required` is what it must prove before each raise of its weight (`Requirements.to_dict()`), `triggered_by`
        who started the run, `reason` what that person gave as a reason.
        """
        told = {"required": required, "triggered_by": triggered_by, "reason": reason}
        known = {name: value for name, value in told.items() if value is not None}
        return self._event(seq, at, "release_started", stable_storage_uri=stable_storage_uri, **known)

    def stage_started(self, seq: int, at: datetime, *, stage: str) -> Event:
        """A stage begins, perhaps not for the first time."""
        return self._event(seq, at, "stage_started", stage=stage)

    def stage_finished(
        self,
        seq: int,
        at: datetime,
        *,
        stage: str,
        outcome: str,
        reason: str | None = None,
        manifest_sha256: str | None = None,
    ) -> Event:
        """A stage is over: `passed`, `refused`, `inconclusive`, `failed`, `skipped` or `cancelled`.

        `manifest_sha256` is the digest of the manifest of the version that a gate has looked at.
        """
        told = {} if manifest_sha256 is None else {"manifest_sha256": manifest_sha256}
        return self._event(seq, at, "stage_finished", stage=stage, outcome=outcome, reason=reason, **told)

    def approved(
        self, seq: int, at: datetime, *, before: str, by: str, manifest_sha256: str, reason: str | None = None
    ) -> Event:
        """A person agreed, `before` the `canary` or the `promotion`, to the version with this manifest."""
        return self._event(
            seq, at, "approved", before=before, by=by, manifest_sha256=manifest_sha256, reason=reason
        )

    def candidate_verified(self, seq: int, at: datetime, *, manifest_sha256: str) -> Event:
        """Every file of the published version was held against the manifest, right before the canary."""
        return self._event(seq, at, "candidate_verified", manifest_sha256=manifest_sha256)

    def weight_intended(
        self, seq: int, at: datetime, *, weight: int, storage_uri: str, stable_storage_uri: str | None
    ) -> Event:
        """The candidate at `storage_uri` shall get `weight` percent."""
        return self._event(
            seq,
            at,
            "weight_intended",
            weight=weight,
            storage_uri=storage_uri,
            stable_storage_uri=stable_storage_uri,
        )

    def weight_observed(
        self,
        seq: int,
        at: datetime,
        *,
        weight: int,
        traffic: Mapping[str, int],
        candidate_url: str | None = None,
    ) -> Event:
        """The traffic was seen to be split so: percent by revision, `weight` that of the candidate.

        `candidate_url` is where a preview was seen to be reached.
        """
        told = {} if candidate_url is None else {"candidate_url": candidate_url}
        return self._event(seq, at, "weight_observed", weight=weight, traffic=dict(traffic), **told)

    def window_judged(
        self,
        seq: int,
        at: datetime,
        *,
        verdict: Mapping[str, Any],
        candidate_requests: int,
        candidate_errors: int,
        first_bad_at: datetime | None,
    ) -> Event:
        """The judge has looked. Counts are the candidate's since the canary began; `verdict` is
        Verdict.to_dict().
        """
        return self._event(
            seq,
            at,
            "window_judged",
            verdict=dict(verdict),
            candidate_requests=candidate_requests,
            candidate_errors=candidate_errors,
            first_bad_at=_stamp(first_bad_at),
        )

    def step_finished(
        self,
        seq: int,
        at: datetime,
        *,
        weight: int,
        verdict: str,
        reason: str,
        candidate_requests: int,
        candidate_errors: int,
        seconds: float,
    ) -> Event:
        """A step is over; `verdict` is the judge's last word on it, and counts are this step's."""
        return self._event(
            seq,
            at,
            "step_finished",
            weight=weight,
            verdict=verdict,
            reason=reason,
            candidate_requests=candidate_requests,
            candidate_errors=candidate_errors,
            seconds=seconds,
        )

    def rollback_started(
        self, seq: int, at: datetime, *, reason: str, by: str, stable_storage_uri: str | None
    ) -> Event:
        """It has been decided to go back; `by` is `judge`, `task failure`, `cancellation`, `guard` or a
        person.
        """
        return self._event(
            seq, at, "rollback_started", reason=reason, by=by, stable_storage_uri=stable_storage_uri
        )

    def rollback_phase(self, seq: int, at: datetime, *, phase: str, detail: str) -> Event:
        """A phase of the rollback was entered (see rollback.py)."""
        return self._event(seq, at, "rollback_phase", phase=phase, detail=detail)

    def rolled_back(
        self,
        seq: int,
        at: datetime,
        *,
        stable_storage_uri: str | None,
        candidate_requests: int | None,
        candidate_errors: int | None,
        first_bad_at: datetime | None = None,
        weight_0_at: datetime | None = None,
    ) -> Event:
        """The good version alone has the traffic. Counts: the candidate's from the canary's start until
        weight 0 was seen.
        """
        return self._event(
            seq,
            at,
            "rolled_back",
            stable_storage_uri=stable_storage_uri,
            candidate_requests=candidate_requests,
            candidate_errors=candidate_errors,
            first_bad_at=_stamp(first_bad_at),
            weight_0_at=_stamp(weight_0_at),
        )

    def promoted(
        self, seq: int, at: datetime, *, storage_uri: str, manifest_sha256: str | None = None
    ) -> Event:
        """The candidate alone has the traffic."""
        told = {} if manifest_sha256 is None else {"manifest_sha256": manifest_sha256}
        return self._event(seq, at, "promoted", storage_uri=storage_uri, **told)

    def release_finished(
        self,
        seq: int,
        at: datetime,
        *,
        outcome: Outcome,
        refused_by: str | None = None,
        reason: str | None = None,
    ) -> Event:
        """The last event of an attempt."""
        return self._event(seq, at, "release_finished", outcome=outcome, refused_by=refused_by, reason=reason)


def _stamp(value: datetime | None) -> str | None:
    return None if value is None else value.astimezone(UTC).isoformat()
