"""A model that is live on a real tritonserver, as `model_revalidation` sees it, and a run of that workflow."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import onnx
from kubernetes import client
from kubernetes.client.rest import ApiException
from onnx import TensorProto, helper

from slipway.hooks.s3_store import ModelStoreHook
from slipway.operators.revalidation.close_finding import CloseFindingOperator
from slipway.operators.revalidation.finding_book import FindingBook
from slipway.operators.revalidation.page import ShowRevalidationOperator
from slipway.operators.revalidation.revalidate import ListModelsOperator, RevalidateModelOperator
from slipway.operators.revalidation.way_back import NameRollbacksOperator
from slipway.registry.registry import ModelRegistry
from slipway.release_record.record import ReleaseRecord
from slipway_core.operations.layout import revalidation_prefix, revalidation_report_key
from slipway_core.operations.revalidation.findings import Finding
from slipway_core.operations.revalidation.report import ModelReport
from slipway_core.record.kinds import Promoted, ReleaseFinished
from slipway_sandbox.host.ports import LOOPBACK
from slipway_sandbox.kserve.knative import machine
from slipway_sandbox.kserve.knative import service as knative
from slipway_sandbox.services.triton import TritonPorts, TritonServer
from tests.support.cluster.emulator import Emulator, inference_service
from tests.support.release.staged_answers import Release
from tests.support.serving.triton_install import triton_install

MODEL = "rent"
RELEASE_FILE = """
model: rent
source: {format: onnx}
serving: {max_batch_size: 8}
validation: {kind: regression, output: prediction, mae_max: 0.5, r2_min: 0.9, agreement_min: 1, rel_tolerance: 0.1}
rollout: {namespace: models}
revalidation: {config_reads: 1, timeout_s: 10, latency_slack_ms: 10000}
"""
SERVICES = ("serving.kserve.io", "v1beta1", "models", "inferenceservices")
KNATIVE_SERVICES = ("serving.knative.dev", "v1", "models", "services")
REVISIONS = ("serving.knative.dev", "v1", "models", "revisions")
ROWS = 60
_AWS = {
    "AWS_ACCESS_KEY_ID": "slipway-test",
    "AWS_SECRET_ACCESS_KEY": "slipway-test",
    "AWS_DEFAULT_REGION": "us-east-1",
}


def linear_model(slope: float) -> bytes:
    """Return an ONNX model: prediction = slope × area."""
    shape = ["rows", 1]
    graph = helper.make_graph(
        [helper.make_node("Mul", ["area", "slope"], ["prediction"])],
        MODEL,
        [helper.make_tensor_value_info("area", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("prediction", TensorProto.FLOAT, shape)],
        [helper.make_tensor("slope", TensorProto.FLOAT, [1], [slope])],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    onnx.checker.check_model(model)
    return bytes(model.SerializeToString())


def publish(store: ModelStoreHook, version: int, slope: float, text: str = RELEASE_FILE) -> Release:
    """Publish a version of the regressor; the labels are twice the area."""
    area = np.arange(1, ROWS + 1, dtype=np.float32).reshape(-1, 1)
    tensor = {"datatype": "FP32", "shape": [-1, 1]}
    signature = {"inputs": [{"name": "area", **tensor}], "outputs": [{"name": "prediction", **tensor}]}
    label = 2.0 * area[:, 0].astype(np.float64)
    return Release(store, text, version).publish(
        {"model.onnx": linear_model(slope)}, signature, area=area, label=label
    )


def promoted(store: ModelStoreHook, version: int) -> None:
    """Its record says that the version was promoted."""
    record = ReleaseRecord(store, MODEL, version, f"{MODEL}-{version}")
    at = datetime.now(UTC) - timedelta(minutes=10) + timedelta(seconds=version)
    registry = ModelRegistry(store)
    _, digest = registry.require_with_digest(MODEL, version)
    uri = registry.storage_uri(MODEL, version)
    record.append(Promoted(storage_uri=uri, manifest_sha256=digest), at=at)
    record.append(ReleaseFinished(outcome="promoted"), at=at)


@contextmanager
def live_server(store: ModelStoreHook, version: int, folder: Path) -> Iterator[TritonServer]:
    """A server over the published repository, as a pod of KServe's, but one that takes loads by hand."""
    one = TritonServer(
        triton_install(),
        f"s3://{store.client.meta.endpoint_url}/{store.bucket}/models/{MODEL}/{version}/repository",
        TritonPorts.free(),
        mode="explicit",
        environment=_AWS,
        log_path=folder / f"live-{version}.log",
        exit_timeout_s=1,
    )
    one.start()
    try:
        one.wait_ready(30)
        yield one
    finally:
        one.stop()


