"""Reading a request: its body, its query, in the words of the API server where it cannot be read."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

from aiohttp import web

from slipway_sandbox.cluster.errors import ApiError, bad_request, unknown_dry_run, unsupported_media_type

JSON = "application/json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_MERGE_PATCH = "application/strategic-merge-patch+json"
# What Go reads of a body to tell of what kind it is.
_HEAD = (
    'struct { APIVersion string "json:\\"apiVersion,omitempty\\""; Kind string "json:\\"kind,omitempty\\"" }'
)
_SHOWN_BYTES = 30
_OPTIONS = {
    "POST": "CreateOptions",
    "PUT": "UpdateOptions",
    "PATCH": "PatchOptions",
    "DELETE": "DeleteOptions",
}
_TRUE = frozenset({"true", "1", "True", "t", "T", "TRUE"})


async def read_object(request: web.Request, accepted: tuple[str, ...], kind: str) -> dict[str, Any]:
    """Return the body, which should be an object of this kind, as a JSON object.

    :raises ApiError: 415, another content type; 400, anything else.
    """
    _require_content_type(request, accepted)
    body = await request.read()
    try:
        value = json.loads(body)
    except ValueError:
        raise _unrecognized(kind, "unexpected end of JSON input", body) from None
    if not isinstance(value, dict):
        raise _unrecognized(
            kind, f"json: cannot unmarshal {_go_name(value)} into Go value of type {_HEAD}", body
        )
    return value


def _unrecognized(kind: str, why: str, body: bytes) -> ApiError:
    """Return the error 400 with the beginning of the body: as text if it looks like JSON, else as digits."""
    if not body:
        shown = "<empty>"
    elif body.startswith(b"{"):
        shown = body[:_SHOWN_BYTES].decode(errors="replace")
    else:
        shown = body[:_SHOWN_BYTES].hex()
    more = " ..." if len(body) > _SHOWN_BYTES else ""
    return bad_request(
        f"the object provided is unrecognized (must be of type {kind}): couldn't get version/kind; "
        f"json parse error: {why} ({shown}{more})"
    )


def _go_name(value: Any) -> str:
    return {"list": "array", "str": "string", "bool": "bool", "NoneType": "null"}.get(
        type(value).__name__, "number"
    )


async def read_patch(request: web.Request, accepted: tuple[str, ...]) -> dict[str, Any]:
    """Return the body of a PATCH; raises ApiError as `read_object`, in the words for a patch."""
    _require_content_type(request, accepted)
    try:
        value = json.loads(await request.read())
    except ValueError as error:
        raise bad_request("error decoding patch: unexpected end of JSON input") from error
    if not isinstance(value, dict):
        raise bad_request(
            f"error decoding patch: json: cannot unmarshal {_go_name(value)} into Go value of type "
            "map[string]interface {}"
        )
    return value


async def read_options(request: web.Request) -> dict[str, Any]:
    """Return the body of a DELETE, which may be missing; raises ApiError as `read_object`."""
    return await read_object(request, (JSON,), "DeleteOptions") if await request.read() else {}


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

    :raises ApiError: 400, it isn't a time.
    """
    text = request.query.get(name)
    if not text:
        return None
    try:
        return datetime.fromisoformat(text).astimezone(UTC)
    except ValueError as error:
        raise bad_request(f"{name}: Invalid value: {text!r}: must be a time as in RFC 3339") from error


def is_dry_run(request: web.Request) -> bool:
    """Return whether nothing shall be stored.

    :raises ApiError: 422, for a value other than All.
    """
    value = request.query.get("dryRun", "")
    if value not in ("", "All"):
        raise unknown_dry_run(_OPTIONS[request.method], value)
    return value == "All"
