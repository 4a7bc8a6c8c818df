"""A real tritonserver that loads what it is asked to."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from slipway.hooks.triton import TritonHook
from slipway.operators.triton import TritonUnloadModelOperator

from include.model_release.triton_config.pbtxt import from_pbtxt
from include.sandbox.services.triton import TritonPorts, TritonServer
from tests.support.serving.models import table_model, write_repository
from tests.support.serving.triton_install import triton_install
from tests.support.store.connections import triton_connection
from tests.support.triton_hook.table import CONTEXT


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
