"""From what S3 says has arrived to the versions that shall be released; values in, values out."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Annotated, Any, Literal
from urllib.parse import unquote_plus

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from include.model_release.errors import InputMissingError, ModelInvalidError, SlipwayError, UserError
from include.model_release.identifiers import VERSION_LIMIT, nearest, parse_version, validate_model_name
from include.model_release.value_types import Metadata, RelativePath, Sha256, UtcTime

READY_LIMIT_BYTES = 1024 * 1024
"""A ready.json that is larger is not read."""

_BODY_LIMIT_BYTES = 1024 * 1024  # SQS messages are at most this long
_RECORDS_LIMIT = 1000  # of one message; S3 puts one record into each
_NAMES_SHOWN = 20
_TEXT_SHOWN = 120


@dataclass(frozen=True, order=True)
class IncomingVersion:
    """A model version whose ready.json has arrived."""

    model: str
    version: int


@dataclass(frozen=True)
class IntakeResult:
    """What an event was about: versions, each once, in order; and, in words, what was left aside.

    `is_whole` is false where a message held more records than are looked at.
    """

    versions: list[IncomingVersion]
    ignored: list[str]
    is_whole: bool = True


class ReadyFile(BaseModel):
    """`ready.json`, the last object that training writes: the rest is complete, and this is what it is."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    model: str
    version: Annotated[int, Field(ge=1, le=VERSION_LIMIT, strict=True)]
    files: dict[RelativePath, Sha256] = {}
    """SHA-256 by file name; files named here are checked before they are used."""
    dataset_version: str | None = None
    accuracy: Annotated[float, Field(ge=0, le=1)] | None = None
    trained_at: UtcTime | None = None
    framework: str | None = None
    start: Literal["automatic", "by_hand"] = "automatic"
    """`by_hand`: the arrival of this version starts nothing."""
    metadata: dict[str, Metadata] = {}
    """Whatever else training wants to keep with the version."""


def parse_s3_event(body: str, bucket: str | None = None) -> IntakeResult:
    """Read one S3 event notification (the body of an SQS message).

    A record that is not about a model version is set aside with a reason, and so are records of other
    buckets when `bucket` is given; S3's own test event gives nothing. Raises UserError when the body is no
    S3 event at all.
    """
    event = _json_object(body)
    if event.get("Event") == "s3:TestEvent":
        return IntakeResult([], [])
    records = event.get("Records")
    if not isinstance(records, list):
        raise _malformed("no list `Records`")
    versions: dict[IncomingVersion, None] = {}
    ignored: list[str] = []
    for record in islice(records, _RECORDS_LIMIT):
        try:
            versions[_version_of(record, bucket)] = None
        except SlipwayError as error:
            ignored.append(str(error))
    beyond = len(records) - _RECORDS_LIMIT
    if beyond > 0:
        ignored.append(f"{beyond} records of a message with {len(records)} were not looked at.")
    return IntakeResult(list(versions), ignored, is_whole=beyond <= 0)


def message_bodies(extra: object) -> Iterator[str]:
    """Yield the bodies of the SQS messages in what Airflow keeps with an asset event; none where it holds others.

    Whoever may post asset events to Airflow can put anything there.
    """
    payload = extra.get("payload") if isinstance(extra, Mapping) else None
    batch = payload.get("message_batch") if isinstance(payload, Mapping) else None
    for message in batch if isinstance(batch, list | tuple) else ():
        body = message.get("Body") if isinstance(message, Mapping) else None
        if isinstance(body, str):
            yield body


def parse_messages(bodies: Iterable[str], bucket: str | None = None) -> IntakeResult:
    """Read a batch of messages: a malformed one becomes a reason and does not hide the others."""
    versions: dict[IncomingVersion, None] = {}
    ignored: list[str] = []
    is_whole = True
    for body in bodies:
        try:
            result = parse_s3_event(body, bucket)
        except UserError as error:
            ignored.append(str(error))
        else:
            versions.update(dict.fromkeys(result.versions))
            ignored.extend(result.ignored)
            is_whole = is_whole and result.is_whole
    return IntakeResult(list(versions), ignored, is_whole)


def parse_incoming_key(key: str) -> IncomingVersion:
    """Read `incoming/MODEL/VERSION/ready.json`, not URL-quoted.

    Raises UserError, which says why, for any other key.
    """
    parts = key.split("/")
    if len(parts) != 4 or parts[0] != "incoming" or parts[3] != "ready.json":
        raise UserError(
            f"the object {_shown(key)} announces no model version",
            expected="incoming/MODEL/VERSION/ready.json",
        )
    return IncomingVersion(validate_model_name(parts[1]), parse_version(parts[2]))


