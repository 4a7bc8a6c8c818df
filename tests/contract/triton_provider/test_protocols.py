"""Everything that the hook can do, over HTTP alone and over gRPC alone, against one real tritonserver."""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
import pytest

from airflow_provider_triton.client import calls
from airflow_provider_triton.client.model_config import departures
from airflow_provider_triton.errors import (
    LoadRefusedError,
    ModelInvalidError,
    ModelNotLoadedError,
    ServerRefusedError,
    UserError,
)
from airflow_provider_triton.hooks.triton import TritonHook
from airflow_provider_triton.operators import TritonUnloadModelOperator
from slipway_core.triton_config.build import pin_versions
from tests.support.serving.models import table_model
from tests.support.triton_provider.table import CONTEXT, ROW, UNKNOWN_ROW
from tests.support.waiting import wait_until

pytestmark = pytest.mark.timeout(600)


def test_health_and_metadata_of_the_server(either: TritonHook) -> None:
    """A server that runs is live, says which it is, and the connection's test passes."""
    assert either.is_live()
    assert either.server_metadata().name == "triton"
    assert either.server_metadata().version.startswith("2.")
    passed, message = either.test_connection()
    assert passed
    assert either.address in message


def test_load_is_seen_in_index_health_metadata_and_configuration(
    either: TritonHook, config: dict[str, Any]
) -> None:
    """What a load with a configuration pins is what index, health, metadata and configuration show."""
    asked = pin_versions(config, [2])
    either.load("table", asked)
    assert either.ready_versions("table") == {2}
    assert [entry.is_ready for entry in either.index() if entry.name == "table"] == [True]
    assert either.is_model_ready("table", 2)
    assert not either.is_model_ready("table", 1)
    metadata = either.metadata("table")
    assert (metadata.versions, metadata.platform) == ((2,), "onnxruntime_onnx")
    assert [(one.name, one.datatype, one.shape) for one in metadata.inputs] == [("x", "FP32", (-1, 2))]
    assert departures(asked, either.config("table", 2)) == []


def test_requests_are_answered_and_counted(either: TritonHook, config: dict[str, Any]) -> None:
    """An answer's arrays are the model's, and the statistics count it."""
    either.load("table", pin_versions(config, [2]))
    assert either.infer("table", 2, {"x": ROW}, ["y"])["y"].tolist() == [[3, 6]]
    assert either.infer("table", None, {"x": ROW}, ["y"])["y"].tolist() == [[3, 6]]
    # A request is counted after it was answered.
    wait_until(lambda: either.statistics("table")[0].answered == 2, "both to be counted")
    (statistics,) = either.statistics("table")
    assert (statistics.version, statistics.answered, statistics.inference_count) == (2, 2, 2)
    assert statistics.inference_stats.success.ns > 0
    assert [one.name for one in either.statistics()] == ["table"]


def test_model_loaded_with_files_of_the_callers_own(either: TritonHook, config: dict[str, Any]) -> None:
    """Files and configuration of the caller's make a model that the repository does not have."""
    asked = {**pin_versions(config, [1]), "name": "fresh"}
    either.load("fresh", asked, {"1/model.onnx": table_model(5.0)})
    assert either.is_model_ready("fresh", 1)
    assert either.infer("fresh", 1, {"x": ROW}, ["y"])["y"].tolist() == [[5, 10]]
    assert either.ready_versions("fresh") == frozenset(), "the index does not show it"


def test_settings_of_trace_and_log(either: TritonHook, config: dict[str, Any]) -> None:
    """Settings are read, changed, of one model too, and set back."""
    either.load("table", pin_versions(config, [1]))
    assert either.trace_settings().trace_level == ("OFF",)
    assert either.set_trace_settings({"trace_rate": 9}, "table").trace_rate == 9
    assert (either.trace_settings("table").trace_rate, either.trace_settings().trace_rate) == (9, 1000)
    assert either.set_trace_settings({"trace_rate": None}, "table").trace_rate == 1000
    assert either.set_log_settings({"log_verbose_level": 1}).log_verbose_level == 1
    assert either.log_settings().log_info
    assert either.set_log_settings({"log_verbose_level": 0}).log_verbose_level == 0


def test_setting_that_the_server_refuses(either: TritonHook) -> None:
    """A setting that cannot be is a person's to correct, in the server's words."""
    with pytest.raises(ServerRefusedError, match="trace file name is not given"):
        either.set_trace_settings({"trace_level": ["TIMESTAMPS"]})


