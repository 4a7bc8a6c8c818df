"""Names and notes of runs: what the middleware changes of a request, and what it never does."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable
from typing import Any

import pytest

from slipway.web.run_requests.middleware import Message, Receive, RunRequests, Scope, Send
from slipway.web.run_requests.notes import NoteKeeper

STARTS = "/api/v2/dags/model_release/dagRuns"
TELLS = "/execution/xcoms/model_release/digits-2/admit/run_note"
FORM = {"dag_run_id": None, "logical_date": None, "conf": {"model": "digits", "version": 2}}


class App:
    """What lies behind the middleware: it takes the body and answers."""

    def __init__(self, status: int = 200) -> None:
        self.status = status
        self.bodies: list[bytes] = []
        self.headers: dict[bytes, bytes] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        body = b""
        while True:
            message = await receive()
            body += message.get("body", b"")
            if not message.get("more_body"):
                break
        self.bodies.append(body)
        self.headers = dict(scope["headers"])
        await send({"type": "http.response.start", "status": self.status, "headers": []})
        await send({"type": "http.response.body", "body": b"answer"})


async def ask(middleware: RunRequests, path: str, *parts: bytes, method: str = "POST") -> list[Message]:
    """Send a request in parts; return what was answered."""
    size = str(sum(map(len, parts))).encode()
    scope: Scope = {"type": "http", "method": method, "path": path, "headers": [(b"content-length", size)]}
    left = [
        {"type": "http.request", "body": part, "more_body": at + 1 < len(parts)}
        for at, part in enumerate(parts)
    ]
    answers: list[Message] = []

    async def receive() -> Message:
        return left.pop(0) if left else {"type": "http.disconnect"}

    async def send(message: Message) -> None:
        answers.append(message)

    await middleware(scope, receive, send)
    return answers


def named(app: App, free: Callable[[str, str], str] = lambda _dag, name: name) -> RunRequests:
    return RunRequests(app, free_run_id=free)


async def test_a_run_without_a_name_gets_one() -> None:
    """Model and version, the next number where there was one before; the rest of the request stays as it was."""
    app = App()
    body = json.dumps(FORM).encode()
    await ask(
        named(app, lambda dag, name: f"{name}-2" if dag == "model_release" else "?"),
        STARTS,
        body[:20],
        body[20:],
    )
    assert json.loads(app.bodies[0]) == {**FORM, "dag_run_id": "digits-2-2"}
    assert app.headers[b"content-length"] == str(len(app.bodies[0])).encode()


@pytest.mark.parametrize(
    ("path", "body", "method"),
    [
        (STARTS, json.dumps({**FORM, "dag_run_id": "mine"}).encode(), "POST"),
        (STARTS, json.dumps({**FORM, "conf": None}).encode(), "POST"),
        (STARTS, json.dumps({**FORM, "conf": ["digits"]}).encode(), "POST"),
        (STARTS, json.dumps({**FORM, "conf": {"model": "../x", "version": 2}}).encode(), "POST"),
        (STARTS, b"[1]", "POST"),
        (STARTS, b"{", "POST"),
        (STARTS, b"\xff\xfe", "POST"),
        (STARTS, b"", "POST"),
        (STARTS, b"[" * 30_000, "POST"),
        (STARTS, json.dumps(FORM).encode(), "PATCH"),
        ("/api/v2/dags/somebody_elses/dagRuns", json.dumps(FORM).encode(), "POST"),
        (f"{STARTS}/list", json.dumps(FORM).encode(), "POST"),
        ("/slipway/webhooks/mlflow", json.dumps(FORM).encode(), "POST"),
    ],
)
async def test_what_is_not_to_be_named_passes_unchanged(path: str, body: bytes, method: str) -> None:
    """A name of one's own, a form that Airflow will refuse, no JSON, other people's DAGs and other requests."""
    app = App()
    answers = await ask(named(app), path, body, method=method)
    assert app.bodies == [body]
    assert [one["type"] for one in answers] == ["http.response.start", "http.response.body"]


async def test_a_large_request_passes_in_its_parts() -> None:
    """It is not gathered here."""
    app = App()
    parts = [b"x" * 40_000] * 4
    await ask(named(app), STARTS, *parts)
    assert app.bodies == [b"".join(parts)]


async def test_a_database_that_hangs_leaves_the_name_to_airflow(monkeypatch: pytest.MonkeyPatch) -> None:
    """The run starts all the same, after the limit; so it does where the database says no."""
    monkeypatch.setattr("slipway.web.run_requests.middleware._NAME_LIMIT_S", 0.05)
    ended = threading.Event()
    app, body = App(), json.dumps(FORM).encode()
    try:
        hanging = named(app, lambda _dag, _name: str(ended.wait(60)))
        await asyncio.wait_for(ask(hanging, STARTS, body), 30)
        await asyncio.wait_for(ask(hanging, STARTS, body), 30)
    finally:
        ended.set()

    def refuses(_dag: str, _name: str) -> str:
        raise OSError("no route to the database")

    await ask(named(app, refuses), STARTS, body)
    assert app.bodies == [body] * 3


async def test_what_a_task_tells_is_written_once_airflow_has_taken_it() -> None:
    """The newest note of a run counts; the task is answered as if nobody listened."""
    written: list[tuple[str, str, str]] = []
    keeper = NoteKeeper(lambda *note: written.append(note))
    app = App(201)
    middleware = RunRequests(app, notes=keeper)
    answers = await ask(middleware, TELLS, b'"digits 2: release started"')
    assert answers[-1]["body"] == b"answer"
    assert app.bodies == [b'"digits 2: release started"']
    await keeper.written()
    assert written == [("model_release", "digits-2", "digits 2: release started")]


@pytest.mark.parametrize(
    ("status", "path", "body"),
    [
        (401, TELLS, b'"digits 2: promoted"'),
        (404, TELLS, b'"digits 2: promoted"'),
        (201, TELLS, b'{"not": "a note"}'),
        (201, TELLS, b"{"),
        (201, TELLS, b'""'),
        (201, TELLS, json.dumps("x" * 1001).encode()),
        (201, TELLS.replace("model_release", "somebody_elses"), b'"digits 2: promoted"'),
        (201, TELLS.replace("run_note", "return_value"), b'"digits 2: promoted"'),
    ],
)
async def test_what_is_no_note_is_not_written(status: int, path: str, body: bytes) -> None:
    """Airflow has refused it, it is none, it is too long, or it is another DAG's."""
    written: list[tuple[str, str, str]] = []
    keeper = NoteKeeper(lambda *note: written.append(note))
    app = App(status)
    answers = await ask(RunRequests(app, notes=keeper), path, body)
    assert (answers[0]["status"], app.bodies) == (status, [body])
    await keeper.written()
    assert written == []


