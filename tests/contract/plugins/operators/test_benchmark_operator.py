"""BenchmarkModelOperator: real pods in the emulated cluster, and a real tritonserver that never is fast enough."""

from __future__ import annotations

import asyncio
import io
import json
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from airflow.providers.standard.triggers.temporal import TimeDeltaTrigger
from airflow.sdk.exceptions import AirflowFailException, TaskDeferred
from kubernetes import client

from slipway.hooks.s3_store import ModelStoreHook
from slipway.operators.benchmark import BenchmarkModelOperator
from slipway.release_record.record import ReleaseRecord
from slipway.release_run import ReleaseRun, StableVersion
from slipway_core.record.kinds import ReleaseStarted
from slipway_core.spec.release_file import parse_release_spec
from slipway_sandbox.services.triton import TritonServer
from tests.support.cluster.emulator import NAMESPACE, Emulator
from tests.support.release.pod_steps import first_event, pod_cluster, task_context
from tests.support.serving.tables import DOUBLE, running_tables
from tests.support.store.connections import triton_connection

pytestmark = pytest.mark.timeout(600)
MANIFEST_SHA256 = "7" * 64
# No server answers within a microsecond, neither of the two versions; how much slower one is does not matter.
MISSED_BY_BOTH = (
    "attempts: 2, attempt_pause_s: 5, requests: 20, rounds: 1, max_rounds: 1, concurrency: 1, slo: {p99_ms: 0.001}, "
    "max_regression_percent: 1000, regression_floor_ms: 10000"
)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TritonServer]:
    """The staging server; candidate and stable version are the same model on it."""
    models = {"table": 2, "table_baseline": 1}
    with running_tables({"staging": DOUBLE}, tmp_path_factory.mktemp, models) as servers:
        yield servers["staging"]


@pytest.fixture(scope="module")
def emulator(tmp_path_factory: pytest.TempPathFactory, s3_endpoint: str) -> Iterator[Emulator]:
    """A cluster with perf_analyzer's image."""
    with pod_cluster(tmp_path_factory.mktemp("cluster"), s3_endpoint, "perf-analyzer") as cluster:
        yield cluster


@pytest.fixture
def operator(
    server: TritonServer, emulator: Emulator, store: ModelStoreHook, monkeypatch: pytest.MonkeyPatch
) -> Callable[[], BenchmarkModelOperator]:
    """Makes the operator anew, as Airflow does after each wait; version 2 is admitted over version 1."""
    extra = {"kube_config_path": str(emulator.kubeconfig), "namespace": NAMESPACE}
    cluster = json.dumps({"conn_type": "kubernetes", "extra": extra})
    monkeypatch.setenv("AIRFLOW_CONN_KUBERNETES_DEFAULT", cluster)
    connection = triton_connection(server.ports.http, server.ports.grpc)
    monkeypatch.setenv("AIRFLOW_CONN_TRITON_STAGING", connection)
    golden = io.BytesIO()
    np.savez(golden, x=np.ones((4, 2), np.float32), label=np.zeros(4, np.int64))
    store.write("models/table/2/golden.npz", golden.getvalue())
    text = f"model: table\nsource: {{format: onnx}}\nbenchmark: {{{MISSED_BY_BOTH}}}\n"
    release_run = ReleaseRun(
        release_id="table-2",
        model="table",
        version=2,
        bucket=store.bucket,
        spec=parse_release_spec(text, "table.yaml"),
        stable=StableVersion(version=1, storage_uri=f"s3://{store.bucket}/models/table/1/repository"),
    )
    ReleaseRecord(store, "table", 2, release_run.release_id).append(ReleaseStarted())
    staging = {
        "candidate": {"name": "table", "version": 2, "config": {}},
        "baseline": {"name": "table_baseline", "version": 1, "config": {}},
        "manifest_sha256": MANIFEST_SHA256,
    }
    return lambda: BenchmarkModelOperator(
        task_id="benchmark",
        release=release_run.model_dump_json(),
        staging=json.dumps(staging),
        deferrable=True,
        poll_interval=0.5,
    )


def waited(make: Callable[[], BenchmarkModelOperator], deferred: TaskDeferred) -> TaskDeferred | None:
    """Goes on as Airflow does when the trigger has fired; returns what the task waits for next, None at its end."""
    event = asyncio.run(asyncio.wait_for(first_event(deferred.trigger), 90))
    method = getattr(make(), deferred.method_name)
    try:
        method(context(), event=event, **(deferred.kwargs or {}))
    except TaskDeferred as again:
        return again
    return None


