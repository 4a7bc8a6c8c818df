"""TritonHook and the operators on it, against a real tritonserver; and against servers that misbehave."""

from __future__ import annotations

import json
import pkgutil
import threading
from collections.abc import Callable, Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from socketserver import BaseRequestHandler, ThreadingTCPServer
from typing import Any

import numpy as np
import pytest
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException, TaskDeferred
from slipway.hooks.triton import TritonHook
from slipway.operators.triton import TritonLoadModelOperator, TritonUnloadModelOperator

from include.model_release.errors import (
    LoadRefusedError,
    ModelInvalidError,
    ServerUnavailableError,
    TimedOutError,
    UserError,
)
from include.model_release.tensors import signature_from_metadata
from include.model_release.triton_config.build import pin_versions
from include.model_release.triton_config.pbtxt import from_pbtxt
from include.sandbox.services.triton import TritonPorts, TritonServer
from tests.support.serving.models import table_model, write_repository
from tests.support.serving.triton_install import triton_install
from tests.support.store.connections import LOOPBACK, free_port, triton_connection

pytestmark = pytest.mark.timeout(120)

CONTEXT: Any = {}
ROW = np.array([[1, 2]], dtype=np.float32)
UNKNOWN_ROW = np.array([[50, 1]], dtype=np.float32)  # the table model cannot run it


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository with `table`, whose version 1 doubles and version 2 triples, and `broken`."""
    directory = tmp_path_factory.mktemp("repository")
    write_repository(directory, versions={1: table_model(2.0), 2: table_model(3.0)})
    return write_repository(directory, name="broken", versions={1: table_model(2.0)[:200]})


@pytest.fixture(scope="module")
def triton(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[TritonServer]:
    """A running server that loads what it is asked to."""
    ports, log = TritonPorts.free(), tmp_path_factory.mktemp("log") / "log"
    server = TritonServer(
        triton_install(), repository, ports, mode="explicit", log_path=log, exit_timeout_s=1
    )
    server.start()
    try:
        server.wait_ready(30)
        yield server
    finally:
        server.stop()


@pytest.fixture
def hook(triton: TritonServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[TritonHook]:
    """The hook on the running server, on which nothing is loaded before or after."""
    connection = triton_connection(triton.ports.http, triton.ports.grpc)
    monkeypatch.setenv("AIRFLOW_CONN_TRITON_STAGING", connection)
    hook = TritonHook(timeout_s=30)
    yield hook
    TritonUnloadModelOperator(task_id="unload", model_names=["table", "broken"]).execute(CONTEXT)


@pytest.fixture
def config(repository: Path) -> dict[str, Any]:
    """The configuration of `table`."""
    return from_pbtxt((repository / "table" / "config.pbtxt").read_text())


def test_load_serves_exactly_the_pinned_version(hook: TritonHook, config: dict[str, Any]) -> None:
    """Of the versions in the repository the pinned one is ready and answers, and no other."""
    hook.load("table", pin_versions(config, [2]))
    assert hook.ready_versions("table") == {2}
    assert hook.infer("table", 2, {"x": ROW}, ["y"])["y"].tolist() == [[3, 6]]
    hook.load("table", pin_versions(config, [1]))
    assert hook.ready_versions("table") == {1}
    assert hook.infer("table", 1, {"x": ROW}, ["y"])["y"].tolist() == [[2, 4]]


def test_metadata_and_configuration_are_the_servers(hook: TritonHook, config: dict[str, Any]) -> None:
    """Metadata make a signature, and the configuration says what was pinned."""
    hook.load("table", pin_versions(config, [2]))
    signature = signature_from_metadata(hook.metadata("table", 2))
    assert [(one.name, one.datatype, one.shape) for one in signature.inputs] == [("x", "FP32", (-1, 2))]
    assert [one.name for one in signature.outputs] == ["y"]
    assert hook.config("table", 2)["version_policy"]["specific"]["versions"] in ([2], ["2"])


def test_model_that_was_never_loaded_has_no_ready_version(hook: TritonHook) -> None:
    """A name that the server does not know, and one that is not loaded, have no versions that are ready."""
    assert hook.ready_versions("table") == hook.ready_versions("nothing") == frozenset()


def test_unload_of_what_is_not_loaded(hook: TritonHook) -> None:
    """Unloading a model that is not loaded, or not even known, is no error."""
    hook.unload("table")
    hook.unload("nothing")


@pytest.mark.parametrize(
    ("model", "change", "words"),
    [
        ("broken", {}, "cannot read the model"),
        ("table", {"platform": "no_such_platform"}, "failed to poll"),
        ("table", {"version_policy": {"specific": {"versions": [7]}}}, "at least one version"),
        ("nothing", {}, "failed to poll"),
    ],
    ids=["cut short", "unknown platform", "version not there", "no such model"],
)
def test_refused_load_says_why(
    hook: TritonHook, config: dict[str, Any], model: str, change: dict[str, Any], words: str
) -> None:
    """A model that the server will not load is LoadRefusedError with the server's own words."""
    asked = {**pin_versions(config, [1]), "name": model, **change}
    with pytest.raises(LoadRefusedError, match=f"refuses to load '{model}'") as caught:
        hook.load(model, asked)
    assert words in (caught.value.found or "")
    assert hook.ready_versions(model) == frozenset()


