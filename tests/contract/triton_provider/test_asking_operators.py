"""The operators that wait, ask, warm up and drain, over each protocol, on a real tritonserver."""

from __future__ import annotations

import json
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from airflow.sdk.exceptions import AirflowFailException, TaskDeferred

from airflow_provider_triton.client.event_loop import run
from airflow_provider_triton.client.pending import pending_requests
from airflow_provider_triton.errors import ModelInvalidError, ModelNotLoadedError, TimedOutError
from airflow_provider_triton.hooks.triton import TritonHook
from airflow_provider_triton.operators import (
    TritonDrainModelOperator,
    TritonInferOperator,
    TritonWaitReadyOperator,
    TritonWarmUpOperator,
)
from slipway_core.triton_config.build import pin_versions
from slipway_sandbox.host.ports import free_port
from slipway_sandbox.services.triton import TritonServer
from tests.support.serving.models import table_model
from tests.support.triton_provider.deferral import carried_out, only_event
from tests.support.triton_provider.servers import typed_connection
from tests.support.triton_provider.slow_model import SlowRequest
from tests.support.triton_provider.table import CONTEXT
from tests.support.waiting import wait_until

pytestmark = pytest.mark.timeout(600)


# --- wait until ready ---


def wait(**options: Any) -> TritonWaitReadyOperator:
    """Return the operator, as templates render it."""
    fields: dict[str, Any] = {
        "triton_conn_id": "either",
        "timeout_s": "20",
        "poll_interval_s": 0.1,
        **options,
    }
    return TritonWaitReadyOperator(task_id="wait", **fields)


async def test_wait_until_a_model_is_ready(either: TritonHook, config: dict[str, Any]) -> None:
    """Deferred, it fires when another has loaded the versions; no worker and no thread waits."""
    operator = wait(model_name="table", versions=json.dumps([1, 2]), deferrable=True)
    with pytest.raises(TaskDeferred) as deferred:
        operator.execute(CONTEXT)
    threading.Timer(0.5, lambda: either.load("table", pin_versions(config, [1, 2]))).start()
    event = await only_event(deferred.value)
    assert operator.execute_complete(CONTEXT, event) == [1, 2]
    assert wait(model_name="table").execute(CONTEXT) == [1, 2], "in a worker, and one version is enough"


def test_wait_that_is_in_vain(either: TritonHook, config: dict[str, Any]) -> None:
    """A version that does not come ends the wait at its limit, and may be waited for again."""
    either.load("table", pin_versions(config, [1]))
    with pytest.raises(TimedOutError, match=r"versions \[2\] ready within 3 s; found not ready"):
        wait(model_name="table", versions=[2], timeout_s=3.0).execute(CONTEXT)


def test_server_that_is_away_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that does not answer yet is no error before the limit."""
    monkeypatch.setenv("AIRFLOW_CONN_EITHER", typed_connection(free_port()))
    began = time.monotonic()
    with pytest.raises(TimedOutError, match="did not answer"):
        wait(timeout_s=1.0).execute(CONTEXT)
    assert time.monotonic() - began >= 0.8


# --- infer once ---


def test_request_of_a_dag(either: TritonHook, config: dict[str, Any]) -> None:
    """Lists become arrays of the model's datatypes, and the answer becomes lists."""
    either.load("table", pin_versions(config, [2]))
    operator = TritonInferOperator(
        task_id="ask",
        model_name="table",
        inputs='{"x": [[1, 2], [3, 4]]}',
        version="2",
        triton_conn_id="either",
    )
    assert operator.execute(CONTEXT) == {"y": [[3.0, 6.0], [9.0, 12.0]]}


@pytest.mark.parametrize(
    ("inputs", "words"),
    [({"z": [[1, 2]]}, "no input z"), ({"x": [1, 2]}, r"shape \[2\]"), ({"x": [["a", "b"]]}, "do not fit")],
)
def test_inputs_that_do_not_fit(
    either: TritonHook, config: dict[str, Any], inputs: dict[str, Any], words: str
) -> None:
    """What does not fit the model is a person's to correct, and is not sent."""
    either.load("table", pin_versions(config, [1]))
    operator = TritonInferOperator(task_id="ask", model_name="table", inputs=inputs, triton_conn_id="either")
    with pytest.raises(AirflowFailException, match=words):
        operator.execute(CONTEXT)
    (statistics,) = either.statistics("table")
    assert statistics.answered == 0


# --- warm up ---


