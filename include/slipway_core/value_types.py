"""Types of single values that documents share: digests, paths, times, metadata."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated

from pydantic import AfterValidator, JsonValue

from slipway_rules.text_forms import PATH_LIMIT, canonical_json, is_relative_path, is_sha256


def _sha256_hex(text: str) -> str:
    if not is_sha256(text):
        raise ValueError("must be 64 lower-case hexadecimal digits")
    return text


def _relative_path(text: str) -> str:
    if not is_relative_path(text):
        raise ValueError(
            f"must be a relative path of plain names, without `..` and hidden parts, at most {PATH_LIMIT} characters"
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