def load(server: TritonServer, config: dict[str, Any] | None = None) -> None:
    """Load the model by hand; with a configuration, instead of the published one."""
    from tritonclient.http import InferenceServerClient

    with InferenceServerClient(f"{LOOPBACK}:{server.ports.http}") as asked:
        asked.load_model(MODEL, config=None if config is None else json.dumps(config))


def served_config(server: TritonServer) -> dict[str, Any]:
    """Return the configuration that the server reports."""
    from tritonclient.http import InferenceServerClient

    with InferenceServerClient(f"{LOOPBACK}:{server.ports.http}") as asked:
        return dict(asked.get_model_config(MODEL))


class LiveService:
    """The model's InferenceService in an emulated cluster without a controller: its status is made up."""

    def __init__(self, emulator: Emulator, bucket: str) -> None:
        self._custom = client.CustomObjectsApi(emulator.api_client())
        self._bucket = bucket

    def serve(self, version: int, url: str, **predictor: Any) -> None:
        """Create it, or lead it to a version: all users are on a revision that is named after it."""
        self.clear()
        uri = f"s3://{self._bucket}/models/{MODEL}/{version}/repository"
        body: dict[str, Any] = inference_service(MODEL, uri=uri, **predictor)
        body["metadata"]["namespace"] = "models"
        made = self._custom.create_namespaced_custom_object(*SERVICES, body)
        revision = self._serve_behind(made)
        component = {
            "latestCreatedRevision": revision,
            "latestReadyRevision": revision,
            "latestRolledoutRevision": revision,
            "traffic": [{"revisionName": revision, "percent": 100, "latestRevision": True}],
        }
        ready = [{"type": kind, "status": "True"} for kind in ("Ready", "PredictorRouteReady")]
        status = {
            "observedGeneration": 1,
            "url": url,
            "conditions": ready,
            "components": {"predictor": component},
            "modelStatus": {"transitionStatus": "UpToDate"},
        }
        self._custom.patch_namespaced_custom_object_status(*SERVICES, MODEL, {"status": status})

    def _serve_behind(self, service: dict[str, Any]) -> str:
        """Create what KServe and Knative make of it, as when all is done; return the name of the revision."""
        predictor = machine.accept(machine.Predictor(), service)
        for one in predictor.revisions:
            predictor = machine.with_revision(predictor, one.name, phase="ready")
        predictor = machine.settle(predictor, service["spec"]["predictor"].get("canaryTrafficPercent"))
        made = knative.knative_service(predictor, service)
        stored = self._custom.create_namespaced_custom_object(*KNATIVE_SERVICES, made)
        status = {**made["status"], "observedGeneration": stored["metadata"]["generation"]}
        name = made["metadata"]["name"]
        self._custom.patch_namespaced_custom_object_status(*KNATIVE_SERVICES, name, {"status": status})
        for one in knative.revisions(predictor, service):
            self._custom.create_namespaced_custom_object(*REVISIONS, one)
        return str(predictor.latest_ready)

    def clear(self) -> None:
        """Delete it, and what is behind it."""
        self._delete(SERVICES, MODEL)
        self._delete(KNATIVE_SERVICES, f"{MODEL}-predictor")
        self._delete(REVISIONS, f"{MODEL}-predictor-00001")

    def _delete(self, kind: tuple[str, str, str, str], name: str) -> None:
        try:
            self._custom.delete_namespaced_custom_object(*kind, name)
        except ApiException as error:
            if error.status != 404:
                raise


