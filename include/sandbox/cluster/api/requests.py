"""Reading a request: its body, its query, in the words of the API server where it cannot be read."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

from aiohttp import web

from include.sandbox.cluster.errors import bad_request, unsupported_media_type

JSON = "application/json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_MERGE_PATCH = "application/strategic-merge-patch+json"
_TRUE = frozenset({"true", "1", "True", "t", "T", "TRUE"})


async def read_object(request: web.Request, accepted: tuple[str, ...]) -> dict[str, Any]:
    """Return the body as a JSON object.

    :raises ApiError: 415, another content type; 400, anything else.
    """
    _require_content_type(request, accepted)
    body = await request.read()
    try:
        value = json.loads(body or b"null")
    except ValueError as error:
        raise bad_request(f"couldn't get version/kind; json parse error: {error}") from error
    if not isinstance(value, dict):
        raise bad_request(f"the body of the request must be a JSON object; found {type(value).__name__}")
    return value


async def read_patch(request: web.Request, accepted: tuple[str, ...]) -> dict[str, Any]:
    """Return the body of a PATCH; raises ApiError as `read_object`, in the words for a patch."""
    _require_content_type(request, accepted)
    try:
        value = json.loads(await request.read())
    except ValueError as error:
        raise bad_request("error decoding patch: unexpected end of JSON input") from error
    if not isinstance(value, dict):
        found = {"list": "array", "str": "string", "bool": "bool"}.get(type(value).__name__, "number")
        raise bad_request(
            f"error decoding patch: json: cannot unmarshal {found} into Go value of type map[string]interface {{}}"
        )
    return value


async def read_options(request: web.Request) -> dict[str, Any]:
    """Return the body of a DELETE, which may be missing; raises ApiError as `read_object`."""
    return await read_object(request, (JSON,)) if await request.read() else {}


def _require_content_type(request: web.Request, accepted: tuple[str, ...]) -> None:
    # Without the header the API server takes a body for JSON, which is one kind of object but no kind of
    # patch.
    content_type = request.content_type if "Content-Type" in request.headers else JSON
    if content_type not in accepted:
        raise unsupported_media_type(accepted)


def flag(request: web.Request, name: str) -> bool:
    """Return a boolean query parameter; absent is False."""
    return request.query.get(name) in _TRUE


def number(request: web.Request, name: str) -> int | None:
    """Return a whole number from the query, or None.

    :raises ApiError: 400, for a negative one or none at all.
    """
    text = request.query.get(name)
    if not text:
        return None
    if not text.isdecimal():
        raise bad_request(f"{name}: Invalid value: {text!r}: must be a whole number, not negative")
    return int(text)


def moment(request: web.Request, name: str) -> datetime | None:
    """Return a time (RFC 3339) from the query as UTC, or None.

    :raises ApiError: 400, it is no time.
    """
    text = request.query.get(name)
    if not text:
        return None
    try:
        return datetime.fromisoformat(text).astimezone(UTC)
    except ValueError as error:
        raise bad_request(f"{name}: Invalid value: {text!r}: must be a time as in RFC 3339") from error


def is_dry_run(request: web.Request) -> bool:
    """Tell whether nothing shall be stored.

    :raises ApiError: 400, for a value other than All.
    """
    value = request.query.get("dryRun", "")
    if value not in ("", "All"):
        raise bad_request(f'dryRun: Unsupported value: "{value}": supported values: "All"')
    return value == "All"