def test_shared_memory_that_nobody_has_registered(either: TritonHook) -> None:
    """The status of shared memory is a list of regions, which may be empty."""
    assert either.system_shared_memory() == either.cuda_shared_memory() == ()


def test_unload_of_an_ensemble_with_and_without_its_dependents(either: TritonHook) -> None:
    """Its members stay loaded unless they are unloaded with it."""
    for dependents, left in ((False, {2}), (True, frozenset())):
        either.load("wrapped")
        assert either.infer("wrapped", None, {"x": ROW}, ["y"])["y"].tolist() == [[3, 6]]
        TritonUnloadModelOperator(
            task_id="unload", model_names=["wrapped"], unload_dependents=dependents, triton_conn_id="either"
        ).execute(CONTEXT)
        assert either.ready_versions("wrapped") == frozenset()
        wait_until(lambda left=left: either.ready_versions("table") == left, "the member is as it should be")


def test_unload_with_what_is_not_loaded(either: TritonHook) -> None:
    """Unloading what is not loaded, also with its dependents, is no error."""
    either.unload("table", dependents=True)
    either.unload("nothing")


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
    either: TritonHook, config: dict[str, Any], model: str, change: dict[str, Any], words: str
) -> None:
    """A model that the server will not load is the same error over both protocols, and chains what came."""
    with pytest.raises(LoadRefusedError, match=f"refuses to load '{model}'") as caught:
        either.load(model, {**pin_versions(config, [1]), "name": model, **change})
    assert words in (caught.value.found or "")
    assert caught.value.__cause__ is not None


@pytest.mark.parametrize(
    "ask",
    [
        lambda hook: hook.metadata("table", 1),
        lambda hook: hook.config("nothing"),
        lambda hook: hook.statistics("table"),
        lambda hook: hook.infer("table", 1, {"x": ROW}, ["y"]),
    ],
    ids=["metadata", "configuration", "statistics", "inference"],
)
def test_question_about_a_model_that_is_not_loaded(either: TritonHook, ask: Any) -> None:
    """Whatever is asked of a model that is not loaded: it may be tried again when it is."""
    with pytest.raises(ModelNotLoadedError):
        ask(either)


@pytest.mark.parametrize(
    ("row", "output", "words"),
    [(UNKNOWN_ROW, "y", "out of"), (ROW, "z", "'z'"), (np.ones((1, 3), np.float32), "y", "shape")],
    ids=["the model fails", "unknown output", "wrong shape"],
)
def test_request_that_is_answered_with_an_error(
    either: TritonHook, config: dict[str, Any], row: np.ndarray, output: str, words: str
) -> None:
    """An error answer to a request is about the model, not about the server."""
    either.load("table", pin_versions(config, [1]))
    with pytest.raises(ModelInvalidError, match="'table' version 1") as caught:
        either.infer("table", 1, {"x": row}, [output])
    assert words in (caught.value.found or "")


async def test_everything_can_be_asked_in_an_event_loop(either: TritonHook, config: dict[str, Any]) -> None:
    """Calls and inference of many coroutines run side by side in one loop, without a thread."""
    await either.ask_async(calls.load("table", pin_versions(config, [1, 2])))
    ready = await asyncio.gather(*(either.ask_async(calls.model_ready("table", n)) for n in (1, 2, 3)))
    assert ready == [True, True, False]
    requests = (either.caller.infer_async("table", n, {"x": ROW}, ["y"]) for n in (1, 2))
    assert [one["y"].tolist() for one in await asyncio.gather(*requests)] == [[[2, 4]], [[3, 6]]]
    assert len(await either.caller.infer_each("table", 1, [{"x": ROW}] * 3, ["y"], 20.0)) == 3
    with pytest.raises(LoadRefusedError):
        await either.ask_async(calls.load("broken"))
    with pytest.raises(ModelNotLoadedError):
        await either.caller.infer_async("nothing", None, {"x": ROW}, ["y"])


def test_stream_needs_grpc(either: TritonHook, config: dict[str, Any]) -> None:
    """A model can be asked over a stream where the connection has gRPC; else a person is told so."""
    either.load("table", pin_versions(config, [2]))
    if either.settings.inference == "grpc":
        assert either.infer_stream("table", 2, [{"x": ROW}], ["y"])[0][0]["y"].tolist() == [[3, 6]]
        return
    with pytest.raises(UserError, match="over HTTP only"):
        either.infer_stream("table", 2, [{"x": ROW}], ["y"])
