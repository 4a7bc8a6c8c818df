"""Where the real scheduler puts the servers of a model and the pods of its release, and what KServe makes of gRPC."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from kubernetes.client import ApiClient

from slipway.operators.convert import ConvertModelOperator
from slipway.operators.smoke_test.run import RunSmokeTestOperator
from slipway.release_run import ReleaseRun
from slipway_core.rollout.next_action import Done
from slipway_core.rollout.servers.served import served_protocol
from slipway_core.spec.release_file import ReleaseSpec, parse_release_spec
from tests.support.conformance.api import Object
from tests.support.conformance.build import KUBE, build
from tests.support.conformance.real_cluster import RealCluster
from tests.support.conformance.rollouts import NAME, Rollouts, rollouts
from tests.support.conformance.scheduling.gpu_nodes import GPU_NODE, PLAIN_NODE, add_nodes, remove_nodes
from tests.support.conformance.scheduling.scheduler import start_scheduler
from tests.support.waiting import wait_until

TOLERATES = "tolerations: [{key: nvidia.com/gpu, operator: Exists, effect: NoSchedule}], "
CLASSES = "priority_class: slipway-online, runtime_class: nvidia, image_pull_secrets: [registry], "
FILE = """
model: digits
source: {format: onnx}
conversion: {target: tensorrt, %(tolerates)s %(classes)s resources: {gpu_resource: %(gpu)s}}
rollout: {namespace: %(namespace)s, deployment_mode: %(mode)s, %(tolerates)s %(classes)s min_replicas: %(replicas)s}
"""
MODES = pytest.mark.parametrize("mode", ["Knative", "Standard"])


@pytest.fixture(scope="module")
def scheduled(cluster: RealCluster) -> Iterator[RealCluster]:
    """The cluster with the real scheduler and two nodes; pods of other tests are bound by hand as before."""
    api = cluster.api
    api.apply(
        {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": "slipway-online"},
            "value": 1000,
        }
    )
    api.apply(
        {
            "apiVersion": "node.k8s.io/v1",
            "kind": "RuntimeClass",
            "metadata": {"name": "nvidia"},
            "handler": "nvidia",
        }
    )
    add_nodes(api)
    start_scheduler(build(KUBE).programs["kube-scheduler"], cluster.processes, cluster.plane)
    # What the scheduler has not bound yet is not the hand's to bind.
    cluster.kubelet.elsewhere = lambda pod: not pod["spec"].get("nodeName")
    yield cluster
    cluster.kubelet.elsewhere = lambda pod: False
    remove_nodes(api)


def spec_of(namespace: str, mode: str, **given: Any) -> ReleaseSpec:
    """The release file of an engine."""
    values = {"tolerates": TOLERATES, "classes": "", "gpu": "nvidia.com/gpu", "replicas": 1, **given}
    return parse_release_spec(FILE % {"namespace": namespace, "mode": mode, **values}, "the lane's release")


@pytest.fixture
def made(scheduled: RealCluster, mode: str) -> Iterator[Rollouts]:
    """An InferenceService to be, in a namespace of its own."""
    with rollouts(scheduled, mode) as one:
        yield one


def serving_pods(made: Rollouts) -> list[Object]:
    """The pods of the predictor."""
    return [pod for pod in made.objects("/api/v1/pods") if "digits" in pod["metadata"]["name"]]


@MODES
@pytest.mark.parametrize("gpu", ["nvidia.com/gpu", "nvidia.com/mig-1g.10gb", "nvidia.com/gpu.shared"])
def test_an_engine_is_served_on_the_tainted_node_that_offers_its_device(
    made: Rollouts, mode: str, gpu: str
) -> None:
    """Through KServe, and Knative, to the pod: device, taint and classes are those of the release file."""
    made.spec = spec_of(made.namespace, mode, gpu=gpu, classes=CLASSES)
    reached = made.first()
    assert isinstance(reached.action, Done)
    (pod,) = serving_pods(made)
    assert pod["spec"]["nodeName"] == GPU_NODE
    (server,) = (one for one in pod["spec"]["containers"] if one["name"] == "kserve-container")
    assert server["resources"]["limits"][gpu] == "1"
    assert server["resources"]["limits"]["memory"] == "8Gi"
    assert (pod["spec"]["priorityClassName"], pod["spec"]["runtimeClassName"]) == ("slipway-online", "nvidia")
    assert {"name": "registry"} in pod["spec"]["imagePullSecrets"]


@MODES
def test_without_the_toleration_the_pod_waits_and_the_scheduler_says_why(made: Rollouts, mode: str) -> None:
    """The device is on the tainted node alone: nothing is bound anywhere else."""
    made.spec = spec_of(made.namespace, mode, tolerates="")
    assert made.hook.create(made.manifest(1))
    reason: list[str] = []

    def is_refused() -> bool:
        conditions = [
            one for pod in serving_pods(made) for one in pod.get("status", {}).get("conditions", [])
        ]
        reason[:] = [one.get("message", "") for one in conditions if one.get("reason") == "Unschedulable"]
        return bool(reason)

    wait_until(is_refused, "the scheduler refuses the pod", 60)
    assert "untolerated taint" in reason[0]
    assert "Insufficient nvidia.com/gpu" in reason[0]


@pytest.mark.parametrize("mode", ["Standard"])
def test_as_many_replicas_as_the_file_says_are_kept(made: Rollouts, mode: str) -> None:
    """More than the device has parts for wait: the others are on its node."""
    made.spec = spec_of(made.namespace, mode, gpu="nvidia.com/mig-1g.10gb", replicas=2)
    assert isinstance(made.first().action, Done)
    wait_until(lambda: len(serving_pods(made)) == 2, "two replicas", 60)
    assert {pod["spec"].get("nodeName") for pod in serving_pods(made)} <= {GPU_NODE, None}


def manifest_of(made: Rollouts, mode: str, operator: Any, classes: str = CLASSES) -> Object:
    """The pod that Airflow's operator sends, as it is."""
    made.cluster.add_service_account(made.namespace, "slipway")
    release_run = ReleaseRun(
        release_id="digits-2",
        model="digits",
        version=2,
        bucket="models",
        spec=spec_of(made.namespace, mode, classes=classes),
        stable=None,
    )
    given = {"manifest_sha256": "0" * 64} if operator is RunSmokeTestOperator else {}
    task = operator(task_id="pod", release=release_run.model_dump_json(), **given)
    # Training left no config.pbtxt beside the model.
    vars(task.store)["read"] = lambda key, **limits: None
    runs = task.execution_of(task.describe(release_run), release_run).operator
    runs.__dict__["hook"] = SimpleNamespace(is_in_cluster=False, get_namespace=lambda: made.namespace)
    manifest: Object = ApiClient().sanitize_for_serialization(runs.build_pod_request_obj())
    return manifest


