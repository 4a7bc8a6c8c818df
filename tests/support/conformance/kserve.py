"""KServe's manager as it is: its custom resources, ConfigMap, runtime and webhooks from its own module."""

from __future__ import annotations

import base64
import json
import shutil
import socket
from pathlib import Path

import requests

from slipway_sandbox.host.ports import LOOPBACK, free_port
from tests.support.conformance.api import Api, documents
from tests.support.conformance.build import Built
from tests.support.conformance.control_plane import ADMIN, ControlPlane
from tests.support.conformance.custom_resources import install_custom_resources
from tests.support.conformance.processes import Processes

NAMESPACE = "kserve"
DOMAIN = "conformance.example.org"
GATEWAY_API = "sigs.k8s.io/gateway-api"
_KSERVE, _ISTIO = "github.com/kserve/kserve", "istio.io/api"
# Any will do: nobody pulls them.
_STORAGE_INITIALIZER, _TRITON = "kserve/storage-initializer:none", "nvcr.io/nvidia/tritonserver:none"


def install_kserve(built: Built, api: Api) -> None:
    """Make known what the manager wants to find when it starts: it looks for HTTPRoutes once."""
    kserve, gateway_api = (built.manifests[name] for name in (_KSERVE, GATEWAY_API))
    install_custom_resources(
        api,
        *sorted((kserve / "config/crd").rglob("*.yaml")),
        *sorted(gateway_api.rglob("*.yaml")),
        # Not KServe's: for the project's own VirtualService.
        *sorted(built.manifests[_ISTIO].rglob("*.yaml")),
    )
    labels = {"control-plane": "kserve-controller-manager"}
    api.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE, "labels": labels}})
    for config in documents(kserve / "config/configmap/inferenceservice.yaml"):
        config["metadata"]["namespace"] = NAMESPACE
        config["data"]["deploy"] = json.dumps({"defaultDeploymentMode": "Standard"})
        ingress = json.loads(config["data"]["ingress"])
        ingress |= {"enableGatewayApi": True, "ingressDomain": DOMAIN, "disableIstioVirtualHost": True}
        config["data"]["ingress"] = json.dumps(ingress)
        api.apply(config, strict=False)
    for storage in documents(kserve / "config/storagecontainers/default.yaml"):
        storage["spec"]["container"]["image"] = _STORAGE_INITIALIZER
        api.apply(storage, strict=False)
    for runtime in documents(kserve / "config/runtimes/kserve-tritonserver.yaml"):
        runtime["spec"]["containers"][0]["image"] = _TRITON
        api.apply(runtime, strict=False)


def start_kserve(built: Built, plane: ControlPlane, processes: Processes) -> None:
    """Start the manager, then have the API ask its webhooks, as an installation by manifests does."""
    webhook_port, probe_port = free_port(), free_port()
    # controller-runtime reads its certificate below the folder of temporary files.
    temporary = plane.folder / "kserve-manager"
    served = temporary / "k8s-webhook-server" / "serving-certs"
    served.mkdir(parents=True)
    shutil.copy(plane.certificates.certificate, served / "tls.crt")
    shutil.copy(plane.certificates.key, served / "tls.key")
    processes.start(
        "kserve-manager",
        built.programs["kserve-manager"],
        f"--metrics-addr={LOOPBACK}:{free_port()}",
        f"--webhook-port={webhook_port}",
        f"--health-probe-addr={LOOPBACK}:{probe_port}",
        environment={
            "KUBECONFIG": str(plane.kubeconfig(ADMIN)),
            "POD_NAMESPACE": NAMESPACE,
            "TMPDIR": str(temporary),
        },
        ready=lambda: (
            requests.get(f"http://{LOOPBACK}:{probe_port}/readyz", timeout=2).ok and _listens(webhook_port)
        ),
    )
    _register_webhooks(built.manifests[_KSERVE], plane, webhook_port)


def _listens(port: int) -> bool:
    socket.create_connection((LOOPBACK, port), timeout=1).close()
    return True


def _register_webhooks(kserve: Path, plane: ControlPlane, port: int) -> None:
    authority = base64.b64encode(plane.certificates.authority.read_bytes()).decode()
    for one in documents(kserve / "config/webhook/manifests.yaml"):
        if not one["kind"].endswith("WebhookConfiguration"):
            continue
        for webhook in one["webhooks"]:
            path = webhook["clientConfig"].pop("service")["path"]
            webhook["clientConfig"] |= {"url": f"https://{LOOPBACK}:{port}{path}", "caBundle": authority}
        plane.api().apply(one, strict=False)