class RevalidationRun:
    """Runs of `model_revalidation` for one model, each with an id of its own."""

    dag_id = "model_revalidation"

    def __init__(self, store: ModelStoreHook, releases_dir: Path) -> None:
        self.store = store
        self.releases_dir = releases_dir
        self.number = 0
        self.started_by: str | None = None
        self.running: set[str] = set()
        self.answer_limit_s = 10.0
        self.params: dict[str, Any] = {"model": MODEL}
        self._shared = {"releases_dir": str(releases_dir), "bucket": store.bucket}

    def get_dagrun_state(self, dag_id: str, run_id: str) -> str:
        """The state of any run."""
        return "running" if run_id in self.running else "success"

    @property
    def run_id(self) -> str:
        """The id of the run that was started last."""
        return f"revalidation-{self.number}"

    @property
    def context(self) -> Any:
        """The context of a task."""
        started = SimpleNamespace(triggering_user_name=self.started_by)
        return {"params": self.params, "run_id": self.run_id, "dag": self, "ti": self, "dag_run": started}

    def arguments(self, task_id: str) -> dict[str, Any]:
        """What every task is given."""
        return {"task_id": task_id, "answer_limit_s": self.answer_limit_s, **self._shared}

    def say(self, **revalidation: Any) -> None:
        """Change `revalidation` in the release file."""
        text = RELEASE_FILE.replace("{config_reads", f"{{{json.dumps(revalidation)[1:-1]}, config_reads")
        (self.releases_dir / f"{MODEL}.yaml").write_text(text, encoding="utf-8")

    def look(self) -> ModelReport:
        """Start a run, and look at the model; return the report."""
        self.number += 1
        models = ListModelsOperator(**self.arguments("list_models")).execute(self.context)
        assert models == [MODEL]
        RevalidateModelOperator(model=MODEL, **self.arguments("revalidate")).execute(self.context)
        key = revalidation_report_key(self.run_id, MODEL)
        return ModelReport.from_bytes(self.store.read(key) or b"", key)

    def name_rollbacks(self) -> list[dict[str, Any]]:
        """Name the rollbacks of the run that was started last."""
        task = NameRollbacksOperator(models=json.dumps([MODEL]), **self.arguments("name_rollbacks"))
        return list(task.execute(self.context))

    def show(self) -> str:
        """Write the run's page; return its address."""
        task = ShowRevalidationOperator(models=json.dumps([MODEL]), **self.arguments("show"))
        return str(task.execute(self.context))

    def page(self, name: str = f"models/{MODEL}.html") -> str:
        """A page of the run as it lies in the bucket."""
        return (self.store.read(f"{revalidation_prefix(self.run_id)}{name}") or b"").decode()

    def findings(self) -> dict[str, Finding]:
        """All findings of the model, by name."""
        return FindingBook(self.store, MODEL).all()

    def open(self) -> set[str]:
        """The names of the open findings."""
        return {name for name, one in self.findings().items() if one.is_open}

    def close(self, finding: str, reason: str, who: str | None = "alice") -> str:
        """Close a finding by hand."""
        params, by = self.params, self.started_by
        self.params, self.started_by = {"model": MODEL, "finding": finding, "reason": reason}, who
        try:
            return str(CloseFindingOperator(**self.arguments("close")).execute(self.context))
        finally:
            self.params, self.started_by = params, by


def outcomes(report: ModelReport) -> dict[str, str]:
    """Return what came of each check."""
    return {one.check: one.outcome for one in report.checks}