def context() -> Any:
    """The task's context, outside of any scheduler."""
    return task_context("benchmark", "table-2")


def test_what_stable_misses_as_well_is_measured_again_and_then_inconclusive(
    operator: Callable[[], BenchmarkModelOperator], emulator: Emulator, store: ModelStoreHook
) -> None:
    """Each measurement has a pod and evidence of its own; the last one ends the stage, neither passed nor refused."""
    pods = client.CoreV1Api(emulator.api_client())

    def running() -> list[str]:
        return [pod.metadata.name for pod in pods.list_namespaced_pod(NAMESPACE).items]

    with pytest.raises(TaskDeferred) as first:
        operator().execute(context())
    (first_pod,) = running()
    pause = waited(operator, first.value)
    assert pause is not None
    assert isinstance(pause.trigger, TimeDeltaTrigger)
    record = ReleaseRecord(store, "table", 2, "table-2")
    assert [(stage.name, stage.outcome) for stage in record.state().stages] == [("benchmark", "running")]
    second = waited(operator, pause)
    assert second is not None
    assert f"{first_pod}-2" in running()
    with pytest.raises(AirflowFailException, match=r"measured 2 times.*the stable version misses it as well"):
        waited(operator, second)
    (stage,) = record.state().stages
    assert stage.outcome == "inconclusive"
    assert record.state().refused_by is None
    prefix = "models/table/2/evidence/table-2/benchmark/"
    verdict = store.read_json(f"{prefix}verdict.json") or {}
    assert (verdict["status"], verdict["attempt"]) == ("inconclusive", 2)
    assert store.exists(f"{prefix}result.json")
    assert store.exists(f"{prefix}attempt-2/result.json")


def test_a_pass_says_for_which_manifest(
    operator: Callable[[], BenchmarkModelOperator], store: ModelStoreHook
) -> None:
    """The record tells which manifest the version had that was measured."""
    made = operator()
    fast = made.release_run.spec.benchmark.slo.model_copy(update={"p99_ms": 10_000.0})
    benchmark = made.release_run.spec.benchmark.model_copy(update={"slo": fast})
    spec = made.release_run.spec.model_copy(update={"benchmark": benchmark})
    made.release = made.release_run.model_copy(update={"spec": spec}).model_dump_json()
    del made.release_run
    with pytest.raises(TaskDeferred) as deferred:
        made.execute(context())

    def again() -> BenchmarkModelOperator:
        one = operator()
        one.release = made.release
        return one

    assert waited(again, deferred.value) is None
    (stage,) = ReleaseRecord(store, "table", 2, "table-2").state().stages
    assert (stage.outcome, stage.manifest_sha256) == ("passed", MANIFEST_SHA256)


def test_rounds_that_do_not_decide_are_followed_by_more(
    operator: Callable[[], BenchmarkModelOperator], emulator: Emulator, store: ModelStoreHook
) -> None:
    """A second pod goes on counting; both are judged together, within the same attempt, and a page is written."""

    def again() -> BenchmarkModelOperator:
        made = operator()
        fast = made.release_run.spec.benchmark.slo.model_copy(update={"p99_ms": 10_000.0})
        # One round never decides, whatever the machine does; two do, where everything is within the margin.
        more = {"slo": fast, "rounds": 1, "max_rounds": 2, "compared": ("p50",)}
        benchmark = made.release_run.spec.benchmark.model_copy(update=more)
        spec = made.release_run.spec.model_copy(update={"benchmark": benchmark})
        fresh = operator()
        fresh.release = made.release_run.model_copy(update={"spec": spec}).model_dump_json()
        return fresh

    with pytest.raises(TaskDeferred) as first:
        again().execute(context())
    pause = waited(again, first.value)
    assert pause is not None
    assert isinstance(pause.trigger, TimeDeltaTrigger)
    second = waited(again, pause)
    assert second is not None
    assert waited(again, second) is None
    prefix = "models/table/2/evidence/table-2/"
    verdict = store.read_json(f"{prefix}benchmark/verdict.json") or {}
    assert (verdict["status"], verdict["attempt"], verdict["pairs"]) == ("pass", 1, 2)
    later = store.read_json(f"{prefix}benchmark/rounds-from-2/result.json") or {}
    assert [one["round"] for one in later["measurements"]] == [2, 2]
    assert "passed" in (store.read(f"{prefix}benchmark.html") or b"").decode()
