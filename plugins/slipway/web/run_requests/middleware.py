"""An ASGI middleware of Airflow's API server that sees who starts a run, and what a task says about its run.

Cheap to import, because every process of Airflow imports its plugins: what touches the database is imported when it is
needed.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Awaitable, Callable, MutableMapping
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any

from slipway.run_note import NOTE_KEY
from slipway.workflows import workflow_of
from slipway_core.acts.run_names import run_name, timed

if TYPE_CHECKING:
    from slipway.web.run_requests.notes import NoteKeeper

log = logging.getLogger(__name__)

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

_BODY_LIMIT_BYTES = 64 * 1024
_NAME_LIMIT_S = 2.0
_STARTS = re.compile(r".*/api/v2/dags/(?P<dag_id>[^/]+)/dagRuns/?")
_TELLS = re.compile(rf".*/execution/xcoms/(?P<dag_id>[^/]+)/(?P<run_id>[^/]+)/[^/]+/{NOTE_KEY}")


class RunRequests:
    """Names runs that people start without a name, and saves what tasks say about theirs.

    :param app: what answers the requests.
    :param free_run_id: returns a run id for a run of this DAG with this name, asked in a thread.
    :param notes: keeps notes; None: in Airflow's database.
    """

    def __init__(
        self,
        app: App,
        free_run_id: Callable[[str, str], str] | None = None,
        notes: NoteKeeper | None = None,
    ) -> None:
        self._app = app
        self._free_run_id = free_run_id
        self._notes = notes
        self._calls: Any = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] == "http" and scope["method"] == "POST":
            path = str(scope["path"])
            if start := _STARTS.fullmatch(path):
                return await self._start(start["dag_id"], scope, receive, send)
            if match := _TELLS.fullmatch(path):
                return await self._tell(match["dag_id"], match["run_id"], scope, receive, send)
        return await self._app(scope, receive, send)

    async def _start(self, dag_id: str, scope: Scope, receive: Receive, send: Send) -> None:
        """Name the run, where the request is one of ours and names none; else it is left as it is."""
        received = await _received(receive)
        body = _body_of(received)
        named = None if body is None else await self._named(dag_id, body)
        if named is None:
            return await self._app(scope, _again(received, receive), send)
        headers = [(name, value) for name, value in scope["headers"] if name.lower() != b"content-length"]
        scope = {**scope, "headers": [*headers, (b"content-length", str(len(named)).encode())]}
        message = {"type": "http.request", "body": named, "more_body": False}
        return await self._app(scope, _again([message], receive), send)

    async def _named(self, dag_id: str, body: bytes) -> bytes | None:
        """Return the request's body with a run id in it; None where it is to stay as it is."""
        try:
            asked = json.loads(body)
            conf = asked.get("conf") or {}
            name = None if asked.get("dag_run_id") else run_name(workflow_of(dag_id), conf)
            if name is None:
                return None
            name = timed(workflow_of(dag_id), name, datetime.now(UTC))
            return json.dumps({**asked, "dag_run_id": await self._free(dag_id, name)}).encode()
        except Exception as error:  # the run has the name that Airflow makes, or Airflow says what is wrong
            log.info("the run of %s was not renamed: %s: %s", dag_id, type(error).__name__, error)
            return None

    async def _free(self, dag_id: str, name: str) -> str:
        if self._calls is None:
            from slipway.blocking_calls import BlockingCalls

            self._calls = BlockingCalls("Airflow's database", _NAME_LIMIT_S)
        if self._free_run_id is None:
            from slipway.web.run_requests.database import free_run_id

            self._free_run_id = free_run_id
        found: str = await self._calls.run(partial(self._free_run_id, dag_id, name))
        return found

    async def _tell(self, dag_id: str, run_id: str, scope: Scope, receive: Receive, send: Send) -> None:
        """Let Airflow take what a task says, then write it down; the task waits for nothing of that."""
        received = await _received(receive)
        body = _body_of(received)
        status = 0

        async def seen(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = int(message["status"])
            await send(message)

        await self._app(scope, _again(received, receive), seen)
        if body is None or not 200 <= status < 300:
            return
        try:
            self._keeper().keep(dag_id, run_id, json.loads(body))
        except Exception as error:  # a note is worth no failure
            log.info("the note of run %s of %s is not saved: %s", run_id, dag_id, error)

    def _keeper(self) -> NoteKeeper:
        if self._notes is None:
            from slipway.web.run_requests.database import write_note
            from slipway.web.run_requests.notes import NoteKeeper

            self._notes = NoteKeeper(write_note)
        return self._notes


async def _received(receive: Receive) -> list[Message]:
    """Return the messages of a request's body, up to the limit."""
    messages: list[Message] = []
    size = 0
    while True:
        message = await receive()
        messages.append(message)
        size += len(message.get("body", b""))
        if message["type"] != "http.request" or not message.get("more_body") or size > _BODY_LIMIT_BYTES:
            return messages


def _body_of(received: list[Message]) -> bytes | None:
    """Return a request's body; None where it is too large, or whoever sent it has gone."""
    last = received[-1]
    if last["type"] != "http.request" or last.get("more_body"):
        return None
    body = b"".join(message.get("body", b"") for message in received)
    return body if len(body) <= _BODY_LIMIT_BYTES else None


def _again(received: list[Message], receive: Receive) -> Receive:
    """Return what hands the messages on that were received already, then those that come."""
    left = iter(received)

    async def next_message() -> Message:
        message = next(left, None)
        return await receive() if message is None else message

    return next_message
