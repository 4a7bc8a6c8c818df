"""Ask an API server the questions, the emulator or a real one, over plain HTTP or TLS."""

from __future__ import annotations

import json
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from tests.support.cluster.questions.question import UID, Question
from tests.support.cluster.questions.table import MADE

_ANSWER_LIMIT_S = 30.0
_SETTLE_LIMIT_S = 10.0
_POLL_S = 0.01
_WRONG_TOKEN = "wrong"


@dataclass(frozen=True)
class ApiServer:
    """Where an API server is: `base_url` without a closing slash, `context` for TLS with an authority of its own."""

    base_url: str
    token: str
    context: ssl.SSLContext | None = None


@dataclass(frozen=True)
class Answer:
    """What came back: `body` is JSON, or a text where the server sent none; `warnings` are the headers of that name."""

    status: int
    body: Any
    warnings: tuple[str, ...] = ()


def ask(server: ApiServer, question: Question, *, uid: str = "") -> Answer:
    """Ask one question.

    :param uid: what stands in the place of `UID` in the body.
    """
    return _send(
        server,
        question.method,
        question.path,
        _encoded(question).replace(UID, uid).encode(),
        question.content_type,
        _WRONG_TOKEN if question.wrong_token else server.token,
    )


def ask_all(server: ApiServer, questions: Iterable[Question]) -> dict[str, Answer]:
    """Ask questions in order and return the answers by the questions' names; what an earlier run left goes first."""
    _clear(server)
    answers: dict[str, Answer] = {}
    uid = ""
    for question in questions:
        answer = ask(server, question, uid=uid)
        answers[question.name] = answer
        uid = uid or str(answer.body["metadata"]["uid"])
        if question.settles and question.method == "DELETE":
            _until_gone(server, question.path)
        elif question.settles:
            _settle(server, f"{question.path}/{answer.body['metadata']['name']}")
        if question.leaves:
            _send(server, "DELETE", question.leaves)
    return answers


def _encoded(question: Question) -> str:
    if question.body is None or isinstance(question.body, str):
        return question.body or ""
    return json.dumps(question.body)


def _settle(server: ApiServer, path: str) -> None:
    """Wait until KServe's controller has put its finalizer on an object: what comes before is a race."""
    limit = time.monotonic() + _SETTLE_LIMIT_S
    while "finalizers" not in _send(server, "GET", path).body["metadata"]:
        assert time.monotonic() < limit, f"no controller has taken up {path}"
        time.sleep(_POLL_S)


def _clear(server: ApiServer) -> None:
    for path in MADE:
        _send(server, "DELETE", path)
    for path in MADE:
        _until_gone(server, path)


def _until_gone(server: ApiServer, path: str) -> None:
    limit = time.monotonic() + _SETTLE_LIMIT_S
    while _send(server, "GET", path).status != 404:
        assert time.monotonic() < limit, f"{path} does not go away"
        time.sleep(_POLL_S)


def _send(
    server: ApiServer,
    method: str,
    path: str,
    body: bytes = b"",
    content_type: str = "application/json",
    token: str | None = None,
) -> Answer:
    headers = {
        "Authorization": f"Bearer {token or server.token}",
        "Content-Type": content_type,
        "Accept": "application/json",
    }
    request = urllib.request.Request(server.base_url + path, body or None, headers, method=method)
    try:
        with urllib.request.urlopen(request, context=server.context, timeout=_ANSWER_LIMIT_S) as response:
            return _answer(response.status, response)
    except urllib.error.HTTPError as error:
        with error:
            return _answer(error.code, error)


def _answer(status: int, response: Any) -> Answer:
    text = response.read().decode(errors="replace")
    try:
        body = json.loads(text)
    except ValueError:
        body = text
    return Answer(status, body, tuple(response.headers.get_all("Warning") or ()))
