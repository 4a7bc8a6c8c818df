"""TritonHook against servers that are away, hang up or answer nonsense."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from socketserver import BaseRequestHandler, ThreadingTCPServer

import pytest

from airflow_provider_triton.errors import LoadRefusedError, ServerUnavailableError, TimedOutError, UserError
from airflow_provider_triton.hooks.triton import TritonHook
from slipway_sandbox.host.ports import LOOPBACK, free_port
from tests.support.http_server import QuietHandler, http_server, in_thread
from tests.support.store.connections import triton_connection
from tests.support.triton_provider.table import ROW

pytestmark = pytest.mark.timeout(600)


# --- servers that misbehave ---

EVERY_CALL: dict[str, Callable[[TritonHook], object]] = {
    "load": lambda hook: hook.load("table", {"name": "table"}),
    "unload": lambda hook: hook.unload("table"),
    "ready_versions": lambda hook: hook.ready_versions("table"),
    "metadata": lambda hook: hook.metadata("table", 1),
    "config": lambda hook: hook.config("table", 1),
    "infer": lambda hook: hook.infer("table", 1, {"x": ROW}, ["y"]),
}


def connect(monkeypatch: pytest.MonkeyPatch, port: int, timeout_s: float = 5.0) -> TritonHook:
    """Return a hook on whatever listens at `port`."""
    monkeypatch.setenv("AIRFLOW_CONN_TRITON_DEFAULT", triton_connection(port, port))
    return TritonHook(timeout_s=timeout_s)


@pytest.mark.parametrize("ask", EVERY_CALL.values(), ids=EVERY_CALL)
def test_server_that_does_not_listen(
    monkeypatch: pytest.MonkeyPatch, ask: Callable[[TritonHook], object]
) -> None:
    """Every call to a server that is not there is ServerUnavailableError and names the connection."""
    with pytest.raises(ServerUnavailableError, match="'triton_default'"):
        ask(connect(monkeypatch, free_port()))


def test_stream_to_a_server_that_does_not_listen(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stream to a server that is not there names the connection too."""
    with pytest.raises(ServerUnavailableError, match="'triton_default'"):
        connect(monkeypatch, free_port()).infer_stream("table", 1, [{"x": ROW}], ["y"])


@pytest.mark.parametrize("path", ["mnt/staging", ""])
def test_repository_path_must_be_absolute(monkeypatch: pytest.MonkeyPatch, path: str) -> None:
    """A relative folder would be looked for wherever the server happens to run."""
    extra = {"repository_path": path}
    monkeypatch.setenv("AIRFLOW_CONN_TRITON_DEFAULT", json.dumps({"conn_type": "generic", "extra": extra}))
    with pytest.raises(UserError, match=r"'repository_path' of the connection 'triton_default'"):
        _ = TritonHook().repository_path


class Speaker(BaseRequestHandler):
    """Reads what comes first, says `words` and hangs up; without words it says nothing until the client has gone."""

    words: bytes | None

    def handle(self) -> None:
        self.request.recv(65536)
        if self.words is not None:
            self.request.sendall(self.words)
            return
        while self.request.recv(65536):
            pass


@pytest.fixture
def speaker() -> Iterator[Callable[[bytes | None], int]]:
    """Starts a server that answers every connection with the given words; returns its port."""
    with ExitStack() as servers:

        def start(words: bytes | None) -> int:
            handler = type("Speaker", (Speaker,), {"words": words})
            server = ThreadingTCPServer((LOOPBACK, 0), handler)
            server.daemon_threads = True
            servers.enter_context(in_thread(server))
            return int(server.server_address[1])

        yield start


@pytest.mark.parametrize("ask", EVERY_CALL.values(), ids=EVERY_CALL)
@pytest.mark.parametrize(
    "words",
    [
        None,
        b"",
        b"not HTTP at all\r\n\r\n",
        b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 6\r\n\r\n<html>",
        b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\n\r\n",
    ],
    ids=["silent", "hangs up", "garbage", "503 of a proxy", "502 of a proxy"],
)
def test_server_that_gives_no_answer_of_its_own(
    monkeypatch: pytest.MonkeyPatch,
    speaker: Callable[[bytes | None], int],
    ask: Callable[[TritonHook], object],
    words: bytes | None,
) -> None:
    """Silence, a crash in the middle and a proxy's error page are never taken for a verdict on the model."""
    with pytest.raises(ServerUnavailableError):
        ask(connect(monkeypatch, speaker(words), timeout_s=1.0))


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (b"", ServerUnavailableError),
        (b"not HTTP at all\r\n\r\n", ServerUnavailableError),
        (None, TimedOutError),
    ],
    ids=["hangs up", "garbage", "silent"],
)
def test_stream_to_a_server_that_gives_no_answer_of_its_own(
    monkeypatch: pytest.MonkeyPatch,
    speaker: Callable[[bytes | None], int],
    words: bytes | None,
    error: type[Exception],
) -> None:
    """What does not come over a stream is no verdict on the model either, and the wait for it ends."""
    with pytest.raises(error):
        connect(monkeypatch, speaker(words), timeout_s=1.0).infer_stream("table", 1, [{"x": ROW}], ["y"])


@pytest.fixture
def answering() -> Iterator[Callable[[Mapping[str, tuple[int, str]]], int]]:
    """Starts a server that answers POSTs by path with the given status and JSON error; returns its port."""
    with ExitStack() as servers:

        def start(answers: Mapping[str, tuple[int, str]]) -> int:
            class Handler(QuietHandler):
                def respond(self) -> None:
                    self.body()
                    status, content = answers[self.path]
                    self.answer(status, content.encode())

            return servers.enter_context(http_server(Handler))

        yield start


# What tritonserver 2.51.0 answers 25 s after its repository in S3 has gone away.
NOT_POLLED = (500, '{"error":"failed to load \'table\', failed to poll from model repository"}')
NO_INDEX = (
    500,
    '{"error":"Unable to create S3 filesystem client. Check account credentials. Exception: \'\' '
    "Message: 'curlCode: 7, Couldn't connect to server'\"}",
)


def test_repository_out_of_reach_is_no_verdict_on_the_model(
    monkeypatch: pytest.MonkeyPatch, answering: Callable[[Mapping[str, tuple[int, str]]], int]
) -> None:
    """A load that fails because the server cannot reach its repository may be tried again."""
    port = answering({"/v2/repository/models/table/load": NOT_POLLED, "/v2/repository/index": NO_INDEX})
    with pytest.raises(ServerUnavailableError):
        connect(monkeypatch, port).load("table", {"name": "table"})


def test_model_that_is_not_in_the_repository_is_refused(
    monkeypatch: pytest.MonkeyPatch, answering: Callable[[Mapping[str, tuple[int, str]]], int]
) -> None:
    """The same answer from a server that can list its repository is about the model."""
    port = answering({"/v2/repository/models/table/load": NOT_POLLED, "/v2/repository/index": (200, "[]")})
    with pytest.raises(LoadRefusedError):
        connect(monkeypatch, port).load("table", {"name": "table"})