def test_refused_load_leaves_the_old_version_serving(hook: TritonHook, config: dict[str, Any]) -> None:
    """A load that fails takes nothing away from who is served now."""
    hook.load("table", pin_versions(config, [1]))
    with pytest.raises(LoadRefusedError):
        hook.load("table", pin_versions(config, [7]))
    assert hook.infer("table", 1, {"x": ROW}, ["y"])["y"].tolist() == [[2, 4]]


@pytest.mark.parametrize(
    ("row", "output", "words"),
    [(UNKNOWN_ROW, "y", "out of"), (ROW, "z", "'z'"), (np.ones((1, 3), np.float32), "y", "shape")],
    ids=["the model fails", "unknown output", "wrong shape"],
)
def test_request_that_is_answered_with_an_error(
    hook: TritonHook, config: dict[str, Any], row: np.ndarray, output: str, words: str
) -> None:
    """An error answer to a request is about the model, not about the server."""
    hook.load("table", pin_versions(config, [1]))
    with pytest.raises(ModelInvalidError, match="'table' version 1") as caught:
        hook.infer("table", 1, {"x": row}, [output])
    assert words in (caught.value.found or "")


def test_stream_answers_each_request_by_its_place(hook: TritonHook, config: dict[str, Any]) -> None:
    """Many requests over one stream, more than are under way at once: each gets its own response, in its place."""
    hook.load("table", pin_versions(config, [2]))
    requests = [{"x": np.array([[1, number]], dtype=np.float32)} for number in range(30)]
    answers = hook.infer_stream("table", 2, requests, ["y"], concurrency=4)
    assert [[response["y"][0, 1] for response in one] for one in answers] == [[3.0 * n] for n in range(30)]
    assert hook.infer_stream("table", 2, [], ["y"]) == []


def test_stream_that_is_answered_with_an_error_can_be_followed_by_another(
    hook: TritonHook, config: dict[str, Any]
) -> None:
    """An error is the model's, and the hook is as good as before."""
    hook.load("table", pin_versions(config, [1]))
    with pytest.raises(ModelInvalidError, match="'table' version 1"):
        hook.infer_stream("table", 1, [{"x": ROW}, {"x": UNKNOWN_ROW}], ["y"])
    assert len(hook.infer_stream("table", 1, [{"x": ROW}], ["y"])) == 1


# --- the operators ---


def load(config: Mapping[str, Any] | None, **options: Any) -> TritonLoadModelOperator:
    """Return the operator as templates render it: the configuration as JSON text."""
    options = {"model_name": "table", "timeout_s": 30.0, **options}
    return TritonLoadModelOperator(task_id="load", config=json.dumps(config), **options)


