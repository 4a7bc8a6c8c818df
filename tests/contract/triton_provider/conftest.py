"""A real tritonserver that loads what it is asked to."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_triton.hooks.triton import TritonHook
from slipway_core.triton_config.pbtxt import from_pbtxt
from slipway_sandbox.services.triton import TritonServer
from tests.support.serving.models import table_model, write_repository
from tests.support.store.connections import triton_connection
from tests.support.triton_provider.alone import installed_alone
from tests.support.triton_provider.servers import (
    alive,
    running_triton,
    typed_connection,
    unload_all,
    write_wrapping,
)
from tests.support.triton_provider.slow_model import write_slow_model


@pytest.fixture(scope="session")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of an environment that has Airflow and the provider's wheel, and nothing of Slipway."""
    return installed_alone(tmp_path_factory.mktemp("alone"))


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository with `table`, whose version 1 doubles and version 2 triples, `wrapped`, `slow`, and `broken`."""
    directory = tmp_path_factory.mktemp("repository")
    write_wrapping(directory)
    write_slow_model(directory)
    write_repository(directory, versions={1: table_model(2.0), 2: table_model(3.0)})
    return write_repository(directory, name="broken", versions={1: table_model(2.0)[:200]})


@pytest.fixture(scope="module")
def triton(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[TritonServer]:
    """A running server that loads what it is asked to."""
    with running_triton(repository, tmp_path_factory.mktemp("log") / "log") as server:
        yield server


@pytest.fixture
def hook(triton: TritonServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[TritonHook]:
    """The hook on the running server, on which nothing is loaded before or after."""
    ports = alive(triton).ports
    connection = triton_connection(ports.http, ports.grpc)
    monkeypatch.setenv("AIRFLOW_CONN_TRITON_DEFAULT", connection)
    hook = TritonHook(timeout_s=30)
    yield hook
    unload_all(hook)


@pytest.fixture(params=["http", "grpc"])
def either(
    request: pytest.FixtureRequest, triton: TritonServer, monkeypatch: pytest.MonkeyPatch
) -> Iterator[TritonHook]:
    """The hook over one protocol alone: HTTP, then gRPC; the connection is of the type `triton`."""
    ports = alive(triton).ports
    port = ports.http if request.param == "http" else ports.grpc
    monkeypatch.setenv("AIRFLOW_CONN_EITHER", typed_connection(port, protocol=request.param))
    hook = TritonHook("either", timeout_s=30)
    yield hook
    unload_all(hook)


@pytest.fixture
def config(repository: Path) -> dict[str, Any]:
    """The configuration of `table`."""
    return from_pbtxt((repository / "table" / "config.pbtxt").read_text())
