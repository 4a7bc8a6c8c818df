"""RunMirrorComparisonOperator: a real pod program in the emulated cluster, between two real tritonservers."""

from __future__ import annotations

import asyncio
import http.client
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException, TaskDeferred
from kubernetes import client

from slipway.hooks.s3_store import ModelStoreHook
from slipway.operators.mirror_comparison import RunMirrorComparisonOperator
from slipway.release_record.record import ReleaseRecord
from slipway.release_run import ReleaseRun, StableVersion
from slipway_core.record.kinds import ReleaseFinished, ReleaseStarted, StageFinished
from slipway_core.spec.release_file import parse_release_spec
from slipway_sandbox.host.ports import LOOPBACK, free_port
from slipway_sandbox.services.triton import TritonServer
from tests.support.cluster.emulator import NAMESPACE, Emulator
from tests.support.release.pod_steps import first_event, pod_cluster, task_context
from tests.support.serving.clients import body_of
from tests.support.serving.tables import DOUBLE, FAILING, OTHER, running_tables

pytestmark = pytest.mark.timeout(600)
MANIFEST_SHA256 = "5" * 64


@pytest.fixture(scope="module")
def tritons(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, TritonServer]]:
    """Servers of one model: stable; one that differs for some inputs; one that fails for some."""
    tables = {"stable": DOUBLE, "other": OTHER, "failing": FAILING}
    with running_tables(tables, tmp_path_factory.mktemp) as servers:
        yield servers


@pytest.fixture(scope="module")
def emulator(tmp_path_factory: pytest.TempPathFactory, s3_endpoint: str) -> Iterator[Emulator]:
    """A cluster whose pods reach the object store."""
    with pod_cluster(tmp_path_factory.mktemp("cluster"), s3_endpoint, "mirror-comparison") as cluster:
        yield cluster


@pytest.fixture
def ports(emulator: Emulator, monkeypatch: pytest.MonkeyPatch) -> tuple[int, int]:
    """Where the comparer listens, as the connections say."""
    found = (free_port(), free_port())
    extra = {"kube_config_path": str(emulator.kubeconfig), "namespace": NAMESPACE}
    mirror = {"conn_type": "http", "host": LOOPBACK, "port": found[0], "extra": {"grpc_port": found[1]}}
    monkeypatch.setenv(
        "AIRFLOW_CONN_KUBERNETES_DEFAULT", json.dumps({"conn_type": "kubernetes", "extra": extra})
    )
    monkeypatch.setenv("AIRFLOW_CONN_SLIPWAY_MIRROR", json.dumps(mirror))
    return found


@pytest.fixture
def admitted(store: ModelStoreHook) -> Callable[..., ReleaseRun]:
    """Admits version 2 of `table` over version 1, with a `rollout.mirror_comparison`."""

    def admit(mirror: str) -> ReleaseRun:
        text = (
            "model: table\nsource: {format: onnx}\nvalidation: {output: y}\n"
            f"rollout:\n  preview: {{}}\n  mirror_comparison: {mirror}\n"
        )
        release_run = ReleaseRun(
            release_id="table-2",
            model="table",
            version=2,
            bucket=store.bucket,
            spec=parse_release_spec(text, "table.yaml"),
            stable=StableVersion(version=1, storage_uri=f"s3://{store.bucket}/models/table/1/repository"),
        )
        ReleaseRecord(store, "table", 2, release_run.release_id).append(ReleaseStarted())
        return release_run

    return admit


def context() -> Any:
    """The task's context, outside of any scheduler."""
    return task_context("run_mirror_comparison", "table-2")


def shown(stable: TritonServer, candidate: TritonServer) -> dict[str, Any]:
    """What the task that shows the candidate returns."""
    urls = [f"http://{LOOPBACK}:{one.ports.http}" for one in (stable, candidate)]
    return {"stable_url": urls[0], "candidate_url": urls[1], "generation": 5}


def operator_for(
    release_run: ReleaseRun, preview: Any, *, deferrable: bool = False
) -> RunMirrorComparisonOperator:
    """The operator, as it is once its templates are rendered."""
    return RunMirrorComparisonOperator(
        task_id="run_mirror_comparison",
        release=release_run.model_dump_json(),
        preview=json.dumps(preview),
        manifest_sha256=MANIFEST_SHA256,
        deferrable=deferrable,
        poll_interval=0.5,
    )


@contextmanager
def mirroring(port: int, firsts: int = 10) -> Iterator[None]:
    """Copies of users' requests, as a router sends them, whether somebody listens or not."""
    over = threading.Event()

    def send() -> None:
        first = 0
        while not over.wait(0.02):
            connection = http.client.HTTPConnection(LOOPBACK, port, timeout=5)
            try:
                connection.request("POST", "/v2/models/table/infer", body_of(float(first % firsts)))
                connection.getresponse().read()
                first += 1
            except (OSError, http.client.HTTPException):
                pass
            finally:
                connection.close()

    thread = threading.Thread(target=send)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join(10)


def evidence(store: ModelStoreHook, release_run: ReleaseRun) -> dict[str, Any]:
    """What was kept for people; the page is there too."""
    assert store.exists(f"{release_run.evidence_prefix}mirror.html")
    found = store.read_json(f"{release_run.evidence_prefix}mirror.json")
    assert isinstance(found, dict)
    return found


