"""A real tritonserver that is stopped, or killed, while it is asked: limits hold, and the next run converges."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_triton.client import calls
from airflow_provider_triton.errors import ServerUnavailableError, TransientError
from airflow_provider_triton.hooks.triton import TritonHook
from airflow_provider_triton.operators import (
    TritonDrainModelOperator,
    TritonLoadModelOperator,
    TritonUnloadModelOperator,
)
from airflow_provider_triton.triggers.pace import SHORTEST_S
from slipway_core.triton_config.build import pin_versions
from slipway_sandbox.services.triton import TritonServer
from tests.support.stalled.stopping import stop
from tests.support.triton_provider.deferral import carried_out
from tests.support.triton_provider.servers import running_triton, typed_connection
from tests.support.triton_provider.slow_model import SlowRequest
from tests.support.triton_provider.table import CONTEXT, ROW

pytestmark = pytest.mark.timeout(600)

LIMIT_S = 1.0
# How much later than its limit a call may end on a busy machine.
LATE_S = 30.0
EVERY_CALL: dict[str, Callable[[TritonHook], object]] = {
    "live": lambda hook: hook.is_live(),
    "index": lambda hook: hook.index(),
    "load": lambda hook: hook.load("table"),
    "unload": lambda hook: hook.unload("table"),
    "statistics": lambda hook: hook.statistics(),
    "log settings": lambda hook: hook.log_settings(),
    "infer": lambda hook: hook.infer("table", None, {"x": ROW}, ["y"]),
}


@contextmanager
def stopped(server: TritonServer) -> Iterator[None]:
    """Stop the server's process while the context lasts: it holds its connections, and answers nothing."""
    assert server.process is not None
    stop(server.process.pid)
    try:
        yield
    finally:
        os.kill(server.process.pid, signal.SIGCONT)


@contextmanager
def in_time(limit_s: float) -> Iterator[None]:
    """Fail where the block takes much longer than its limit."""
    began = time.monotonic()
    yield
    assert time.monotonic() - began < limit_s + LATE_S


@pytest.mark.parametrize("ask", EVERY_CALL.values(), ids=EVERY_CALL)
def test_server_that_hangs(
    either: TritonHook, triton: TritonServer, ask: Callable[[TritonHook], object]
) -> None:
    """Every call to a server that takes connections and answers nothing ends at its limit."""
    hook = TritonHook("either", timeout_s=LIMIT_S)
    with stopped(triton), in_time(LIMIT_S), pytest.raises(ServerUnavailableError):
        ask(hook)
    assert either.is_live()


async def test_server_that_hangs_while_it_is_waited_for_in_an_event_loop(
    either: TritonHook, triton: TritonServer
) -> None:
    """The limit holds for a coroutine as well."""
    with stopped(triton), in_time(LIMIT_S), pytest.raises(ServerUnavailableError):
        await either.ask_async(calls.load("table"), LIMIT_S)


async def test_load_of_a_server_that_hangs_in_the_middle(
    either: TritonHook, triton: TritonServer, config: dict[str, Any]
) -> None:
    """In a worker and deferred, a load ends at its limit; run again, it ends as the first run would have."""
    for deferrable in (False, True):
        fields: dict[str, Any] = {"model_name": "table", "config": pin_versions(config, [1])}
        operator = TritonLoadModelOperator(
            task_id="load", triton_conn_id="either", timeout_s=LIMIT_S, deferrable=deferrable, **fields
        )
        with stopped(triton), in_time(LIMIT_S + SHORTEST_S), pytest.raises(TransientError):
            await carried_out(operator)
        again = TritonLoadModelOperator(task_id="load", triton_conn_id="either", timeout_s=30.0, **fields)
        assert again.execute(CONTEXT) == [1]


def test_drain_of_a_server_that_hangs_in_the_middle(
    either: TritonHook, triton: TritonServer, repository: Path
) -> None:
    """A drain that met its limit cuts nothing, and ends when it is run again."""
    either.load("slow")
    options: dict[str, Any] = {"model_name": "slow", "quiet_s": 0.3, "triton_conn_id": "either"}
    with SlowRequest(either, repository, 1.0) as request:
        with stopped(triton), in_time(LIMIT_S), pytest.raises(TransientError):
            TritonDrainModelOperator(task_id="drain", timeout_s=LIMIT_S, **options).execute(CONTEXT)
        TritonDrainModelOperator(task_id="drain", timeout_s=30.0, **options).execute(CONTEXT)
    assert request.answer == 1.0


def test_server_that_is_killed_in_the_middle(
    repository: Path, config: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed between load and use, and started anew, it is led to the same state by the same task."""
    fields: dict[str, Any] = {"triton_conn_id": "mortal", "timeout_s": 20.0}
    load = {"model_name": "table", "config": pin_versions(config, [2]), **fields}
    with running_triton(repository, tmp_path / "log") as server:
        ports = server.ports
        monkeypatch.setenv("AIRFLOW_CONN_MORTAL", typed_connection(ports.http, grpc_port=ports.grpc))
        assert TritonLoadModelOperator(task_id="load", **load).execute(CONTEXT) == [2]
        assert server.process is not None
        server.process.kill()
        with pytest.raises(ServerUnavailableError):
            TritonLoadModelOperator(task_id="load", **load).execute(CONTEXT)
        with pytest.raises(ServerUnavailableError):
            TritonHook("mortal", 2.0).infer("table", 2, {"x": ROW}, ["y"])
    with running_triton(repository, tmp_path / "log", ports):
        for _ in range(2):
            assert TritonLoadModelOperator(task_id="load", **load).execute(CONTEXT) == [2]
        TritonUnloadModelOperator(task_id="unload", model_names=["table"], **fields).execute(CONTEXT)
