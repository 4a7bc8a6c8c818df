"""Types of single values that documents share: digests, paths, times, metadata; and JSON in one form."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from typing import Annotated, Any

from pydantic import AfterValidator, JsonValue

_PATH_LIMIT = 900  # a key of S3 has 1,024 bytes, with the version's prefix
_SHA256 = re.compile(r"[0-9a-f]{64}")
_PATH_PART = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._@+-]*")


def canonical_json(value: Any, indent: int | None = None) -> bytes:
    """Return a value as UTF-8 JSON: equal values give equal bytes. Raises ValueError for what JSON does not have."""
    separators = (",", ":") if indent is None else (",", ": ")
    text = json.dumps(
        value, sort_keys=True, indent=indent, separators=separators, ensure_ascii=False, allow_nan=False
    )
    return text.encode()


def _sha256_hex(text: str) -> str:
    if not _SHA256.fullmatch(text):
        raise ValueError("must be 64 lower-case hexadecimal digits")
    return text


def is_relative_path(text: str) -> bool:
    """Tell whether a text is a path of plain names: relative, without `..` and hidden parts, not too long."""
    return len(text) <= _PATH_LIMIT and all(
        _PATH_PART.fullmatch(part) and ".." not in part for part in text.split("/")
    )


def _relative_path(text: str) -> str:
    if not is_relative_path(text):
        raise ValueError(
            f"must be a relative path of plain names, without `..` and hidden parts, at most {_PATH_LIMIT} characters"
        )
    return text


def _in_utc(moment: datetime) -> datetime:
    if moment.tzinfo is None:
        raise ValueError("must say its time zone")
    try:
        return moment.astimezone(UTC)
    except OverflowError:
        raise ValueError("must be a time that UTC has") from None


def _finite(value: JsonValue) -> JsonValue:
    """JSON has no NaN and no infinity, though parsers take them."""
    try:
        canonical_json(value)
    except (ValueError, RecursionError):
        raise ValueError("must hold only finite numbers and valid text, not too deep") from None
    return value


Sha256 = Annotated[str, AfterValidator(_sha256_hex)]
RelativePath = Annotated[str, AfterValidator(_relative_path)]
UtcTime = Annotated[datetime, AfterValidator(_in_utc)]
Metadata = Annotated[JsonValue, AfterValidator(_finite)]
