"""What the Triton hook sends again, what it does not, and what it makes of answers that are none."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np
import pytest

from airflow_provider_triton.client import calls, http_transport
from airflow_provider_triton.errors import ServerUnavailableError
from airflow_provider_triton.hooks.triton import TritonHook
from slipway_sandbox.host.ports import LOOPBACK
from tests.support.http_server import QuietHandler, http_server

Answers = list[tuple[int, bytes]]


@dataclass
class Scripted:
    """A server that gives its answers one after the other, the last one for ever, and counts what it is asked."""

    answers: Answers = field(default_factory=list)
    asked: list[str] = field(default_factory=list)


@pytest.fixture
def scripted(monkeypatch: pytest.MonkeyPatch) -> Iterator[Scripted]:
    """The server; the connection `scripted` leads to it over HTTP."""
    one = Scripted()

    class Handler(QuietHandler):
        def respond(self) -> None:
            self.body()
            one.asked.append(self.path)
            self.answer(*(one.answers.pop(0) if len(one.answers) > 1 else one.answers[0]))

    with http_server(Handler) as port:
        connection = {"conn_type": "triton", "host": LOOPBACK, "port": port, "extra": {"protocol": "http"}}
        monkeypatch.setenv("AIRFLOW_CONN_SCRIPTED", json.dumps(connection))
        yield one


def test_a_question_without_an_answer_is_asked_again(scripted: Scripted) -> None:
    """A proxy that has no server for a moment costs no task: a question is sent three times in all."""
    scripted.answers = [(503, b"no upstream"), (502, b""), (200, b"[]")]
    assert TritonHook("scripted", 5).index() == ()
    assert len(scripted.asked) == 3
    scripted.answers = [(503, b"no upstream")]
    with pytest.raises(ServerUnavailableError):
        TritonHook("scripted", 5).index()
    assert len(scripted.asked) == 6


async def test_a_question_is_asked_again_in_an_event_loop(scripted: Scripted) -> None:
    """So it is where no thread waits."""
    scripted.answers = [(503, b"no upstream"), (200, b"[]")]
    assert await TritonHook("scripted", 5).ask_async(calls.index()) == ()


@pytest.mark.parametrize(
    "ask",
    [
        lambda hook: hook.load("m", {"name": "m"}),
        lambda hook: hook.unload("m"),
        lambda hook: hook.set_log_settings({"log_info": True}),
        lambda hook: hook.infer("m", 1, {"x": np.zeros((1, 1), np.float32)}, ["y"]),
    ],
    ids=["load", "unload", "setting", "inference"],
)
def test_what_may_have_an_effect_is_sent_once(
    scripted: Scripted, ask: Callable[[TritonHook], object]
) -> None:
    """Whether it is wanted a second time is known to the task, not to the hook."""
    scripted.answers = [(503, b"no upstream")]
    with pytest.raises(ServerUnavailableError):
        ask(TritonHook("scripted", 5))
    assert len(scripted.asked) == 1


def test_an_answer_of_the_servers_is_not_asked_for_again(scripted: Scripted) -> None:
    """An error that Triton answers with is an answer."""
    scripted.answers = [(500, b'{"error": "no"}')]
    with pytest.raises(ServerUnavailableError, match="no"):
        TritonHook("scripted", 5).index()
    assert len(scripted.asked) == 1


@pytest.mark.parametrize(
    "ask",
    [
        lambda hook: hook.index(),
        lambda hook: hook.server_metadata(),
        lambda hook: hook.metadata("m"),
        lambda hook: hook.config("m"),
        lambda hook: hook.statistics(),
        lambda hook: hook.trace_settings(),
        lambda hook: hook.log_settings(),
        lambda hook: hook.system_shared_memory(),
    ],
    ids=["index", "server", "metadata", "configuration", "statistics", "trace", "log", "shared memory"],
)
@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"null",
        b"7",
        b'"text"',
        b"<html>",
        b"[1]",
        b'[{"name": 1}]',
        b'{"name": [], "model_stats": 3, "models": 4, "regions": 5, "settings": 6, "config": 7, "trace_level": 8, '
        b'"log_info": []}',
        b"[" * 100_000,
    ],
    ids=["empty", "null", "number", "text", "page", "list", "wrong name", "wrong parts", "deep"],
)
def test_answers_that_are_none(scripted: Scripted, ask: Callable[[TritonHook], object], body: bytes) -> None:
    """Whatever a server says that cannot be read is no answer of Triton's, and no other error."""
    scripted.answers = [(200, body)]
    with pytest.raises(ServerUnavailableError):
        ask(TritonHook("scripted", 5))


def test_an_answer_without_end_is_given_up(scripted: Scripted, monkeypatch: pytest.MonkeyPatch) -> None:
    """An answer is read to a limit, and then it is none."""
    monkeypatch.setattr(http_transport, "_DOCUMENT_BYTES_LIMIT", 1000)
    scripted.answers = [(200, b"[" + b" " * 2000 + b"]")]
    with pytest.raises(ServerUnavailableError, match="more than 1000 bytes"):
        TritonHook("scripted", 5).index()
