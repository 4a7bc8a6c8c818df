"""The example DAG of the installed provider, run by an Airflow that has nothing of Slipway, on a real tritonserver."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from airflow_provider_triton.hooks.triton import TritonHook
from slipway_core.triton_config.build import pin_versions
from slipway_core.triton_config.pbtxt import from_pbtxt
from slipway_sandbox.services.triton import TritonServer
from tests.support.examples import nightly
from tests.support.serving.models import table_model, write_repository
from tests.support.triton_provider.alone import PROVIDER, run_alone
from tests.support.triton_provider.servers import running_triton, typed_connection

pytestmark = pytest.mark.timeout(1200)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[TritonServer]:
    """A server whose repository has `old`, which doubles, and `new`, which triples."""
    repository = write_repository(tmp_path / "repository", name="old", versions={1: table_model(2.0)})
    write_repository(repository, name="new", versions={1: table_model(2.5), 2: table_model(3.0)})
    with running_triton(repository, tmp_path / "triton.log") as one:
        yield one


@pytest.mark.parametrize("is_right", [pytest.param(True, id="right"), nightly(False, id="wrong")])
def test_model_is_replaced_when_it_answers_as_expected(
    alone: Path, server: TritonServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_right: bool
) -> None:
    """One that answers right replaces the old model; one that answers wrongly is unloaded, and the old serves on."""
    connection = typed_connection(server.ports.http, grpc_port=server.ports.grpc)
    monkeypatch.setenv("AIRFLOW_CONN_OWN_TRITON", connection)
    hook = TritonHook("own_triton", 20)
    hook.load("old")
    config = from_pbtxt((Path(server.repository) / "new" / "config.pbtxt").read_text())
    conf = {
        "server": "own_triton",
        "new_model": "new",
        "old_model": "old",
        "config": pin_versions(config, [2]),
        "inputs": {"x": [[1, 2]]},
        "expected": {"y": [[3, 6]] if is_right else [[4, 8]]},
    }
    home = tmp_path / "home"
    home.mkdir()
    environment = {"AIRFLOW_CONN_OWN_TRITON": connection}
    found, _ = run_alone(alone, home, "example_program.py", [json.dumps(conf)], environment)
    assert (found["project"], found["imported"]) == ([], [])
    assert not Path(found["folder"]).is_relative_to(PROVIDER)
    states = found["states"]
    if is_right:
        assert states.pop("unload_new") == "skipped"
        assert set(states.values()) == {"success"}
    else:
        assert (states["check"], states["unload_new"]) == ("failed", "success")
        assert states["drain_old"] == "upstream_failed"
    served = {name: sorted(hook.ready_versions(name)) for name in ("old", "new")}
    assert served == ({"old": [], "new": [2]} if is_right else {"old": [1], "new": []})
