"""What an operator does when what it needs is away: the task is tried again, and production is left as it is.

Other bad input is tried where it is read: forms in tests/dags, requests in admission/test_request.py, messages in
test_intake_operator.py, models and golden sets in tests/contract/pods.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import tenacity
from airflow.providers.cncf.kubernetes import kubernetes_helper_functions
from airflow.sdk.exceptions import AirflowFailException

from airflow_provider_triton import errors as triton
from airflow_provider_triton.operators import TritonUnloadModelOperator
from slipway.hooks.s3_store import ModelStoreHook
from slipway.hooks.triton import STAGING_CONN_ID
from slipway.operators.admission.admit import AdmitReleaseOperator
from slipway.operators.benchmark import BenchmarkModelOperator
from slipway.operators.canary import ShiftTrafficOperator
from slipway.operators.conclude import ConcludeReleaseOperator
from slipway.operators.convert import ConvertModelOperator
from slipway.operators.promote import PromoteOperator
from slipway.operators.publish import PublishModelOperator
from slipway.operators.restore import ArmRollbackOperator, RestoreStableOperator
from slipway.operators.staging import LoadCandidateOperator, PrepareStagingOperator, StagedModel, Staging
from slipway.operators.validate import ValidateModelOperator
from slipway.release_record.record import ReleaseRecord
from slipway.release_run import ReleaseRun, StableVersion
from slipway.traffic.checkpoint import WatchState
from slipway.triggers.canary import CanaryStepTrigger
from slipway_core.canary.judge import CanaryJudge
from slipway_core.errors import SlipwayError, TransientError
from slipway_core.record.kinds import ReleaseStarted, WeightIntended
from slipway_core.rollout.inference_service import inference_service_manifest
from slipway_core.spec.release_file import parse_release_spec
from slipway_sandbox.host.ports import LOOPBACK, free_port
from tests.support.http_server import QuietHandler, http_server
from tests.support.store.connections import aws_connection, triton_connection

RELEASE_FILE = "model: digits\nsource: {format: onnx}\nrollout: {ready_timeout_s: 1}\n"
CONFIG = {"name": "digits", "version_policy": {"specific": {"versions": [2]}}}
STAGING = Staging(
    candidate=StagedModel(name="digits", version=2, config=CONFIG),
    baseline=StagedModel(name="digits_baseline", version=1, config=CONFIG),
    manifest_sha256="0" * 64,
)


@dataclass
class Cluster:
    """An API server that knows one InferenceService, and remembers what it was asked to do."""

    service: dict[str, Any]
    asked: list[str] = field(default_factory=list)
    port: int = 0


@pytest.fixture
def release_run(store: ModelStoreHook) -> ReleaseRun:
    """Version 2 is admitted, over version 1; nothing of it is live yet."""
    release_run = ReleaseRun(
        release_id="digits-2",
        model="digits",
        version=2,
        bucket=store.bucket,
        spec=parse_release_spec(RELEASE_FILE, "digits.yaml"),
        stable=StableVersion(version=1, storage_uri=f"s3://{store.bucket}/models/digits/1/repository"),
    )
    record = ReleaseRecord(store, "digits", 2, release_run.release_id)
    record.append(ReleaseStarted(stable_storage_uri=release_run.stable and release_run.stable.storage_uri))
    return release_run


@pytest.fixture
def cluster(release_run: ReleaseRun) -> Iterator[Cluster]:
    """The cluster of production, in which version 1 is live."""
    assert release_run.stable is not None
    live = inference_service_manifest(
        release_run.spec, release_run.stable.storage_uri, release_id="digits-1", version=1
    )
    cluster = Cluster(live)

    class Handler(QuietHandler):
        def respond(self) -> None:
            cluster.asked.append(self.command)
            known = "/inferenceservices/" in self.path
            status, found = (200, cluster.service) if known else (404, {"kind": "Status", "code": 404})
            self.answer(status, json.dumps(found).encode())

    with http_server(Handler) as cluster.port:
        yield cluster


@pytest.fixture(autouse=True)
def _world(cluster: Cluster, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """All but S3, which the bucket's fixture has set up: a cluster that answers, servers that do not, no patience."""
    point_at_cluster(cluster.port, monkeypatch, tmp_path)
    monkeypatch.setenv("AIRFLOW_CONN_TRITON_STAGING", triton_connection(free_port(), free_port()))
    metrics = {"conn_type": "http", "host": LOOPBACK, "port": free_port()}
    monkeypatch.setenv("AIRFLOW_CONN_SLIPWAY_METRICS", json.dumps(metrics))
    monkeypatch.setattr(kubernetes_helper_functions, "_default_wait", tenacity.wait_none())
    (tmp_path / "digits.yaml").write_text(RELEASE_FILE)


