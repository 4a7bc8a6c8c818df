"""Releases of a model by the real DAG, scheduler included, onto the real control plane, while users ask."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from slipway_sandbox.demo.counts import Traffic
from slipway_sandbox.host.settings import SandboxSettings, object_store_environment
from slipway_sandbox.kserve.revisions import download_repository
from slipway_sandbox.services.router import Router
from tests.support.conformance.api import Object
from tests.support.conformance.data_plane import EnvoyIngress, triton_pods
from tests.support.conformance.real_cluster import RealCluster
from tests.support.conformance.release.airflow import MODEL, NAMESPACE, node_settings, running_airflow
from tests.support.conformance.release.pod_node import PodNode, is_of_a_release
from tests.support.conformance.rights import AIRFLOW, documented_rules, grant
from tests.support.conformance.rollouts import Rollouts, rollouts
from tests.support.e2e.running_sandbox import Ended, RunningSandbox

# Where an Airflow whose connection names no namespace has its pods.
PODS_NAMESPACE = "default"
_RESTRICTED = "pod-security.kubernetes.io/enforce"
_RATE_RPS = 20.0
# A machine on which all of this runs at once.
_RELEASE_LIMIT_S = 600.0
_ROLLOUT: Mapping[str, Any] = {
    "steps": [{"weight": 20, "bake_s": 8}, {"weight": 99, "bake_s": 4}],
    "window_s": 2,
    "max_bake_s": 120,
    "ready_timeout_s": 300,
    "lease_s": 120,
}
FIRST, GOOD, BAD = 1, 2, 3


@dataclass(frozen=True)
class ReleaseStory:
    """A first version, a good one after its canary, and one that is bad for some live inputs.

    :param phases: of each pod that a release has made, by its name.
    """

    first: Ended
    good: Ended
    bad: Ended
    traffic_after_good: Traffic
    traffic: Traffic
    service: Object
    phases: Mapping[str, list[str]]


class _Versions:
    """The published versions, downloaded as a storage initializer does."""

    def __init__(self, settings: SandboxSettings) -> None:
        self._prefix = f"s3://{settings.bucket}/models/"
        self._folder = settings.run_dir / "versions"
        self._environment = object_store_environment(settings)

    def repository(self, storage_uri: str) -> Path | None:
        """Return a version's Triton repository; None: it is not one of this Airflow's."""
        if not storage_uri.startswith(self._prefix):
            return None
        folder = self._folder / hashlib.sha256(storage_uri.encode()).hexdigest()[:12] / "repository"
        if not folder.exists():
            folder.parent.mkdir(parents=True, exist_ok=True)
            download_repository(storage_uri, folder, self._environment)
        return folder


@contextmanager
def _restricted_pods(cluster: RealCluster) -> Iterator[None]:
    """Have the API hold pods to the restricted Pod Security Standard while the block runs."""
    path = f"/api/v1/namespaces/{PODS_NAMESPACE}"
    cluster.api.merge(path, {"metadata": {"labels": {_RESTRICTED: "restricted"}}})
    try:
        yield
    finally:
        cluster.api.merge(path, {"metadata": {"labels": {_RESTRICTED: None}}})


@contextmanager
def _cluster_for_releases(
    cluster: RealCluster, logs: Path
) -> Iterator[tuple[SandboxSettings, PodNode, Rollouts]]:
    """Have an Airflow, a node for its pods, Tritons and an Envoy beside the control plane."""
    with ExitStack() as stack:
        rolled_out = stack.enter_context(rollouts(cluster, "Knative", NAMESPACE))
        stack.enter_context(_restricted_pods(cluster))
        cluster.add_service_account(PODS_NAMESPACE, rolled_out.spec.conversion.service_account)
        grant(cluster, PODS_NAMESPACE, AIRFLOW, documented_rules("that of the pods"), of=NAMESPACE)
        settings = stack.enter_context(running_airflow(rolled_out.kubeconfig, logs, {"rollout": _ROLLOUT}))
        node = stack.enter_context(PodNode(cluster.api, node_settings(settings), cluster.plane.certificates))
        cluster.kubelet.elsewhere = is_of_a_release
        stack.callback(setattr, cluster.kubelet, "elsewhere", lambda pod: False)
        versions = _Versions(settings)
        tritons = stack.enter_context(triton_pods(versions.repository, logs, cluster.kubelet.runtimes))
        router = Router(settings.router_dir, settings.router_admin_url)
        ingress = EnvoyIngress(tritons, router, settings.service_host(MODEL, NAMESPACE))
        stack.callback(ingress.close)
        behaviour = cluster.gateway.of(NAMESPACE)
        behaviour.lead = ingress.lead
        stack.callback(setattr, behaviour, "lead", None)
        yield settings, node, rolled_out


def play(cluster: RealCluster) -> ReleaseStory:
    """Release three versions while users ask over both protocols without a pause."""
    logs = cluster.plane.folder / "logs" / "release"
    with _cluster_for_releases(cluster, logs) as (settings, node, rolled_out):
        sandbox = RunningSandbox(settings)
        with sandbox.traffic(MODEL, _RATE_RPS) as clients:

            def release(version: int) -> Ended:
                sandbox.land(MODEL, version)
                return sandbox.ended(MODEL, version, sandbox.start(MODEL, version), _RELEASE_LIMIT_S)

            first = release(FIRST)
            assert first.state.outcome == "promoted", first.state.reason
            sandbox.await_answers(clients)
            good = release(GOOD)
            assert good.state.outcome == "promoted", good.state.reason
            sandbox.await_answers(clients)
            after_good = clients.traffic()
            bad = release(BAD)
            sandbox.await_answers(clients, 4)
            return ReleaseStory(
                first=first,
                good=good,
                bad=bad,
                traffic_after_good=after_good,
                traffic=clients.traffic(),
                service=dict(rolled_out.service()),
                phases=dict(node.phases),
            )