def parse_ready(content: bytes, arrived: IncomingVersion) -> ReadyFile:
    """Read ready.json and check that it is about the version under whose key it lies.

    Raises UserError that names the key at fault and, for an unknown one, the nearest valid key.
    """
    name = f"incoming/{arrived.model}/{arrived.version}/ready.json"
    if len(content) > READY_LIMIT_BYTES:
        raise UserError(
            f"{name} is too large",
            expected=f"at most {READY_LIMIT_BYTES} bytes",
            found=f"{len(content)} bytes",
        )
    try:
        ready = ReadyFile.model_validate_json(content)
    except ValidationError as error:
        raise _ready_error(name, error) from error
    if (ready.model, ready.version) != (arrived.model, arrived.version):
        raise UserError(
            f"{name} is about another version",
            expected=f"model {arrived.model!r}, version {arrived.version}",
            found=f"model {_shown(ready.model)}, version {ready.version}",
            remedy="Correct ready.json, or upload the files under the folder they belong to.",
        )
    return ready


def require_files(ready: ReadyFile, present: Iterable[str], needed: Iterable[str]) -> None:
    """Raise InputMissingError unless `needed` and what ready.json lists are among `present` (file names)."""
    there = set(present)
    missing = sorted(({*needed, *ready.files}) - there)
    if missing:
        raise InputMissingError(
            f"incoming/{ready.model}/{ready.version}/ lacks {_listed(missing)}",
            expected=_listed({*needed, *ready.files}),
            found=_listed(there) or "nothing",
            remedy="Upload the missing files, then ready.json again, as the last one.",
        )


def require_untouched(ready: ReadyFile, sha256: Mapping[str, str]) -> None:
    """Raise ModelInvalidError unless every file that ready.json lists still has the SHA-256 that it names.

    `sha256` holds what the files have now, in hexadecimal, by file name.
    """
    changed = sorted(name for name, wanted in ready.files.items() if sha256.get(name) != wanted)
    if changed:
        raise ModelInvalidError(
            f"incoming/{ready.model}/{ready.version}/: {_listed(changed)} is not what training wrote",
            expected=_listed((f"{name} with SHA-256 {ready.files[name]}" for name in changed), "; "),
            found=_listed((f"{name} with {sha256.get(name, 'none')}" for name in changed), "; "),
            remedy="Upload the files again under a new version, ready.json last.",
        )


def _version_of(record: object, bucket: str | None) -> IncomingVersion:
    if not isinstance(record, Mapping):
        raise UserError("a record of the event is not an object")
    name = record.get("eventName")
    if not isinstance(name, str) or not name.removeprefix("s3:").startswith("ObjectCreated"):
        raise UserError(f"the event {_shown(name)} is not the arrival of an object")
    described = record.get("s3")
    holder = described if isinstance(described, Mapping) else {}
    from_bucket, key = _text(holder, "bucket", "name"), _text(holder, "object", "key")
    if key is None:
        raise UserError("a record of the event has no object key", expected="text at s3.object.key")
    if bucket is not None and from_bucket != bucket:
        raise UserError(
            f"the object {_shown(key)} lies in another bucket", expected=bucket, found=_shown(from_bucket)
        )
    return parse_incoming_key(unquote_plus(key, errors="replace"))


def _text(holder: Mapping[str, Any], first: str, second: str) -> str | None:
    inner = holder.get(first)
    value = inner.get(second) if isinstance(inner, Mapping) else None
    return value if isinstance(value, str) else None


def _json_object(body: str) -> dict[str, Any]:
    if len(body) > _BODY_LIMIT_BYTES:
        raise _malformed(f"{len(body)} characters")
    try:
        event = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise _malformed(f"text that is not JSON ({error})") from error
    if not isinstance(event, dict):
        raise _malformed(f"a JSON {type(event).__name__}")
    return event


def _malformed(found: str) -> UserError:
    return UserError(
        "a message in the intake queue is not an S3 event notification",
        expected="a JSON object with `Records`",
        found=found,
        remedy="Check what else writes to the queue; the message is set aside.",
    )


def _ready_error(name: str, error: ValidationError) -> UserError:
    first = error.errors(include_url=False)[0]
    key = _cut(".".join(str(part) for part in first["loc"]))
    if first["type"] == "extra_forbidden":
        near = nearest(key, ReadyFile.model_fields)
        hint = f"Did you mean `{near}`?" if near else "Put what is your own under `metadata`."
        return UserError(
            f"{name}: unknown key `{key}`",
            expected=f"one of {', '.join(ReadyFile.model_fields)}",
            remedy=hint,
        )
    return UserError(
        f"{name} is not valid{f' at `{key}`' if key else ''}",
        expected=_cut(first["msg"]),
        found=None if isinstance(first["input"], dict | bytes) else _shown(first["input"]),
        remedy="Correct ready.json and upload it again.",
    )


def _shown(value: object) -> str:
    if isinstance(value, str):
        return _cut(repr(value[:_TEXT_SHOWN]))
    return (
        f"a value of type {type(value).__name__}" if isinstance(value, Mapping | list) else _cut(repr(value))
    )


def _cut(text: str) -> str:
    return text if len(text) <= _TEXT_SHOWN else f"{text[: _TEXT_SHOWN - 3]}…"


def _listed(names: Iterable[str], separator: str = ", ") -> str:
    ordered = sorted(names)
    beyond = len(ordered) - _NAMES_SHOWN
    shown = separator.join(_cut(name) for name in ordered[:_NAMES_SHOWN])
    return f"{shown}{separator}and {beyond} more" if beyond > 0 else shown
