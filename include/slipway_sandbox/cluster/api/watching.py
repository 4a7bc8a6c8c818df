"""A watch: changes of a collection, one JSON object a line, for as long as the client stays."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from aiohttp import web

from slipway_sandbox.cluster.api.requests import number
from slipway_sandbox.cluster.errors import ApiError
from slipway_sandbox.cluster.resources import Resource
from slipway_sandbox.cluster.selectors import Matcher
from slipway_sandbox.cluster.storage.store import ObjectStore

_DEFAULT_LIMIT_S = 1800


async def stream_changes(
    request: web.Request, store: ObjectStore, resource: Resource, namespace: str | None, matches: Matcher
) -> web.StreamResponse:
    """Answer a watch; from `resourceVersion` on, or from the present objects when it is missing or 0.

    A version that the history no longer holds gives an ERROR event with a Status of code 410.
    """
    version = request.query.get("resourceVersion", "")
    if version and not version.isdecimal():
        parsing = f"strconv.ParseUint: parsing {json.dumps(version)}: invalid syntax"
        raise ApiError(500, "", f"resourceVersion: Invalid value: {json.dumps(version)}: {parsing}")
    since = None if version in ("", "0") else int(version)
    limit_s = number(request, "timeoutSeconds") or _DEFAULT_LIMIT_S
    response = web.StreamResponse(headers={"Content-Type": "application/json"})
    await response.prepare(request)
    try:
        async with asyncio.timeout(limit_s):
            async for event, obj in store.watch(resource.plural, namespace, since=since, matches=matches):
                await _write(response, event, obj)
    except TimeoutError:
        # The time the client asked for is over; that is the regular end.
        pass
    except ApiError as error:
        await _write(response, "ERROR", error.body())
    await response.write_eof()
    return response


async def _write(response: web.StreamResponse, event: str, obj: dict[str, Any]) -> None:
    await response.write(json.dumps({"type": event, "object": obj}).encode() + b"\n")
