"""The operators that load and unload models, on a real tritonserver."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException, TaskDeferred

from airflow_provider_triton.errors import LoadRefusedError, ServerUnavailableError, TimedOutError
from airflow_provider_triton.hooks.triton import TritonHook
from airflow_provider_triton.operators import TritonLoadModelOperator, TritonUnloadModelOperator
from slipway_core.triton_config.build import pin_versions
from slipway_sandbox.host.ports import free_port
from tests.support.serving.models import table_model
from tests.support.store.connections import triton_connection
from tests.support.triton_provider.deferral import carried_out, only_event
from tests.support.triton_provider.table import CONTEXT, ROW

pytestmark = pytest.mark.timeout(600)


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

    def slow(self: TritonHook, name: str, config: Mapping[str, Any], files: None = None) -> None:
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


async def test_a_load_keeps_to_the_protocol_of_the_connection(
    either: TritonHook, config: dict[str, Any]
) -> None:
    """A connection for HTTP alone, and one for gRPC alone: worker and trigger ask over nothing else."""
    for deferrable in (False, True):
        operator = load(pin_versions(config, [2]), triton_conn_id="either", deferrable=deferrable)
        assert await carried_out(operator) == [2]
        assert either.ready_versions("table") == {2}
        TritonUnloadModelOperator(task_id="unload", model_names=["table"], triton_conn_id="either").execute(
            CONTEXT
        )
        assert either.ready_versions("table") == frozenset()


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
    monkeypatch.setenv("AIRFLOW_CONN_TRITON_DEFAULT", triton_connection(free_port(), free_port()))
    operator = load(pin_versions(config, [1]), deferrable=True)
    with pytest.raises(TaskDeferred) as deferred:
        operator.execute(CONTEXT)
    event = await only_event(deferred.value)
    with pytest.raises(ServerUnavailableError):
        operator.execute_complete(CONTEXT, event)


def test_load_without_a_configuration_is_the_repositorys(hook: TritonHook) -> None:
    """Without a configuration the model is loaded as the repository has it: its latest version."""
    operator = TritonLoadModelOperator(task_id="load", model_name="table", timeout_s=30.0)
    assert operator.execute(CONTEXT) == [2]


def test_load_with_files_of_the_worker(hook: TritonHook, config: dict[str, Any], tmp_path: Path) -> None:
    """Files of the worker make a model that the repository does not have; the worker loads them, also deferrable."""
    (tmp_path / "model.onnx").write_bytes(table_model(5.0))
    asked = {**pin_versions(config, [1]), "name": "fresh"}
    files = {"1/model.onnx": str(tmp_path / "model.onnx")}
    operator = load(asked, model_name="fresh", files=files, deferrable=True)
    assert operator.execute(CONTEXT) == [1]
    assert hook.infer("fresh", 1, {"x": ROW}, ["y"])["y"].tolist() == [[5, 10]]
    TritonUnloadModelOperator(task_id="unload", model_names=["fresh"]).execute(CONTEXT)
    assert not hook.is_model_ready("fresh")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"config": "{"}, "not valid JSON"),
        ({"config": "[]"}, "'config'"),
        ({"timeout_s": "soon"}, "'timeout_s'"),
        ({"config": "", "files": {"1/model.onnx": "x"}}, "without a configuration"),
        ({"config": "{}", "files": {"1/model.onnx": "/does/not/exist"}}, "cannot be read"),
        ({"config": '{"version_policy": {"specific": {"versions": ["new"]}}}'}, "version_policy"),
    ],
)
def test_fields_that_cannot_be_used(hook: TritonHook, options: dict[str, Any], words: str) -> None:
    """What a template has rendered to nonsense fails the task at once, and says which field it is."""
    operator = TritonLoadModelOperator(task_id="load", **{"model_name": "table", "timeout_s": 5.0, **options})
    with pytest.raises(AirflowFailException, match=words):
        operator.execute(CONTEXT)


def test_link_leads_to_the_model_on_the_server(hook: TritonHook) -> None:
    """The link beside a task leads to the model's metadata; without a usable connection there is none."""
    operator = load({})
    (link,) = operator.operator_extra_links
    assert link.get_link(operator, ti_key=CONTEXT) == f"http://{hook.http_address}/v2/models/table"
    operator.triton_conn_id = "no_such_connection"
    assert link.get_link(operator, ti_key=CONTEXT) == ""
