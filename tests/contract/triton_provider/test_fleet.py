"""One model on several real tritonservers: all of them have it in the end, or none does."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException

from airflow_provider_triton.errors import LoadRefusedError, ServerUnavailableError
from airflow_provider_triton.hooks.triton import TritonHook
from airflow_provider_triton.operators import TritonFleetLoadOperator, fleet_servers
from airflow_provider_triton.operators.base import within
from slipway_core.triton_config.build import pin_versions
from slipway_core.triton_config.pbtxt import from_pbtxt
from slipway_sandbox.services.triton import TritonServer
from tests.support.serving.models import table_model, write_repository
from tests.support.stalled.stopping import stop
from tests.support.triton_provider.servers import running_triton, typed_connection
from tests.support.triton_provider.table import ROW

pytestmark = pytest.mark.timeout(600)

CONN_IDS = ["fleet_0", "fleet_1", "fleet_2"]


class TaskStateStore(dict[str, Any]):
    """Airflow's store of a task's state: it outlives a try of the task."""

    def set(self, key: str, value: Any, **_: Any) -> None:
        self[key] = json.loads(json.dumps(value))

    def delete(self, key: str) -> None:
        self.pop(key, None)


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[TritonServer]]:
    """Three servers, one over gRPC; version 3 of `table` is broken on the last one."""
    with ExitStack() as stack:
        found = []
        for number in range(3):
            folder = tmp_path_factory.mktemp(f"fleet{number}")
            third = table_model(4.0) if number < 2 else b"no model"
            versions = {1: table_model(2.0), 2: table_model(3.0), 3: third}
            repository = write_repository(folder / "repository", versions=versions)
            found.append(stack.enter_context(running_triton(repository, folder / "log")))
        yield found


@pytest.fixture
def hooks(servers: list[TritonServer], monkeypatch: pytest.MonkeyPatch) -> list[TritonHook]:
    """The hooks on the servers; version 1 is loaded on the first two, nothing on the third."""
    for number, server in enumerate(servers):
        grpc = number == 1
        port = server.ports.grpc if grpc else server.ports.http
        connection = typed_connection(port, protocol="grpc" if grpc else "http")
        monkeypatch.setenv(f"AIRFLOW_CONN_FLEET_{number}", connection)
    found = [TritonHook(conn_id, timeout_s=60) for conn_id in CONN_IDS]
    found[2].unload("table")
    for hook in found[:2]:
        hook.load("table", pin_versions(_config(servers), [1]))
    return found


def _config(servers: list[TritonServer]) -> dict[str, Any]:
    return from_pbtxt((Path(servers[0].repository) / "table" / "config.pbtxt").read_text())


def load(servers: list[TritonServer], version: int, **options: Any) -> TritonFleetLoadOperator:
    """Return the operator, as templates render it."""
    config = json.dumps(pin_versions(_config(servers), [version]))
    fields: dict[str, Any] = {"triton_conn_ids": json.dumps(CONN_IDS), "timeout_s": "20", **options}
    return TritonFleetLoadOperator(task_id="fleet", model_name="table", config=config, **fields)


def served(hooks: list[TritonHook]) -> list[list[int]]:
    """Return the versions that each server has ready."""
    return [sorted(hook.ready_versions("table")) for hook in hooks]


def test_all_servers_get_the_version(servers: list[TritonServer], hooks: list[TritonHook]) -> None:
    """Every server serves it in the end, with one configuration; run again, nothing changes."""
    store = TaskStateStore()
    for _ in range(2):
        told = load(servers, 2).execute({"task_state_store": store})  # type: ignore[typeddict-item]
        assert {conn_id: one["versions"] for conn_id, one in told.items()} == {one: [2] for one in CONN_IDS}
        assert len({one["config_sha256"] for one in told.values()}) == 1
        assert served(hooks) == [[2], [2], [2]]
    assert store == {}


def test_one_that_refuses_takes_all_back(servers: list[TritonServer], hooks: list[TritonHook]) -> None:
    """A version that one server cannot load is on none in the end; each has what it had, or nothing."""
    with pytest.raises(AirflowFailException, match=r"fleet_2: .*refuses to load 'table'") as caught:
        load(servers, 3).execute({})
    assert isinstance(caught.value.__cause__, LoadRefusedError)
    assert served(hooks) == [[1], [1], []]
    assert hooks[0].infer("table", 1, {"x": ROW}, ["y"])["y"].tolist() == [[2, 4]]


def test_one_that_is_away_before_leaves_all_alone(
    servers: list[TritonServer], hooks: list[TritonHook]
) -> None:
    """Where one server hangs from the start nothing is loaded anywhere, within the limit."""
    process = servers[2].process
    assert process is not None
    stop(process.pid)
    try:
        with pytest.raises(ServerUnavailableError, match="nothing was loaded anywhere"):
            load(servers, 2, timeout_s=1.0).execute({})
    finally:
        os.kill(process.pid, signal.SIGCONT)
    assert served(hooks) == [[1], [1], []]


def test_one_that_hangs_in_the_middle_takes_the_others_back(
    servers: list[TritonServer], hooks: list[TritonHook], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server that stops while all load: the others are led back at once; run again when it goes on, all converge."""
    process, store = servers[2].process, TaskStateStore()
    assert process is not None
    real = fleet_servers.PlainServers.load

    async def stopped(self: Any, *arguments: Any) -> Any:
        stop(process.pid)
        return await real(self, *arguments)

    monkeypatch.setattr(fleet_servers.PlainServers, "load", stopped)
    try:
        with pytest.raises(ServerUnavailableError, match="not restored on fleet_2"):
            # What the others need of it on a busy machine; the one that hangs takes it twice.
            load(servers, 2, timeout_s=6.0).execute({"task_state_store": store})  # type: ignore[typeddict-item]
    finally:
        os.kill(process.pid, signal.SIGCONT)
    assert served(hooks[:2]) == [[1], [1]]
    monkeypatch.setattr(fleet_servers.PlainServers, "load", real)
    load(servers, 2).execute({"task_state_store": store})  # type: ignore[typeddict-item]
    assert served(hooks) == [[2], [2], [2]]


