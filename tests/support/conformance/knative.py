"""Knative Serving's controller and autoscaler as they are. This lane's cluster has no activator and no queue proxy."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from tests.support.conformance.api import Api, Object, documents
from tests.support.conformance.build import Built
from tests.support.conformance.control_plane import ADMIN, ControlPlane
from tests.support.conformance.custom_resources import install_custom_resources
from tests.support.conformance.network_namespace import can_be_made
from tests.support.conformance.processes import NotReadyError, Processes

NAMESPACE = "knative-serving"
DOMAIN = "conformance.example.org"
# Ours alone: no ingress controller takes such a KIngress but the one by hand.
INGRESS_CLASS = "by-hand.conformance.slipway.dev"
_SERVING, _NETWORKING, _CACHING = (f"knative.dev/{name}" for name in ("serving", "networking", "caching"))
_MODULE = "tests.support.conformance.network_namespace"
# Not of loopback, which the autoscaler refuses, and nobody asks it.
_POD_IP = "10.244.201.1"


def install_knative(built: Built, api: Api, settings: Mapping[str, Mapping[str, str]]) -> None:
    """Make known what the controllers want to find when they start.

    :param settings: what differs from Knative's own, by ConfigMap.
    """
    serving, networking, caching = (built.manifests[name] for name in (_SERVING, _NETWORKING, _CACHING))
    install_custom_resources(
        api,
        *sorted((serving / "config/core/300-resources").glob("*.yaml")),
        *sorted((networking / "config").glob("*.yaml")),
        caching / "config/image.yaml",
    )
    api.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
    configs = sorted((serving / "config/core/configmaps").glob("*.yaml"))
    for one in documents(*configs, networking / "config/config-network.yaml"):
        one["metadata"]["namespace"] = NAMESPACE
        # A checksum of the example in it, which a webhook would compare.
        one["metadata"].pop("annotations", None)
        one.setdefault("data", {}).update(settings.get(one["metadata"]["name"], {}))
        api.apply(one, strict=False)


def knative_settings(queue_image: str, ingress_class: str) -> dict[str, dict[str, str]]:
    """Return what every cluster of the lanes sets: images without a registry, and who applies the ingress."""
    return {
        "config-deployment": {
            "queue-sidecar-image": queue_image,
            # Else every revision waits for a registry to name its image's digest.
            "registries-skipping-tag-resolving": "nvcr.io,index.docker.io,localhost",
        },
        "config-network": {"ingress-class": ingress_class},
        "config-domain": {DOMAIN: ""},
        # KServe reads it, and wants the key.
        "config-autoscaler": {"allow-zero-initial-scale": "true"},
    }


def pretend_activator(api: Api) -> None:
    """Make the activator's Service with an address that nobody asks: revisions want it to have endpoints."""
    for one in _activator():
        api.apply(one)


def _activator() -> list[Object]:
    ports = {"http": (80, 8012), "http2": (81, 8013), "https": (443, 8112)}
    metadata = {"name": "activator-service", "namespace": NAMESPACE}
    return [
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": metadata,
            "spec": {
                "ports": [
                    {"name": name, "port": port, "targetPort": target}
                    for name, (port, target) in ports.items()
                ]
            },
        },
        {
            "apiVersion": "v1",
            "kind": "Endpoints",
            "metadata": metadata,
            "subsets": [
                {
                    "addresses": [{"ip": "10.244.200.1"}],
                    "ports": [{"name": name, "port": target} for name, (_, target) in ports.items()],
                }
            ],
        },
    ]


def start_knative(built: Built, plane: ControlPlane, processes: Processes, sockets: Path) -> None:
    """Start both programs.

    Both listen on port 8080 of every address, and no setting changes it: each gets a network namespace of its own, into
    which only the API's port is brought.

    :param sockets: a folder whose path is short.
    :raises NotReadyError: this machine makes no network namespaces.
    """
    if (problem := can_be_made()) is not None:
        raise NotReadyError(f"Knative's controllers need a network namespace each: {problem}")
    port = plane.url.rpartition(":")[2]
    socket = sockets / "api"
    processes.start(
        "api-forward", sys.executable, "-m", _MODULE, "outside", socket, port, ready=socket.exists
    )
    for name in ("controller", "autoscaler"):
        environment = {
            "KUBECONFIG": str(plane.kubeconfig(ADMIN)),
            "SYSTEM_NAMESPACE": NAMESPACE,
            "CONFIG_LOGGING_NAME": "config-logging",
            "CONFIG_OBSERVABILITY_NAME": "config-observability",
            "CONFIG_LEADER_ELECTION_NAME": "config-leader-election",
            "METRICS_DOMAIN": "knative.dev/internal/serving",
            "POD_NAME": name,
            "POD_IP": _POD_IP,
        }
        program = built.programs[f"knative-{name}"]
        processes.start(
            f"knative-{name}",
            *("unshare", "--map-root-user", "--net"),
            *(sys.executable, "-m", _MODULE, "inside", socket, port),
            *(program, "-kubeconfig", environment["KUBECONFIG"]),
            environment=environment,
            ready=_leads(plane.api(), name),
        )


def _leads(api: Api, program: str) -> Callable[[], bool]:
    """Return a condition: the program has taken a lease under which it works."""
    path = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases"

    def leads() -> bool:
        return any(one["metadata"]["name"].startswith(program) for one in api.items(path))

    return leads
