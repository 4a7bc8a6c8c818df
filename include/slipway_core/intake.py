"""From what S3 says has arrived to the versions that shall be released; values in, values out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from slipway_core.errors import InputMissingError, ModelInvalidError, SlipwayError, UserError
from slipway_core.identifiers import nearest, parse_version, validate_model_name
from slipway_core.s3_events.envelopes import ObjectCreated, opened
from slipway_core.value_types import Metadata, RelativePath, Sha256, UtcTime
from slipway_rules.text_forms import VERSION_LIMIT

READY_LIMIT_BYTES = 1024 * 1024
"""A ready.json that is larger is not read."""

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

    `is_whole` is false if a message held more records than are looked at. `unreadable` holds those reasons of
    `ignored` that are about unreadable parts, which may have named any version.
    """

    versions: list[IncomingVersion]
    ignored: list[str]
    is_whole: bool = True
    unreadable: list[str] = field(default_factory=list)


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
    """Read the body of one message: S3's event notification, directly, or as SNS or EventBridge carry it.

    An event that is not about a model version is set aside with a reason, and so is one of another bucket when
    `bucket` is given; S3's own test event gives nothing.

    :raises UserError: nothing of the body can be read.
    """
    found = opened(body)
    versions: dict[IncomingVersion, None] = {}
    ignored = [*found.ignored, *found.unreadable]
    for created in found.created:
        try:
            versions[_version_of(created, bucket)] = None
        except SlipwayError as error:
            ignored.append(str(error))
    if found.beyond:
        ignored.append(f"{found.beyond} records of a message were not looked at.")
    return IntakeResult(list(versions), ignored, not found.beyond, found.unreadable)


def message_bodies(extra: object) -> Iterator[str]:
    """Yield the bodies of the SQS messages in what Airflow keeps with an asset event; none where it holds no messages.

    Whoever may post asset events to Airflow can put anything there.
    """
    payload = extra.get("payload") if isinstance(extra, Mapping) else None
    batch = payload.get("message_batch") if isinstance(payload, Mapping) else None
    for message in batch if isinstance(batch, list | tuple) else ():
        body = message.get("Body") if isinstance(message, Mapping) else None
        # A message that has no text as its body is one that cannot be read.
        yield body if isinstance(body, str) else ""


def parse_messages(bodies: Iterable[str], bucket: str | None = None) -> IntakeResult:
    """Read a batch of messages: a malformed one becomes a reason and does not hide the others."""
    versions: dict[IncomingVersion, None] = {}
    ignored: list[str] = []
    unreadable: list[str] = []
    is_whole = True
    for body in bodies:
        try:
            result = parse_s3_event(body, bucket)
        except UserError as error:
            ignored.append(str(error))
            unreadable.append(str(error))
        else:
            versions.update(dict.fromkeys(result.versions))
            ignored.extend(result.ignored)
            unreadable.extend(result.unreadable)
            is_whole = is_whole and result.is_whole
    return IntakeResult(list(versions), ignored, is_whole, unreadable)


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
        ready = ReadyFile.model_validate_json(_as_utf8(content, name))
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


def _as_utf8(content: bytes, name: str) -> bytes:
    """Return the bytes without the byte order mark that some editors put before UTF-8.

    :raises UserError: they are another encoding, or compressed: what was meant is not guessed.
    """
    signs = {
        b"\x1f\x8b": ("gzip", "upload it without compression"),
        b"PK\x03\x04": ("a ZIP archive", "upload the file itself"),
        b"\xff\xfe": ("text in UTF-16", "write it as UTF-8; in PowerShell: Out-File -Encoding utf8"),
        b"\xfe\xff": ("text in UTF-16", "write it as UTF-8; in PowerShell: Out-File -Encoding utf8"),
        b"{\x00": ("text in UTF-16", "write it as UTF-8"),
        b"\x00{": ("text in UTF-16", "write it as UTF-8"),
    }
    found = next((encoding for sign, encoding in signs.items() if content.startswith(sign)), None)
    if not content.strip():
        found = ("an empty file", "write it whole, then upload it again, as the last object")
    if found is not None:
        raise UserError(
            f"{name} cannot be read",
            expected="JSON in UTF-8, not compressed",
            found=found[0],
            remedy=f"{found[1]}.",
        )
    return content.removeprefix(b"\xef\xbb\xbf")


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


def _version_of(created: ObjectCreated, bucket: str | None) -> IncomingVersion:
    if bucket is not None and created.bucket != bucket:
        raise UserError(
            f"the object {_shown(created.key)} is in another bucket",
            expected=bucket,
            found=_shown(created.bucket),
        )
    return parse_incoming_key(created.key)


def _ready_error(name: str, error: ValidationError) -> UserError:
    first = error.errors(include_url=False)[0]
    key = _cut(".".join(str(part) for part in first["loc"]))
    if first["type"] == "extra_forbidden":
        near = nearest(key, ReadyFile.model_fields)
        hint = f"Did you mean `{near}`?" if near else "Put your own fields under `metadata`."
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