def point_at_cluster(port: int, monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """Let the connection kubernetes_default lead to a port of loopback."""
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "c", "cluster": {"server": f"http://{LOOPBACK}:{port}"}}],
        "users": [{"name": "u", "user": {"token": "made-up"}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u", "namespace": "models"}}],
        "current-context": "x",
    }
    path = folder / "kubeconfig"
    path.write_text(json.dumps(config))
    connection = {"conn_type": "kubernetes", "extra": {"kube_config_path": str(path)}}
    monkeypatch.setenv("AIRFLOW_CONN_KUBERNETES_DEFAULT", json.dumps(connection))


@pytest.fixture
def no_s3(release_run: ReleaseRun, monkeypatch: pytest.MonkeyPatch) -> None:
    """The object store goes away after the release was admitted."""
    monkeypatch.setenv("AIRFLOW_CONN_AWS_DEFAULT", aws_connection(f"http://{LOOPBACK}:{free_port()}"))
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")


@pytest.fixture
def no_cluster(release_run: ReleaseRun, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The API server goes away after the release was admitted."""
    point_at_cluster(free_port(), monkeypatch, tmp_path)


def context() -> Any:
    """Return a task's context outside of a scheduler."""
    instance = SimpleNamespace(
        dag_id="model_release",
        task_id="task",
        run_id="digits-2",
        map_index=-1,
        try_number=1,
        start_date=datetime.now(UTC),
        get_dagrun_state=lambda *_: "running",
        xcom_push=lambda *_, **__: None,
    )
    return {
        "ti": instance,
        "run_id": "digits-2",
        "dag": SimpleNamespace(dag_id="model_release", parent_dag=None),
        "params": {"model": "digits", "version": 2},
    }


Make = Callable[[str, Path], Any]


def step(operator: Any, **arguments: Any) -> Make:
    """Make an operator that works by a release run."""
    return lambda release, folder: operator(task_id="task", release=release, **arguments)


STEPS: dict[str, Make] = {
    "admit": lambda release, folder: AdmitReleaseOperator(
        task_id="task", releases_dir=str(folder), bucket=ReleaseRun.parse(release).bucket
    ),
    "convert": step(ConvertModelOperator, namespace="models"),
    "publish": step(PublishModelOperator),
    "prepare staging": step(PrepareStagingOperator),
    "load": step(LoadCandidateOperator, model_name="digits", config=json.dumps(CONFIG)),
    "unload": lambda release, folder: TritonUnloadModelOperator(
        task_id="task", model_names=["digits"], triton_conn_id=STAGING_CONN_ID
    ),
    "validate": step(ValidateModelOperator, staging=STAGING.model_dump_json()),
    "benchmark": step(BenchmarkModelOperator, staging=STAGING.model_dump_json(), namespace="models"),
    "arm the rollback": step(ArmRollbackOperator),
    "shift traffic": step(ShiftTrafficOperator),
    "promote": step(PromoteOperator),
    "restore stable": step(RestoreStableOperator),
    "conclude": step(ConcludeReleaseOperator),
}


def trouble(name: str, release_run: ReleaseRun, folder: Path) -> SlipwayError | triton.TritonError:
    """Execute a step that cannot be done; return what it raised, which Airflow tries again."""
    operator = STEPS[name](release_run.model_dump_json(), folder)
    with pytest.raises(Exception) as caught:  # noqa: PT011  its class is what is looked at
        operator.execute(context())
    assert not isinstance(caught.value, AirflowFailException), "would not be tried again"
    assert isinstance(caught.value, TransientError | triton.TransientError)
    return caught.value


@pytest.mark.usefixtures("no_s3")
@pytest.mark.parametrize(
    "name",
    [name for name in STEPS if name not in ("arm the rollback", "unload")],
)
def test_object_store_is_away(name: str, release_run: ReleaseRun, cluster: Cluster, tmp_path: Path) -> None:
    """Without the object store every step is tried again; none touches what is live."""
    error = trouble(name, release_run, tmp_path)
    assert release_run.bucket in str(error)
    assert "aws_default" in str(error)
    assert set(cluster.asked) <= {"GET"}


@pytest.mark.usefixtures("no_cluster")
@pytest.mark.parametrize("name", ["admit", "convert", "benchmark", "arm the rollback"])
def test_cluster_is_away(name: str, release_run: ReleaseRun, tmp_path: Path) -> None:
    """Without the cluster's API every step that needs it is tried again."""
    if name == "admit":
        lay_out_version(ModelStoreHook(release_run.bucket))
    assert "kubernetes_default" in str(trouble(name, release_run, tmp_path))


@pytest.mark.usefixtures("no_cluster")
def test_cluster_is_away_when_users_must_be_led_back(
    release_run: ReleaseRun, store: ModelStoreHook, tmp_path: Path
) -> None:
    """A rollback that does not reach the cluster is tried again; it is not recorded as done."""
    record = ReleaseRecord(store, "digits", 2, release_run.release_id)
    record.append(
        WeightIntended(weight=5, storage_uri=release_run.storage_uri, stable_storage_uri="s3://b/1")
    )
    trouble("restore stable", release_run, tmp_path)
    assert record.state().outcome == "open"


@pytest.mark.usefixtures("no_cluster")
def test_cluster_is_away_in_a_canary(release_run: ReleaseRun) -> None:
    """A step whose weight cannot be reached ends, after its limit, in a failure that is tried again."""
    trigger = CanaryStepTrigger(
        release=release_run.model_dump(mode="json"),
        step=0,
        hold=False,
        state=WatchState(
            "watch",
            CanaryJudge(release_run.spec.rollout.analysis).to_json(),
            0.0,
        ).to_dict(),
        aws_conn_id="aws_default",
        kubernetes_conn_id="kubernetes_default",
        metrics_conn_id="slipway_metrics",
    )

    async def first_event() -> dict[str, Any]:
        async for event in trigger.run():
            payload: dict[str, Any] = event.payload
            return payload
        raise AssertionError("the trigger ended without an event")

    told = asyncio.run(asyncio.wait_for(first_event(), 60))
    assert told["decision"] == "failed"
    assert isinstance(SlipwayError.from_dict(told["error"]), TransientError)


@pytest.mark.parametrize("name", ["load", "validate", "unload"])
def test_staging_is_away(name: str, release_run: ReleaseRun, cluster: Cluster, tmp_path: Path) -> None:
    """Without the staging server every step that needs it is tried again; what is live is not even looked at."""
    assert "triton_staging" in str(trouble(name, release_run, tmp_path))
    assert cluster.asked == []


def lay_out_version(store: ModelStoreHook) -> None:
    """Leave version 2 as training does."""
    for name in ("model.onnx", "golden.npz"):
        store.write(f"incoming/digits/2/{name}", b"content")
    store.write_json("incoming/digits/2/ready.json", {"model": "digits", "version": 2})
