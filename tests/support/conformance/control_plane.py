"""etcd, kube-apiserver and kube-controller-manager, as they are, on loopback: no node and no container runtime."""

from __future__ import annotations

import base64
import json
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import requests

from slipway_sandbox.host.ports import LOOPBACK, free_port
from tests.support.conformance.api import Api
from tests.support.conformance.build import Built
from tests.support.conformance.certificates import Certificates, make_certificates
from tests.support.conformance.processes import Processes

# Who may do everything, and who is known but may do nothing.
ADMIN, NOBODY = "admin", "nobody"
_GROUPS = {ADMIN: "system:masters", NOBODY: "slipway:nobody"}
# What makes pods of Deployments, endpoints of Services, and replicas of an InferenceService's minReplicas: KServe
# writes those into a HorizontalPodAutoscaler, never into the Deployment.
_CONTROLLERS = (
    "deployment-controller",
    "replicaset-controller",
    "endpoints-controller",
    "endpointslice-controller",
    "horizontal-pod-autoscaler-controller",
    "garbage-collector-controller",
    "namespace-controller",
    "serviceaccount-controller",
    "root-ca-certificate-publisher-controller",
)
# What only a cluster with nodes needs; the last three give nodes their taints, and pods their end where a node is gone.
_NODE_CONTROLLERS = (
    # What runs pods to an end, once and by the clock.
    "job-controller",
    "cronjob-controller",
    # Knative writes Endpoints, and Kourier reads slices.
    "endpointslice-mirroring-controller",
    # What joins the rules of ClusterRoles, as Knative's has them.
    "clusterrole-aggregation-controller",
    "node-lifecycle-controller",
    "taint-eviction-controller",
    "pod-garbage-collector-controller",
)
# 15 s by default: each step of a test would wait for it.
_AUTOSCALER_PERIOD_S = 2


@dataclass(frozen=True)
class ControlPlane:
    """A running API: its address, who may ask it, and the certificates that its neighbours need."""

    url: str
    folder: Path
    certificates: Certificates
    tokens: dict[str, str]

    def api(self, user: str = ADMIN) -> Api:
        """Return the API for one of its users."""
        return Api(self.url, self.tokens[user], self.certificates.authority)

    def add_service_account(self, namespace: str, name: str) -> None:
        """Make a service account that may do nothing yet."""
        self.api().apply(
            {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name, "namespace": namespace}}
        )

    def token_of(self, namespace: str, service_account: str) -> str:
        """Return a new token of a service account, as a pod gets one."""
        path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{service_account}/token"
        token: str = self.api().must("POST", path, {"spec": {"expirationSeconds": 3600}})["status"]["token"]
        return token

    def kubeconfig(self, user: str, token: str | None = None) -> Path:
        """Return a kubeconfig of a user, with another token than the user's where one is given."""
        path = self.folder / f"{user}.kubeconfig"
        authority = base64.b64encode(self.certificates.authority.read_bytes()).decode()
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "conformance",
            "clusters": [
                {
                    "name": "conformance",
                    "cluster": {"server": self.url, "certificate-authority-data": authority},
                }
            ],
            "users": [{"name": user, "user": {"token": token or self.tokens[user]}}],
            "contexts": [{"name": "conformance", "context": {"cluster": "conformance", "user": user}}],
        }
        path.write_text(json.dumps(config), encoding="utf-8")
        path.chmod(0o600)
        return path


def start_control_plane(
    programs: dict[str, Path],
    processes: Processes,
    folder: Path,
    *,
    has_kubelets: bool = False,
    addresses: Sequence[str] = (),
) -> ControlPlane:
    """Start the three programs over an empty etcd, and wait until the API serves.

    :param programs: their files, by name.
    :param folder: gets everything that they keep.
    :param has_kubelets: nodes are real: the API asks their kubelets for logs, and what becomes of nodes is seen to.
    :param addresses: at which pods reach the API.
    """
    plane = ControlPlane(
        f"https://{LOOPBACK}:{free_port()}",
        folder,
        make_certificates(folder / "certificates", addresses),
        {name: secrets.token_hex(16) for name in _GROUPS},
    )
    etcd_url = _start_etcd(programs["etcd"], processes, folder)
    _start_api_server(
        programs["kube-apiserver"], processes, plane, etcd_url, _to_kubelets(plane) if has_kubelets else ()
    )
    controllers = (*_CONTROLLERS, *(_NODE_CONTROLLERS if has_kubelets else ()))
    _start_controllers(programs["kube-controller-manager"], processes, plane, controllers)
    return plane