def test_operator_loads_and_unloads(hook: TritonHook, config: dict[str, Any]) -> None:
    """The load operator returns the ready versions, and the unload operator ends them."""
    assert load(pin_versions(config, [1, 2])).execute(CONTEXT) == [1, 2]
    TritonUnloadModelOperator(task_id="unload", model_names=["table"]).execute(CONTEXT)
    assert hook.ready_versions("table") == frozenset()


def test_operator_may_be_run_again(hook: TritonHook, config: dict[str, Any]) -> None:
    """A load whose task died and is run again ends as the first would have."""
    assert load(pin_versions(config, [2])).execute(CONTEXT) == [2]
    assert load(pin_versions(config, [2])).execute(CONTEXT) == [2]


def test_operator_loads_the_members_first(hook: TritonHook, config: dict[str, Any]) -> None:
    """What a model needs is loaded before it; a member that is refused keeps the model itself from being asked."""
    member = {"name": "broken", "config": {**pin_versions(config, [1]), "name": "broken"}}
    operator = load(pin_versions(config, [1]), members=json.dumps([member]))
    with pytest.raises(AirflowFailException, match="refuses to load 'broken'"):
        operator.execute(CONTEXT)
    assert hook.ready_versions("table") == frozenset()


def test_operator_takes_its_limit_as_a_template_renders_it(
    hook: TritonHook, config: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The limit may be text; it is for all loads together: a second one has what the first has left."""
    limits: list[float] = []
    real = TritonHook.load

    def slow(self: TritonHook, name: str, config: Mapping[str, Any]) -> None:
        limits.append(self.timeout_s)
        real(self, name, config)

    monkeypatch.setattr(TritonHook, "load", slow)
    member = {"name": "table", "config": pin_versions(config, [1])}
    load(pin_versions(config, [1]), members=json.dumps([member]), timeout_s="30").execute(CONTEXT)
    assert 29.0 < limits[0] <= 30.0
    assert limits[1] < limits[0]


def test_operator_with_nothing_to_load_is_skipped(hook: TritonHook) -> None:
    """No configuration means that there is nothing to load."""
    with pytest.raises(AirflowSkipException):
        load(None).execute(CONTEXT)


def test_refusal_fails_the_task_without_retries(hook: TritonHook, config: dict[str, Any]) -> None:
    """A refused load is not tried again by Airflow, and its cause stays visible."""
    with pytest.raises(AirflowFailException, match="refuses to load") as caught:
        load({**pin_versions(config, [1]), "name": "broken"}, model_name="broken").execute(CONTEXT)
    assert isinstance(caught.value.__cause__, LoadRefusedError)


@pytest.mark.parametrize("names", [["table"], ["nothing"], [""], ["None"], []])
def test_unload_operator_finds_nothing_to_do(hook: TritonHook, names: list[str]) -> None:
    """As a teardown it passes whatever was loaded, also where a release had no baseline to name."""
    TritonUnloadModelOperator(task_id="unload", model_names=names).execute(CONTEXT)


def test_version_that_does_not_get_ready_in_time(
    hook: TritonHook, config: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A load that is answered, but after which the version never shows, ends with a clear error."""
    load(pin_versions(config, [1])).execute(CONTEXT)  # again, it is answered at once
    with monkeypatch.context() as patch:
        patch.setattr(TritonHook, "ready_versions", lambda self, name: frozenset({9}))
        with pytest.raises(TimedOutError, match=r"versions \[1\] within 2 s; found versions \[9\]"):
            load(pin_versions(config, [1]), timeout_s=2.0).execute(CONTEXT)


async def test_deferred_load(hook: TritonHook, config: dict[str, Any]) -> None:
    """Deferred, the trigger that the triggerer makes from its serialised form loads, and the task goes on."""
    operator = load(pin_versions(config, [2]), deferrable=True)
    with pytest.raises(TaskDeferred) as deferred:
        operator.execute(CONTEXT)
    assert hook.ready_versions("table") == frozenset(), "nothing is loaded by the worker"
    event = await only_event(deferred.value)
    assert event == {"error": None}
    assert getattr(operator, deferred.value.method_name)(CONTEXT, event) == [2]


async def test_deferred_load_that_is_refused(hook: TritonHook, config: dict[str, Any]) -> None:
    """What the trigger was refused is told to the task as the same error, and not tried again."""
    operator = load({**pin_versions(config, [1]), "name": "broken"}, model_name="broken", deferrable=True)
    with pytest.raises(TaskDeferred) as deferred:
        operator.execute(CONTEXT)
    event = await only_event(deferred.value)
    with pytest.raises(AirflowFailException) as caught:
        operator.execute_complete(CONTEXT, event)
    assert isinstance(caught.value.__cause__, LoadRefusedError)


async def test_deferred_load_without_a_server(
    config: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server that does not answer the trigger is told to the task as what may be tried again."""
    monkeypatch.setenv("AIRFLOW_CONN_TRITON_STAGING", triton_connection(free_port(), free_port()))
    operator = load(pin_versions(config, [1]), deferrable=True)
    with pytest.raises(TaskDeferred) as deferred:
        operator.execute(CONTEXT)
    event = await only_event(deferred.value)
    with pytest.raises(ServerUnavailableError):
        operator.execute_complete(CONTEXT, event)


async def only_event(deferred: TaskDeferred) -> dict[str, Any]:
    """Run the deferred task's trigger, made anew from its serialised form; return its one event's payload."""
    path, arguments = deferred.trigger.serialize()
    trigger = pkgutil.resolve_name(path)(**json.loads(json.dumps(arguments)))
    events = [event async for event in trigger.run()]
    assert len(events) == 1
    payload: dict[str, Any] = json.loads(json.dumps(events[0].payload))
    return payload


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
    monkeypatch.setenv("AIRFLOW_CONN_TRITON_STAGING", triton_connection(port, port))
    return TritonHook(timeout_s=timeout_s)


@pytest.mark.parametrize("ask", EVERY_CALL.values(), ids=EVERY_CALL)
def test_server_that_does_not_listen(
    monkeypatch: pytest.MonkeyPatch, ask: Callable[[TritonHook], object]
) -> None:
    """Every call to a server that is not there is ServerUnavailableError and names the connection."""
    with pytest.raises(ServerUnavailableError, match="'triton_staging'"):
        ask(connect(monkeypatch, free_port()))


def test_stream_to_a_server_that_does_not_listen(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stream to a server that is not there names the connection too."""
    with pytest.raises(ServerUnavailableError, match="'triton_staging'"):
        connect(monkeypatch, free_port()).infer_stream("table", 1, [{"x": ROW}], ["y"])


@pytest.mark.parametrize("path", ["mnt/staging", ""])
def test_repository_path_must_be_absolute(monkeypatch: pytest.MonkeyPatch, path: str) -> None:
    """A relative folder would be looked for wherever the server happens to run."""
    extra = {"repository_path": path}
    monkeypatch.setenv("AIRFLOW_CONN_TRITON_STAGING", json.dumps({"conn_type": "generic", "extra": extra}))
    with pytest.raises(UserError, match=r"'repository_path' of the connection 'triton_staging'"):
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
    servers: list[ThreadingTCPServer] = []

    def start(words: bytes | None) -> int:
        handler = type("Speaker", (Speaker,), {"words": words})
        server = ThreadingTCPServer((LOOPBACK, 0), handler)
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        servers.append(server)
        return int(server.server_address[1])

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


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
    servers: list[ThreadingHTTPServer] = []

    def start(answers: Mapping[str, tuple[int, str]]) -> int:
        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                self.rfile.read(int(self.headers.get("Content-Length", 0)))
                status, body = answers[self.path]
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body.encode())

            def log_message(self, *_: Any) -> None:
                """Keep quiet."""

        server = ThreadingHTTPServer((LOOPBACK, 0), Handler)
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        servers.append(server)
        return int(server.server_address[1])

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


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