async def test_a_database_that_hangs_delays_no_task() -> None:
    """The answer is there before the note is written; what cannot be written is dropped, and the next one is tried."""
    hangs, written = threading.Event(), list[Any]()

    def write(dag_id: str, run_id: str, note: str) -> None:
        if note == "a: hangs":
            hangs.wait(60)
            raise OSError("the database went away")
        written.append((run_id, note))

    keeper = NoteKeeper(write, limit_s=0.2)
    middleware = RunRequests(App(201), notes=keeper)
    try:
        answers = await asyncio.wait_for(ask(middleware, TELLS, b'"a: hangs"'), 30)
        assert answers[0]["status"] == 201
        await keeper.written()
        for note in (b'"a: first"', b'"a: second"'):
            await asyncio.wait_for(ask(middleware, TELLS, note), 30)
        hangs.set()
        await keeper.written()
    finally:
        hangs.set()
    assert written[-1] == ("digits-2", "a: second")


async def test_notes_that_wait_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """A database that is away for a day costs a few notes, not the API server's memory."""
    monkeypatch.setattr("slipway.web.run_requests.notes._MOST_WAITING", 2)
    written: list[str] = []
    keeper = NoteKeeper(lambda _dag, run_id, _note: written.append(run_id))
    for run in range(4):
        keeper.keep("model_release", f"digits-{run}", "digits: note")
    await keeper.written()
    assert written == ["digits-0", "digits-1"]


async def test_other_protocols_pass() -> None:
    """A websocket, or the application's start and end."""
    seen: list[str] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        seen.append(scope["type"])

    async def nothing(*_: Any) -> Any:
        return {}

    for kind in ("lifespan", "websocket"):
        await RunRequests(app)({"type": kind, "path": STARTS}, nothing, nothing)
    assert seen == ["lifespan", "websocket"]
