"""A release whose pods are containers of the node: its S3, its release file, and its tasks as Airflow runs them."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
from airflow.sdk.exceptions import TaskDeferred

from slipway_sandbox.host.settings import PROJECT_ROOT
from tests.support.conformance.api import documents
from tests.support.containers.node.node_cluster import NodeCluster
from tests.support.pods.onnx_models import classifier
from tests.support.pods.support import npz
from tests.support.release.pod_steps import first_event, task_context
from tests.support.release.release_steps import Release
from tests.support.store.connections import CREDENTIALS

if TYPE_CHECKING:
    from airflow.sdk import BaseOperator

    from slipway.hooks.s3_store import ModelStoreHook

NAMESPACE, SECRET = "models", "object-store"
# The namespace admits no pod with more rights than these.
_LABELS = {f"pod-security.kubernetes.io/{mode}": "restricted" for mode in ("enforce", "warn")}
_VARIABLES = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_DEFAULT_REGION", "AWS_ENDPOINT_URL")
_FROM_SECRET = json.dumps({name: {"secret": SECRET, "key": name} for name in _VARIABLES})
_EVENT_LIMIT_S, _POD_LIMIT_S = 240.0, 120.0
_VERIFY = PROJECT_ROOT / "include" / "manifests" / "verify" / "cluster-storage-container.yaml"
_TELL = """
import os
for folder, _, names in os.walk("/mnt/models"):
    for name in names:
        path = os.path.join(folder, name)
        print(os.path.relpath(path, "/mnt/models"), os.path.getsize(path))
"""


# The model's own scorer: whether the probabilities of a row sum to 1.
_SCORER = """
import numpy as np

def score(inputs, labels, answers, stable):
    return {"sums_to_one": np.isclose(answers["probabilities"].sum(axis=1), 1, atol=1e-3).astype(float)}
"""
_SCORED = f"""\
validation:
  kind: custom
  output: probabilities
  scorer: scorer.py
  figures: {{sums_to_one: {{min: 0.5}}}}
  scoring: {{secret_env: {_FROM_SECRET}}}
"""


def release_file(model: str, conversion: str = "") -> str:
    """Return a release file whose pods get their way to S3 from a Secret; how fast a model is, is not tried here."""
    return f"""\
model: {model}
source: {{format: onnx}}
conversion: {{secret_env: {_FROM_SECRET}{conversion and ", "}{conversion}}}
serving: {{max_batch_size: 64}}
smoke_test: {{loads: 2, requests: 250, first_request: off, secret_env: {_FROM_SECRET}}}
benchmark:
  requests: 60
  rounds: 1
  concurrency: 1
  slo: {{p99_ms: 10000}}
  secret_env: {_FROM_SECRET}
"""


def prepare_namespace(cluster: NodeCluster, s3_address: str) -> None:
    """Make what the pods of a release find in their namespace: a service account, and the Secret."""
    api = cluster.api
    values = (CREDENTIALS["login"], CREDENTIALS["password"], "us-east-1", f"http://{s3_address}")
    for kind, name, more in (
        ("Namespace", NAMESPACE, {}),
        ("ServiceAccount", "slipway", {}),
        ("Secret", SECRET, {"stringData": dict(zip(_VARIABLES, values, strict=True))}),
    ):
        metadata = (
            {"name": name, "labels": _LABELS}
            if kind == "Namespace"
            else {"name": name, "namespace": NAMESPACE}
        )
        api.apply({"apiVersion": "v1", "kind": kind, "metadata": metadata, **more})


def landed(store: ModelStoreHook, model: str, conversion: str = "", padding_bytes: int = 0) -> Release:
    """Return the release of a version that training has left.

    :param conversion: more of the release file's part about the conversion.
    :param padding_bytes: how much larger the model is than it need be.
    """
    return _land(Release(store, release_file(model, conversion), 1), padding_bytes)


def scored_release(store: ModelStoreHook, model: str, folder: Path) -> Release:
    """Return the release of a version whose answers a scorer of its own judges; the release file lies in `folder`."""
    (folder / "scorer.py").write_text(_SCORER, encoding="utf-8")
    return _land(Release(store, release_file(model) + _SCORED, 1, folder=folder))


def _land(release: Release, padding_bytes: int = 0) -> Release:
    rows = np.random.default_rng(3).random((32, 4)).astype(np.float32)
    golden = npz(X=rows, label=np.zeros(32, np.int64))
    model = onnx.load_from_string(classifier())
    model.doc_string = "." * padding_bytes
    release.land({"model.onnx": model.SerializeToString()}, golden)
    return release


def carry_out(make: Callable[[], BaseOperator], meanwhile: Callable[[], None] = lambda: None) -> Any:
    """Execute a deferrable operator to its end; it is made anew after each wait, as Airflow does.

    :param meanwhile: called when it waits for the first time.
    """
    operator, arguments = make(), {}
    context = task_context(operator.task_id, "by-hand")
    call = operator.execute
    while True:
        try:
            return call(context, **arguments)
        except TaskDeferred as deferred:
            meanwhile()
            meanwhile = lambda: None  # noqa: E731
            _, fields = deferred.trigger.serialize()
            trigger = type(deferred.trigger)(**fields)
            event = asyncio.run(asyncio.wait_for(first_event(trigger), _EVENT_LIMIT_S))
            call = getattr(make(), deferred.method_name)
            arguments = {**(deferred.kwargs or {}), "event": event}


def laying_out(release: Release) -> dict[str, Any]:
    """Return a pod that has its version laid out as KServe has it done, and tells what it then finds.

    Its init container is the one of the project's manifest, but for the public key: the version is not signed.
    """
    (manifest,) = documents(_VERIFY)
    run = release.release_run
    volume, image = {"name": "models", "mountPath": "/mnt/models"}, manifest["spec"]["container"]
    keys = {name: {"secretKeyRef": {"name": SECRET, "key": name}} for name in _VARIABLES}
    init = {
        **image,
        "image": "slipway/verify:0.1.0",
        "env": [{"name": name, "valueFrom": value} for name, value in keys.items()],
        "args": [run.uri(f"models/{run.model}/{run.version}/repository"), volume["mountPath"]],
        "volumeMounts": [volume],
    }
    reader = {
        "name": "reader",
        "image": "slipway/verify:0.1.0",
        "command": ["python", "-c", _TELL],
        "securityContext": image["securityContext"],
        "volumeMounts": [{**volume, "readOnly": True}],
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": f"serve-{run.model}", "namespace": NAMESPACE},
        "spec": {
            "restartPolicy": "Never",
            "automountServiceAccountToken": False,
            "securityContext": {"fsGroup": image["securityContext"]["runAsUser"]},
            "volumes": [{"name": "models", "emptyDir": {}}],
            "initContainers": [init],
            "containers": [reader],
        },
    }


def run_pod(cluster: NodeCluster, pod: dict[str, Any]) -> str:
    """Run a pod to its end, delete it, and return what its container has said."""
    api, path = cluster.api, f"/api/v1/namespaces/{NAMESPACE}/pods/{pod['metadata']['name']}"
    api.apply(pod)
    limit = time.monotonic() + _POD_LIMIT_S
    while (status := api.must("GET", path)["status"])["phase"] not in ("Succeeded", "Failed"):
        assert time.monotonic() < limit, f"not ended within {_POD_LIMIT_S:.0f} s: {status}"
        time.sleep(0.5)
    text = str(api.ask("GET", f"{path}/log").body.get("message", ""))
    api.must("DELETE", path)
    assert status["phase"] == "Succeeded", f"{status}\n{text}"
    return text