def test_warm_up(either: TritonHook, config: dict[str, Any]) -> None:
    """Each client sends its requests, and the task says how long the first and the others took."""
    either.load("table", pin_versions(config, [1]))
    operator = TritonWarmUpOperator(
        task_id="warm", model_name="table", requests=3, clients=2, triton_conn_id="either", timeout_s=30.0
    )
    told = operator.execute(CONTEXT)
    assert told["requests"] == 6
    assert 0 < told["p50_ms"] <= told["p99_ms"]
    assert told["first_ms"] > 0
    # A request is counted after it was answered.
    wait_until(lambda: sum(one.answered for one in either.statistics("table")) == 6, "all to be counted")


def test_warm_up_of_a_model_that_fails(either: TritonHook, config: dict[str, Any]) -> None:
    """A model that cannot run the request fails the task without retries, and the server lives on."""
    either.load("table", pin_versions(config, [1]))
    operator = TritonWarmUpOperator(
        task_id="warm", model_name="table", inputs={"x": [[50, 1]]}, requests=2, triton_conn_id="either"
    )
    with pytest.raises(AirflowFailException) as caught:
        operator.execute(CONTEXT)
    assert isinstance(caught.value.__cause__, ModelInvalidError)
    assert either.is_live()


# --- drain ---


def drain(**options: Any) -> TritonDrainModelOperator:
    """Return the operator."""
    fields = {"model_name": "slow", "quiet_s": 0.3, "triton_conn_id": "either", "timeout_s": 20.0, **options}
    return TritonDrainModelOperator(task_id="drain", **fields)


async def test_drain_waits_for_the_last_request(either: TritonHook, repository: Path) -> None:
    """A request that no count shows is answered before the drain ends, in a worker and deferred alike."""
    for deferrable in (False, True):
        either.load("slow")
        with SlowRequest(either, repository, 2.0) as request:
            told = await carried_out(drain(deferrable=deferrable))
            assert told["unload_s"] > 0.3, "it waited after the unload"
            assert {entry.state for entry in either.index() if entry.name == "slow"} == {"UNAVAILABLE"}
        assert request.answer == 2.0, "the request was not cut short"


def test_drain_leaves_a_model_in_service_that_is_asked(either: TritonHook) -> None:
    """While users go on asking, the model serves on, and the task may be run again."""
    either.load("slow")
    ended = threading.Event()
    asking = TritonHook("either", timeout_s=30)

    def ask() -> None:
        while not ended.is_set():
            asking.infer("slow", 1, {"seconds": np.array([[0.05]], np.float32)}, ["done"])

    users = threading.Thread(target=ask)
    users.start()
    try:
        with pytest.raises(TimedOutError, match="it was left in service"):
            drain(quiet_s=3.0, timeout_s=4.0).execute(CONTEXT)
        assert either.is_model_ready("slow", 1)
    finally:
        ended.set()
        users.join(30)
    assert drain().execute(CONTEXT)["quiet_s"] >= 0.3


def test_drain_sees_the_queue_by_the_metrics(
    either: TritonHook, triton: TritonServer, repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the connection names the metrics' port, a request that waits in the queue is somebody who asks."""
    port = int(either.address.rpartition(":")[2])
    extra = {"protocol": either.settings.control, "metrics_port": triton.ports.metrics}
    monkeypatch.setenv("AIRFLOW_CONN_EITHER", typed_connection(port, **extra))
    either.load("slow")
    settings = TritonHook("either").settings
    with (
        SlowRequest(either, repository, 6.0) as first,
        SlowRequest(either, repository, 0.1, until_begun=False) as queued,
    ):
        wait_until(lambda: bool(run(pending_requests(settings, "slow", 5.0))), "a request waits in the queue")
        told = drain(quiet_s=0.4).execute(CONTEXT)
        assert told["answered"] == 2, "what was worked on was seen by what waited behind it"
    assert (first.answer, queued.answer) == (6.0, 0.1)


def test_drain_of_what_has_ended(either: TritonHook) -> None:
    """Run again after a kill, also where the model has been unloaded meanwhile, it ends as the first run would have."""
    either.load("slow")
    either.unload("slow")
    assert drain().execute(CONTEXT)["answered"] == 0
    assert drain().execute(CONTEXT)["answered"] == 0
    with pytest.raises(ModelNotLoadedError):
        either.statistics("slow")


def test_drain_of_a_model_that_the_server_does_not_list(either: TritonHook, config: dict[str, Any]) -> None:
    """Nobody could tell when the last request of such a model has ended, so it is left alone."""
    either.load("fresh", {**pin_versions(config, [1]), "name": "fresh"}, {"1/model.onnx": table_model(5.0)})
    with pytest.raises(AirflowFailException, match="does not list it"):
        drain(model_name="fresh").execute(CONTEXT)
    assert either.is_model_ready("fresh", 1)
