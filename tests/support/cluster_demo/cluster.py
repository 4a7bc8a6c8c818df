"""A real cluster of one node on which models are served: control plane, node, Knative, Kourier with Envoy, KServe.

The programs of Knative and Kourier are pods of the node, by the Deployments, accounts and rights of their own modules.
There is no kube-proxy and no DNS: the activator finds the autoscaler, and Envoy finds Kourier, by an address that is
written for it. KServe's manager is a process of this machine, since the API finds its webhooks on loopback only.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from slipway_sandbox.host.progress import Steps
from tests.support.cluster_demo.images import KNATIVE_IMAGE, give_images, machine_folders
from tests.support.conformance.api import Api, Object, documents
from tests.support.conformance.build import (
    ETCD,
    KNATIVE,
    KNATIVE_DATA,
    KOURIER,
    KSERVE,
    KUBE,
    NODE,
    build,
    built,
)
from tests.support.conformance.knative import NAMESPACE as KNATIVE_NAMESPACE
from tests.support.conformance.knative import install_knative, knative_settings
from tests.support.conformance.kserve import install_kserve, start_kserve
from tests.support.conformance.manifests import FOLDER as OWN_MANIFESTS
from tests.support.conformance.real_cluster import Cluster
from tests.support.containers.node.node_cluster import NodeCluster, node_cluster, require_root
from tests.support.containers.node.runtime_programs import RuntimePrograms, built_programs, installed_programs
from tests.support.waiting import wait_until

KOURIER_NAMESPACE = "kourier-system"
INGRESS_CLASS = "kourier.ingress.networking.knative.dev"
GATEWAY_PORT, GATEWAY_APP = 8080, "3scale-kourier-gateway"
BUCKET = "slipway"
MODULES = (ETCD, KUBE, NODE, KNATIVE, KNATIVE_DATA, KOURIER, KSERVE)
_AUTOSCALER = "autoscaler.knative-serving.svc.cluster.local"
_XDS = "net-kourier-controller"
_LIMIT_S = 240.0
# What a Deployment is served by, as its image says.
_KO = "ko://"
# What only more nodes than one need.
_LEFT_OUT = ("HorizontalPodAutoscaler", "PodDisruptionBudget")


@dataclass(frozen=True)
class ServingCluster:
    """A running cluster that serves models.

    :param programs: what runs its containers.
    """

    node: NodeCluster
    programs: RuntimePrograms

    @property
    def api(self) -> Api:
        """The API for who may do everything."""
        return self.node.api

    @property
    def administered(self) -> Cluster:
        """The cluster as the helpers of the other lanes take it."""
        return Cluster(self.node.plane, self.node.worker.processes)

    def gateway(self) -> str:
        """Return the address of the pod in which the gateway's Envoy runs, once it is ready."""
        return ready_address(self.api, KOURIER_NAMESPACE, GATEWAY_APP)


def served_by() -> str:
    """Return the versions of what serves models."""
    named = (("KServe", KSERVE), ("Knative Serving", KNATIVE), ("Kourier", KOURIER))
    return ", ".join(f"{name} {build(module).versions[module.main]}" for name, module in named)


def build_all(folder: Path, steps: Steps) -> RuntimePrograms:
    """Build what is missing, and return what runs containers.

    :raises BuildError: Go is missing or too old, or a build failed.
    :raises NoEngineError: this machine makes no nodes.
    """
    require_root()
    folder.mkdir(parents=True, exist_ok=True)
    missing = [module.name for module in MODULES if built(module) is None]
    if missing:
        steps.say(f"Building {', '.join(missing)} from Go modules: half an hour at the first time.")
    for module in MODULES:
        build(module, steps.say)
    return installed_programs() or built_programs(folder)


@contextmanager
def serving_cluster(folder: Path, programs: RuntimePrograms, steps: Steps) -> Iterator[ServingCluster]:
    """Start it, and end everything with the context.

    :param folder: gets all that it keeps.
    """
    static = {
        name: path
        for module in (KNATIVE, KNATIVE_DATA, KOURIER)
        for name, path in build(module).programs.items()
    }
    images = partial(give_images, static=static, first=programs.first)
    with ExitStack() as stack:
        with steps.step("A node is ready: control plane, scheduler, containerd, kubelet"):
            node = stack.enter_context(node_cluster(folder, images, programs, machine_folders()))
        with steps.step("Knative Serving is ready: controller, autoscaler, activator"):
            _start_knative(node)
        with steps.step("The gateway is ready: Kourier with Envoy"):
            _start_kourier(node)
        with steps.step("KServe is ready"):
            _start_kserve(node)
        yield ServingCluster(node, programs)


