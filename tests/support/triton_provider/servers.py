"""Real tritonservers that load what they are asked to, and connections of the type `triton` to them."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from airflow_provider_triton.hooks.triton import TritonHook
from airflow_provider_triton.operators import TritonUnloadModelOperator
from slipway_sandbox.host.ports import LOOPBACK
from slipway_sandbox.services.triton import TritonPorts, TritonServer
from tests.support.serving.triton_install import triton_install
from tests.support.triton_provider.table import CONTEXT

_READY_LIMIT_S = 120
ENSEMBLE = """
name: "wrapped"
platform: "ensemble"
max_batch_size: 16
input [ { name: "x" data_type: TYPE_FP32 dims: [ 2 ] } ]
output [ { name: "y" data_type: TYPE_FP32 dims: [ 2 ] } ]
ensemble_scheduling { step [ { model_name: "table" model_version: -1
  input_map { key: "x" value: "x" } output_map { key: "y" value: "y" } } ] }
"""


def write_wrapping(repository: Path) -> None:
    """Write the ensemble `wrapped`, whose one step is `table`, into a repository."""
    (repository / "wrapped" / "1").mkdir(parents=True)
    (repository / "wrapped" / "config.pbtxt").write_text(ENSEMBLE)


@contextmanager
def running_triton(repository: Path, log: Path, ports: TritonPorts | None = None) -> Iterator[TritonServer]:
    """Run a server that loads what it is asked to, while the context lasts."""
    server = TritonServer(
        triton_install(),
        repository,
        ports or TritonPorts.free(),
        mode="explicit",
        log_path=log,
        exit_timeout_s=1,
    )
    server.start()
    try:
        server.wait_ready(_READY_LIMIT_S)
        yield server
    finally:
        server.stop()


def has_died(server: TritonServer, within_s: float = 0.0) -> bool:
    """Return whether the server has ended, or ends within a time; or was never started."""
    try:
        return server.process is None or server.process.wait(within_s) is not None
    except subprocess.TimeoutExpired:
        return False


def alive(server: TritonServer) -> TritonServer:
    """Return the server, started anew where it has died: each test that stops it asks a server that lives."""
    if has_died(server):
        server.start()
        server.wait_ready(_READY_LIMIT_S)
    return server


def typed_connection(port: int, *, token: str = "", host: str = LOOPBACK, **extra: Any) -> str:
    """Return a connection of the type `triton`, as JSON."""
    connection = {"conn_type": "triton", "host": host, "port": port, "password": token, "extra": extra}
    return json.dumps(connection)


def unload_all(hook: TritonHook) -> None:
    """Unload whatever the tests load."""
    names = ["wrapped", "table", "broken", "slow", "fresh"]
    unload = TritonUnloadModelOperator(
        task_id="unload", model_names=names, triton_conn_id=hook.triton_conn_id
    )
    unload.execute(CONTEXT)