@pytest.mark.parametrize("mode", ["Knative"])
@pytest.mark.parametrize("operator", [ConvertModelOperator, RunSmokeTestOperator])
def test_the_pods_of_a_release_are_put_where_their_devices_are(
    made: Rollouts, mode: str, operator: Any
) -> None:
    """What builds the engine and what tries it."""
    api = made.cluster.api
    pods = f"/api/v1/namespaces/{made.namespace}/pods"
    name = api.must("POST", pods, manifest_of(made, mode, operator))["metadata"]["name"]

    def node() -> str:
        return str((api.get(f"{pods}/{name}") or {}).get("spec", {}).get("nodeName", ""))

    wait_until(lambda: bool(node()), "the scheduler binds the pod", 60)
    assert node() == GPU_NODE


@pytest.mark.parametrize("mode", ["Knative"])
@pytest.mark.parametrize(
    ("classes", "words"),
    [
        ("priority_class: urgent,", "no PriorityClass with name urgent was found"),
        ("runtime_class: gvisor,", 'RuntimeClass "gvisor" not found'),
    ],
    ids=["priority class", "runtime class"],
)
def test_a_class_that_the_cluster_does_not_have_is_refused_with_its_name(
    made: Rollouts, mode: str, classes: str, words: str
) -> None:
    """The API forbids the pod of the release, so the step fails with what must be made."""
    manifest = manifest_of(made, mode, ConvertModelOperator, classes)
    answer = made.cluster.api.ask("POST", f"/api/v1/namespaces/{made.namespace}/pods", manifest)
    assert (answer.code, answer.body["reason"]) == (403, "Forbidden")
    assert words in answer.body["message"]


@pytest.mark.parametrize("mode", ["Knative"])
def test_a_pod_without_a_device_goes_to_the_node_without_a_taint(made: Rollouts, mode: str) -> None:
    """A model on CPUs bears no taint."""
    made.spec = parse_release_spec(
        f"model: digits\nsource: {{format: onnx}}\nrollout: {{namespace: {made.namespace}}}\n", "a file"
    )
    assert isinstance(made.first().action, Done)
    assert {pod["spec"]["nodeName"] for pod in serving_pods(made)} == {PLAIN_NODE}


@MODES
def test_a_model_that_is_asked_by_grpc_is_admitted_with_one_port_for_it(made: Rollouts, mode: str) -> None:
    """KServe and Knative know by the port's name that HTTP/2 is spoken there."""
    text = "model: digits\nsource: {format: onnx}\nrollout: {namespace: %s, deployment_mode: %s, protocol: grpc}\n"
    made.spec = parse_release_spec(text % (made.namespace, mode), "a file")
    assert isinstance(made.first().action, Done)
    assert served_protocol(made.observed().predictor) == "grpc"
    if mode == "Knative":
        (service,) = made.objects("/apis/serving.knative.dev/v1/services")
        (container,) = service["spec"]["template"]["spec"]["containers"]
        assert [(port["name"], port["containerPort"]) for port in container["ports"]] == [("h2c", 9000)]
    else:
        services = {one["metadata"]["name"]: one for one in made.objects("/api/v1/services")}
        (port,) = services[f"{NAME}-predictor"]["spec"]["ports"]
        assert (port["targetPort"], port["appProtocol"]) == (9000, "kubernetes.io/h2c")