def _start_knative(node: NodeCluster) -> None:
    settings = knative_settings(KNATIVE_IMAGE.format(name="knative-queue"), INGRESS_CLASS)
    # The judge counts what the queue proxies count.
    settings["config-observability"] = {"request-metrics-protocol": "prometheus"}
    install_knative(build(KNATIVE), node.api, settings)
    core = build(KNATIVE_DATA).manifests["knative.dev/serving"] / "config/core"
    _apply(node.api, core / "200-serviceaccount.yaml", *sorted((core / "200-roles").glob("*.yaml")))
    parts = core / "deployments"
    _apply(node.api, parts / "autoscaler.yaml", parts / "controller.yaml")
    scaler = ready_address(node.api, KNATIVE_NAMESPACE, "autoscaler")
    aliases = [{"ip": scaler, "hostnames": [_AUTOSCALER]}]
    _apply(node.api, parts / "activator.yaml", aliases=aliases)
    for app in ("controller", "activator"):
        ready_address(node.api, KNATIVE_NAMESPACE, app)


def _start_kourier(node: NodeCluster) -> None:
    config = build(KOURIER).manifests["knative.dev/net-kourier"] / "config"
    first = ("100-namespace", "200-serviceaccount", "200-config", "300-controller")
    _apply(node.api, *(config / f"{name}.yaml" for name in first))
    address = ready_address(node.api, KNATIVE_NAMESPACE, _XDS)
    (bootstrap,) = (one for one in documents(config / "200-bootstrap.yaml") if one["kind"] == "ConfigMap")
    text = bootstrap["data"]["envoy-bootstrap.yaml"]
    text = text.replace(f'"{_XDS}.{KNATIVE_NAMESPACE}"', address).replace("STRICT_DNS", "STATIC")
    node.api.apply(bootstrap | {"data": {"envoy-bootstrap.yaml": text}})
    _apply(node.api, config / "300-gateway.yaml")
    ready_address(node.api, KOURIER_NAMESPACE, GATEWAY_APP)


def _start_kserve(node: NodeCluster) -> None:
    kserve = build(KSERVE)
    install_kserve(kserve, node.api)
    _use_the_verifying_initializer(node.api)
    start_kserve(kserve, node.plane, node.worker.processes)


def _use_the_verifying_initializer(api: Api) -> None:
    """Have KServe download published versions as include/manifests/verify/README.md says; nothing signs them here."""
    path = "/apis/serving.kserve.io/v1alpha1/clusterstoragecontainers/default"
    formats = api.must("GET", path)["spec"]["supportedUriFormats"]
    others = [one for one in formats if one.get("prefix") != "s3://"]
    api.merge(path, {"spec": {"supportedUriFormats": others}})
    (verify,) = documents(OWN_MANIFESTS / "verify" / "cluster-storage-container.yaml")
    text = json.dumps(verify).replace("BUCKET", BUCKET)
    verify = json.loads(text)
    environment = verify["spec"]["container"]["env"]
    verify["spec"]["container"]["env"] = [one for one in environment if "valueFrom" not in one]
    api.apply(verify)


def _apply(api: Api, *files: Path, aliases: list[Object] | None = None) -> None:
    """Apply a module's own manifests, with the images that the node has.

    :param aliases: names that the pods of their Deployments know.
    """
    for one in documents(*files):
        if one["kind"] in _LEFT_OUT:
            continue
        if one["kind"] == "Deployment":
            adapt(one, aliases)
        if one["kind"] == "ConfigMap":
            # A checksum of the example in it, which a webhook would compare.
            one["metadata"].pop("annotations", None)
        api.apply(one, strict=False)


def adapt(deployment: Object, aliases: list[Object] | None = None) -> None:
    """Change a module's own Deployment to what one small node has.

    :param aliases: names that its pods know.
    """
    pod = deployment["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    if container["image"].startswith(_KO):
        name = container["image"].rpartition("/")[2]
        known = name if name == "kourier" else f"knative-{name}"
        container["image"] = KNATIVE_IMAGE.format(name=known)
    # One small node is shared by all; by their own requests it would be full.
    container["resources"].pop("requests", None)
    container["resources"] = {**container.get("resources", {}), "requests": {"cpu": "10m", "memory": "32Mi"}}
    for probe in ("readinessProbe", "livenessProbe"):
        if probe in container:
            container[probe].pop("initialDelaySeconds", None)
    if "readinessProbe" in container:
        container["readinessProbe"]["periodSeconds"] = 1
    if aliases:
        pod["hostAliases"] = aliases


def ready_address(api: Api, namespace: str, app: str) -> str:
    """Return the address of the one ready pod of an app; wait for it."""
    path = f"/api/v1/namespaces/{namespace}/pods?labelSelector=app%3D{app}"
    seen: list[Object] = []

    def address() -> str:
        seen[:] = api.items(path)
        for pod in seen:
            conditions = pod["status"].get("conditions", [])
            is_ready = any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)
            if is_ready and "deletionTimestamp" not in pod["metadata"]:
                return str(pod["status"]["podIP"])
        return ""

    try:
        return wait_until(address, f"{app} is ready", _LIMIT_S, poll_s=0.3)
    except AssertionError as error:
        states = [pod["status"].get("containerStatuses", pod["status"]) for pod in seen]
        raise TimeoutError(f"{error}: {json.dumps(states)[:2000]}") from error
