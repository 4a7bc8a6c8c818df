"""The events of a release's record: what each one has, its key, and how it is read and written."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, ValidationError, field_validator

from slipway_core.errors import UserError
from slipway_core.record.kinds import EventData, expected_of, parse_event_data

Outcome = Literal["open", "promoted", "rolled_back", "refused", "failed", "cancelled"]
OUTCOMES: tuple[Outcome, ...] = ("open", "promoted", "rolled_back", "refused", "failed", "cancelled")

# More events than any release writes; a larger number under records/ was not written by Slipway.
SEQ_LIMIT = 999_999_999
_KEY = re.compile(
    r"records/(?P<model>[^/]+)/(?P<version>[1-9][0-9]{0,18})/(?P<seq>[0-9]{6,9})-(?P<kind>[a-z0-9_]{1,64})\.json"
)
_FORM = "JSON with seq, at, kind, release_id, model, version and data"
_FOUND_LIMIT = 120
_REMEDY = "check the object; only Slipway should write under records/"


class RecordError(UserError):
    """The events of a release contradict each other or are not all there."""


class _PendingDocument(BaseModel):
    """An event on its way to the record."""

    model_config = ConfigDict(frozen=True, extra="forbid", protected_namespaces=())

    at: AwareDatetime
    kind: str
    data: dict[str, Any] = Field(default_factory=dict)

    @field_validator("at")
    @classmethod
    def _in_utc(cls, value: datetime) -> datetime:
        try:
            return value.astimezone(UTC)
        except OverflowError as error:
            raise ValueError("a time before the year 1 or after the year 9999 in UTC") from error


class _Document(_PendingDocument):
    """An event as it lies in S3."""

    seq: int = Field(ge=1, le=SEQ_LIMIT)
    release_id: str
    model: str
    version: int = Field(ge=1)

    @property
    def key(self) -> str:
        return event_key(self.model, self.version, self.seq, self.kind)


@dataclass(frozen=True)
class Event:
    """One thing that was intended or seen.

    :param seq: its number in the record, from 1.
    :param at: when it happened, UTC.
    :param release_id: the Airflow run id of the release that wrote it.
    :param data: what it says, by its kind.
    """

    seq: int
    at: datetime
    release_id: str
    model: str
    version: int
    data: EventData

    @property
    def kind(self) -> str:
        """The name of its kind."""
        return self.data.kind

    @property
    def event_id(self) -> tuple[int, str]:
        """What makes two copies of one event the same: its key in the store says no more."""
        return (self.seq, self.kind)

    @property
    def key(self) -> str:
        """The event's key in the bucket."""
        return event_key(self.model, self.version, self.seq, self.kind)

    def to_document(self) -> dict[str, Any]:
        """Return the event as it lies in S3, ready for JSON."""
        document = _Document(
            seq=self.seq,
            at=self.at,
            kind=self.kind,
            release_id=self.release_id,
            model=self.model,
            version=self.version,
            data=self.data.to_document(),
        )
        return document.model_dump(mode="json")

    def to_bytes(self) -> bytes:
        """Return the object's content: JSON with sorted keys."""
        return json.dumps(self.to_document(), sort_keys=True, indent=1).encode()

    @classmethod
    def from_bytes(cls, content: bytes, source: str = "an event") -> Event:
        """Read an event.

        :param source: what an error calls it.
        :raises RecordError: it is invalid, or does not say what an event of its kind says.
        """
        try:
            return cls._of(_Document.model_validate_json(content))
        except ValidationError as error:
            raise _not_an_event(source, error) from error

    @classmethod
    def stored(cls, content: bytes, key: str) -> Event:
        """Read the event that lies under a key.

        :raises RecordError: it is invalid, does not say what an event of its kind says, or belongs under another key.
        """
        try:
            document = _Document.model_validate_json(content)
        except ValidationError as error:
            raise _not_an_event(key, error) from error
        if document.key != key:
            raise RecordError(
                f"{key} holds another event than its key says",
                expected=f"{key!r} in the fields model, version, seq and kind",
                found=repr(document.key[:200]),
                remedy=_REMEDY,
            )
        return cls._of(document)

    @classmethod
    def from_document(cls, document: Mapping[str, Any], source: str = "an event") -> Event:
        """Read an event from the form that `to_document` gives; parameters and errors are those of `from_bytes`."""
        try:
            return cls._of(_Document.model_validate(document))
        except ValidationError as error:
            raise _not_an_event(source, error) from error

    @classmethod
    def _of(cls, document: _Document) -> Event:
        try:
            data = parse_event_data(document.kind, document.data)
        except ValidationError as error:
            raise _wrong_field(document.key, document.kind, error) from error
        return cls(document.seq, document.at, document.release_id, document.model, document.version, data)


@dataclass(frozen=True)
class PendingEvent:
    """What happened, and when (UTC); it is not in the record yet and has no number."""

    at: datetime
    data: EventData

    @property
    def kind(self) -> str:
        """The name of its kind."""
        return self.data.kind

    @classmethod
    def now(cls, data: EventData) -> PendingEvent:
        """Return what happens at this moment."""
        return cls(datetime.now(UTC), data)

    def to_document(self) -> dict[str, Any]:
        """Return a JSON-ready form."""
        return {"kind": self.kind, "at": self.at.isoformat(), "data": self.data.to_document()}

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> PendingEvent:
        """Read an event from the form that `to_document` gives.

        :raises RecordError: it is invalid, or does not say what an event of its kind says.
        """
        try:
            pending = _PendingDocument.model_validate(document)
        except ValidationError as error:
            raise _not_an_event("a pending event", error, "JSON with at, kind and data") from error
        try:
            return cls(pending.at, parse_event_data(pending.kind, pending.data))
        except ValidationError as error:
            raise _wrong_field(f"the event {pending.kind}", pending.kind, error) from error


def _not_an_event(source: str, error: ValidationError, expected: str = _FORM) -> RecordError:
    return RecordError(
        f"{source} is not an event of a release",
        expected=expected,
        found=str(error.errors(include_url=False)[0]["msg"]),
        remedy=_REMEDY,
    )


def _wrong_field(name: str, kind: str, error: ValidationError) -> RecordError:
    """Return the error that names a field of an event: one with a wrong value before one that is missing."""
    first = min(error.errors(include_url=False), key=lambda one: one["type"] == "missing")
    field = str(first["loc"][0])
    if first["type"] == "missing":
        found = "nothing"
    elif first["type"] == "value_error":
        found = str(first["ctx"]["error"])
    else:
        found = repr(first["input"])
    return RecordError(
        f"{name} cannot be right: `{field}`",
        expected=expected_of(kind, field),
        found=found[:_FOUND_LIMIT],
        remedy=_REMEDY,
    )


def event_key(model: str, version: int, seq: int, kind: str) -> str:
    """Return `records/MODEL/VERSION/SEQ-EVENT.json`, SEQ with six digits so that names sort as events happened."""
    return f"records/{model}/{version}/{seq:06d}-{kind}.json"


def parse_event_key(key: str) -> tuple[str, int, int, str]:
    """Return model, version, seq and kind of an event's key.

    :raises RecordError: it is the key of no event.
    """
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
    """Makes the events of one release."""

    release_id: str
    model: str
    version: int

    def event(self, seq: int, at: datetime, data: EventData) -> Event:
        """Return the event with what it says; `seq` is the next free number of the record."""
        return Event(seq, at, self.release_id, self.model, self.version, data)