def programs_of(*built: Built) -> dict[str, Path]:
    """Return the programs of several wrapper modules by their names."""
    return {name: path for one in built for name, path in one.programs.items()}


def _start_etcd(program: Path, processes: Processes, folder: Path) -> str:
    client, peer = (f"http://{LOOPBACK}:{free_port()}" for _ in range(2))
    processes.start(
        "etcd",
        program,
        f"--data-dir={folder / 'etcd'}",
        f"--listen-client-urls={client}",
        f"--advertise-client-urls={client}",
        f"--listen-peer-urls={peer}",
        f"--initial-advertise-peer-urls={peer}",
        f"--initial-cluster=default={peer}",
        # Nothing here outlives the run.
        "--unsafe-no-fsync",
        "--log-level=warn",
        ready=lambda: requests.get(f"{client}/health", timeout=2).json()["health"] == "true",
    )
    return client


def _to_kubelets(plane: ControlPlane) -> tuple[str, ...]:
    """Return how the API server finds kubelets, and who it is to them."""
    return (
        "--kubelet-preferred-address-types=InternalIP",
        f"--kubelet-client-certificate={plane.certificates.certificate}",
        f"--kubelet-client-key={plane.certificates.key}",
    )


def _start_api_server(
    program: Path, processes: Processes, plane: ControlPlane, etcd_url: str, flags: Sequence[str]
) -> None:
    tokens = plane.folder / "tokens.csv"
    tokens.write_text(
        "".join(f'{token},{user},{user},"{_GROUPS[user]}"\n' for user, token in plane.tokens.items()),
        encoding="utf-8",
    )
    tokens.chmod(0o600)
    files = plane.certificates
    api = plane.api()
    processes.start(
        "kube-apiserver",
        program,
        f"--etcd-servers={etcd_url}",
        f"--secure-port={plane.url.rpartition(':')[2]}",
        f"--bind-address={LOOPBACK}",
        f"--advertise-address={LOOPBACK}",
        # It would refuse to announce an address of loopback.
        "--endpoint-reconciler-type=none",
        f"--tls-cert-file={files.certificate}",
        f"--tls-private-key-file={files.key}",
        f"--token-auth-file={tokens}",
        f"--service-account-key-file={files.token_key}",
        f"--service-account-signing-key-file={files.token_key}",
        f"--service-account-issuer={plane.url}",
        "--service-cluster-ip-range=10.96.0.0/16",
        "--authorization-mode=RBAC",
        "--enable-priority-and-fairness=false",
        "--v=1",
        *flags,
        ready=lambda: api.ask("GET", "/readyz").code == requests.codes.ok,
    )


def _start_controllers(
    program: Path, processes: Processes, plane: ControlPlane, controllers: Sequence[str]
) -> None:
    port, files, api = free_port(), plane.certificates, plane.api()
    processes.start(
        "kube-controller-manager",
        program,
        f"--kubeconfig={plane.kubeconfig(ADMIN)}",
        "--leader-elect=false",
        f"--secure-port={port}",
        f"--bind-address={LOOPBACK}",
        f"--tls-cert-file={files.certificate}",
        f"--tls-private-key-file={files.key}",
        f"--service-account-private-key-file={files.token_key}",
        f"--root-ca-file={files.authority}",
        f"--horizontal-pod-autoscaler-sync-period={_AUTOSCALER_PERIOD_S}s",
        f"--controllers={','.join(controllers)}",
        "--v=1",
        ready=lambda: api.get("/api/v1/namespaces/default/serviceaccounts/default") is not None,
    )