def test_task_that_was_killed_in_the_middle_knows_what_was_there_before(
    servers: list[TritonServer], hooks: list[TritonHook]
) -> None:
    """Killed when one server had the new version already, the next try still leads back to what the first one found."""
    store = TaskStateStore()
    operator = load(servers, 3)
    found = within_states(hooks)
    operator._before(store, found, (3,))
    hooks[0].load("table", pin_versions(_config(servers), [3]))  # and there the task was killed
    with pytest.raises(AirflowFailException):
        load(servers, 3).execute({"task_state_store": store})  # type: ignore[typeddict-item]
    assert served(hooks) == [[1], [1], []]
    assert store == {}


def test_person_who_ends_the_task_gets_the_servers_back(
    servers: list[TritonServer], hooks: list[TritonHook]
) -> None:
    """`on_kill` leads back at once; when nothing is under way it does nothing."""
    operator = load(servers, 2)
    operator.on_kill()
    operator._under_way = within_states(hooks)
    for hook in hooks[1:]:
        hook.load("table", pin_versions(_config(servers), [2]))
    operator.on_kill()
    assert served(hooks) == [[1], [1], []]


@pytest.mark.parametrize("conn_ids", [[], ["fleet_0", "fleet_0"]], ids=["none", "one twice"])
def test_fleet_that_is_none(
    servers: list[TritonServer], hooks: list[TritonHook], conn_ids: list[str]
) -> None:
    """No server, or one that is named twice, is a mistake in the DAG."""
    with pytest.raises(AirflowFailException, match="each listed once"):
        load(servers, 2, triton_conn_ids=conn_ids).execute({})


def within_states(hooks: list[TritonHook]) -> fleet_servers.States:
    """Return what the servers have now."""
    return within(60, fleet_servers.PlainServers(CONN_IDS, "table", 60.0).states())
