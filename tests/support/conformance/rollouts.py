"""Rollouts of one InferenceService on the real cluster, by our own driver, with the rights of docs/cluster.md."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from slipway.hooks.inference_service import KServeHook
from slipway.traffic.reconciler import observe_service, reconcile
from slipway_core.rollout.inference_service import inference_service_manifest
from slipway_core.rollout.next_action import FirstDeploy, Goal, Observed, Wait
from slipway_core.rollout.reconciler import Reconciliation
from slipway_core.spec.release_file import ReleaseSpec, parse_release_spec
from tests.support.conformance.api import Object
from tests.support.conformance.real_cluster import Cluster, RealCluster
from tests.support.conformance.rights import AIRFLOW, documented_rules, grant
from tests.support.waiting import wait_until

NAME = "digits"
LIMIT_S = 60.0
_RELEASE_FILE = """
model: digits
source: {format: onnx}
rollout: {namespace: %s, deployment_mode: %s}
"""


def uri(version: int) -> str:
    """Return the storageUri of a version."""
    return f"s3://models/{NAME}/{version}/repository"


@dataclass
class Progress:
    """What the driver said of one goal, and when, on the monotonic clock."""

    reasons: list[str] = field(default_factory=list)
    users_safe_s: float | None = None


class ServiceRollouts:
    """The InferenceService `digits` in a namespace of its own, on a cluster with nodes or without.

    :param mode: KServe's deployment mode.
    :param namespace: its name; "": any.
    """

    def __init__(self, cluster: Cluster, mode: str, namespace: str = "") -> None:
        self.cluster = cluster
        self.namespace = cluster.new_namespace(name=namespace)
        self.spec: ReleaseSpec = parse_release_spec(
            _RELEASE_FILE % (self.namespace, mode), "the lane's release"
        )
        cluster.add_service_account(self.namespace, self.spec.rollout.service_account)
        cluster.add_service_account(self.namespace, AIRFLOW)
        grant(cluster, self.namespace, AIRFLOW, documented_rules("rollout.namespace"))
        grant(cluster, "kserve", AIRFLOW, documented_rules("kserve"), of=self.namespace)
        token = cluster.token_of(self.namespace, AIRFLOW)
        self.kubeconfig = cluster.plane.kubeconfig(f"airflow-{self.namespace}", token)
        connection_id = f"conformance_{self.namespace.replace('-', '_')}"
        extra = {"kube_config_path": str(self.kubeconfig)}
        self.connection_variable = f"AIRFLOW_CONN_{connection_id.upper()}"
        self.connection = json.dumps({"conn_type": "kubernetes", "extra": extra})
        os.environ[self.connection_variable] = self.connection
        self.hook = KServeHook(NAME, self.namespace, connection_id)
        self.progress: list[Progress] = []

    def close(self) -> None:
        """Give the namespace back."""
        os.environ.pop(self.connection_variable, None)
        self.cluster.api.ask("DELETE", f"/api/v1/namespaces/{self.namespace}")

    def manifest(self, version: int, **predictor: Any) -> dict[str, Any]:
        """Return the first deployment's manifest; `predictor` replaces parts of its predictor."""
        manifest = inference_service_manifest(
            self.spec, uri(version), release_id=f"{NAME}-{version}", version=version
        )
        manifest["spec"]["predictor"] |= predictor
        return manifest

    def first(self, version: int = 1, **predictor: Any) -> Reconciliation:
        """Deploy the first version."""
        return self.bring(FirstDeploy(self.manifest(version, **predictor)))

    def bring(self, goal: Goal, *, limit_s: float = LIMIT_S) -> Reconciliation:
        """Bring the InferenceService to a goal, and keep what the driver reported in `progress`."""
        progress = Progress()
        self.progress.append(progress)

        def note(reconciliation: Reconciliation) -> None:
            progress.reasons.append(reconciliation.action.reason)
            action = reconciliation.action
            if isinstance(action, Wait) and action.users_safe and progress.users_safe_s is None:
                progress.users_safe_s = time.monotonic()

        reached = reconcile(self.hook, goal, timeout_s=limit_s, on_progress=note)
        if progress.users_safe_s is None:
            progress.users_safe_s = time.monotonic()
        return reached

    def observed(self) -> Observed:
        """Return what the driver sees."""
        observed = observe_service(self.hook)
        assert observed is not None
        return observed

    def service(self) -> Mapping[str, Any]:
        """Return the InferenceService."""
        service = self.hook.get()
        assert service is not None
        return service

    def objects(self, path: str) -> list[Object]:
        """Return the namespace's objects of one kind.

        :param path: `/apis/GROUP/VERSION/PLURAL`.
        """
        base, _, plural = path.rpartition("/")
        return self.cluster.api.items(f"{base}/namespaces/{self.namespace}/{plural}")


class Rollouts(ServiceRollouts):
    """The same on the cluster whose pods and routes the tests steer."""

    cluster: RealCluster

    def until_served(self, shares: Mapping[str, int]) -> None:
        """Wait until the ingress leads users so: percent by revision."""
        behaviour = self.cluster.gateway.of(self.namespace)
        wait_until(
            lambda: behaviour.served.get(f"{NAME}-predictor") == dict(shares), f"the ingress serves {shares}"
        )


@contextmanager
def rollouts(cluster: RealCluster, mode: str, namespace: str = "") -> Iterator[Rollouts]:
    """Have an InferenceService's namespace for one test."""
    made = Rollouts(cluster, mode, namespace)
    try:
        yield made
    finally:
        made.close()
