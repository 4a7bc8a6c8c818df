"""The live servers' REST API: what is no answer of Triton's, and what takes too long, is never taken for one."""

from __future__ import annotations

import time

import pytest

from slipway.hooks.ingress import Endpoint
from slipway.hooks.live_server import LiveServerHook
from slipway_core.errors import ServerUnavailableError
from tests.support.plugins.http_double import Answer, metrics_server

LIMIT_S = 0.5


@pytest.mark.parametrize(
    "answer",
    [
        Answer(drips=True),
        Answer(waits=True),
        Answer(status=404, body="no such model"),
        Answer(status=302, headers={"Location": "/login"}),
        Answer(body="<html>"),
        Answer(body="[1]"),
    ],
    ids=["drips", "hangs", "404", "login", "page", "list"],
)
def test_what_is_no_answer_ends_in_time(answer: Answer) -> None:
    """With an error that names the host; nothing is followed or guessed."""
    with metrics_server() as double:
        double.answer = lambda asked: answer
        server = LiveServerHook(Endpoint(double.url, "digits.models.example"), LIMIT_S)
        began = time.monotonic()
        with pytest.raises(ServerUnavailableError, match=r"digits\.models\.example"):
            server.config("digits")
        assert time.monotonic() - began < 20 * LIMIT_S
        assert [one.headers["Host"] for one in double.asked] == ["digits.models.example"]


@pytest.mark.parametrize(("status", "is_away"), [(503, True), (500, False), (400, False)])
def test_a_proxy_that_has_no_server_is_no_model_that_errs(status: int, is_away: bool) -> None:
    """What the model answers is the caller's to judge."""
    with metrics_server() as double:
        double.answer = lambda asked: Answer(status=status, body="no")
        server = LiveServerHook(Endpoint(double.url, "digits"), 5)
        asked = [("/v2/models/digits/infer", b"{}", {"X-Row": "1"})]
        if is_away:
            with pytest.raises(ServerUnavailableError):
                server.post_each(asked)
        else:
            (reply,) = server.post_each(asked)
            assert (reply.status, reply.body) == (status, b"no")
            assert reply.latency_ms > 0
        assert double.asked[0].headers["X-Row"] == "1"