def stage_of(store: ModelStoreHook) -> Any:
    """The stage in the record."""
    (stage,) = ReleaseRecord(store, "table", 2, "table-2").state().stages
    assert stage.name == "mirror"
    return stage


def test_answers_that_agree_pass(
    tritons: dict[str, TritonServer],
    ports: tuple[int, int],
    admitted: Callable[..., ReleaseRun],
    store: ModelStoreHook,
    emulator: Emulator,
) -> None:
    """Deferred while the pod compares; then evidence and record say that it passed, and what differs."""
    release_run = admitted("{requests: 40, timeout_s: 60, agreement_min: 0.9}")
    operator = operator_for(release_run, shown(tritons["stable"], tritons["other"]), deferrable=True)
    with mirroring(ports[0]):
        with pytest.raises(TaskDeferred) as deferred:
            operator.execute(context())
        core = client.CoreV1Api(emulator.api_client())
        (pod,) = core.list_namespaced_pod(NAMESPACE, label_selector="slipway.dev/mirror=table").items
        assert [one.container_port for one in pod.spec.containers[0].ports] == list(ports)
        resumed = operator_for(release_run, shown(tritons["stable"], tritons["other"]), deferrable=True)
        event = asyncio.run(asyncio.wait_for(first_event(deferred.value.trigger), 90))
        getattr(resumed, deferred.value.method_name)(context(), event)
    found = evidence(store, release_run)
    assert found["verdict"]["status"] == "pass"
    assert found["verdict"]["agreement"] == 0.9
    assert found["verdict"]["differ_percent"] == 20.0
    assert found["report"]["counts"]["compared"] == 40
    stage = stage_of(store)
    assert (stage.outcome, stage.manifest_sha256) == ("passed", MANIFEST_SHA256)


def test_a_candidate_that_fails_is_refused(
    tritons: dict[str, TritonServer],
    ports: tuple[int, int],
    admitted: Callable[..., ReleaseRun],
    store: ModelStoreHook,
) -> None:
    """A gate's refusal is not tried again, and names what failed; the evidence is there all the same."""
    release_run = admitted("{requests: 20, timeout_s: 60}")
    operator = operator_for(release_run, shown(tritons["stable"], tritons["failing"]))
    with mirroring(ports[0]), pytest.raises(AirflowFailException, match="10 of 20 requests"):
        operator.execute(context())
    assert evidence(store, release_run)["verdict"]["status"] == "fail"
    stage = stage_of(store)
    assert (stage.outcome, "HTTP 500" in stage.reason) == ("refused", True)


@pytest.mark.parametrize("required", [False, True])
def test_without_traffic_it_is_inconclusive(
    tritons: dict[str, TritonServer],
    ports: tuple[int, int],
    admitted: Callable[..., ReleaseRun],
    store: ModelStoreHook,
    required: bool,
) -> None:
    """Nobody mirrors: recorded as left out and gone on, or refused where the comparison is required."""
    release_run = admitted(f"{{requests: 20, timeout_s: 2, required: {str(required).lower()}}}")
    operator = operator_for(release_run, shown(tritons["stable"], tritons["stable"]))
    if required:
        with pytest.raises(AirflowFailException, match="no mirrored request arrived"):
            operator.execute(context())
    else:
        operator.execute(context())
    assert evidence(store, release_run)["verdict"]["status"] == "inconclusive"
    stage = stage_of(store)
    assert stage.outcome == ("refused" if required else "left_out")
    assert "no mirrored request arrived" in stage.reason
    finished = [
        event
        for event in ReleaseRecord(store, "table", 2, "table-2").events()
        if isinstance(event.data, StageFinished | ReleaseFinished)
    ]
    assert len(finished) == 1, "it never was recorded as passed"


def test_it_passes_at_once_where_nothing_is_asked_for(
    tritons: dict[str, TritonServer], admitted: Callable[..., ReleaseRun], store: ModelStoreHook
) -> None:
    """Without `rollout.mirror_comparison`, and without a shown candidate, no pod runs and no stage is recorded."""
    both = shown(tritons["stable"], tritons["other"])
    for mirror, preview in (("null", both), ("{}", None)):
        operator_for(admitted(mirror), preview).execute(context())
    assert ReleaseRecord(store, "table", 2, "table-2").state().stages == ()


def test_revisions_without_addresses_cannot_be_compared(
    admitted: Callable[..., ReleaseRun], store: ModelStoreHook
) -> None:
    """Where the routes give no address of its own to a revision, that is told, not guessed at."""
    release_run = admitted("{}")
    operator_for(release_run, {"candidate_url": "http://a.example", "stable_url": ""}).execute(context())
    found = evidence(store, release_run)
    assert (found["verdict"]["status"], found["report"]) == ("inconclusive", None)
    stage = stage_of(store)
    assert (stage.outcome, "addresses" in stage.reason) == ("left_out", True)
    # The release goes on, so this is not why it ended, whatever ends it.
    assert ReleaseRecord(store, "table", 2, "table-2").state().reason is None
