"""The chart as a release of Helm on the real cluster, in namespaces of its own."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from slipway_core.rollout.inference_service import inference_service_manifest
from slipway_core.spec.release_file import parse_release_spec
from tests.support.chart.files import CHART
from tests.support.chart.helm import RELEASE, Called, Helm
from tests.support.conformance.api import Object
from tests.support.conformance.control_plane import ADMIN
from tests.support.conformance.real_cluster import RealCluster
from tests.support.conformance.storage_containers import STORAGE_CONTAINERS, verifying_storage
from tests.support.waiting import wait_until

BUCKET, TRITON = "example-bucket", "nvcr.io/nvidia/tritonserver:26.07-py3"
_RESTRICTED = {"pod-security.kubernetes.io/enforce": "restricted"}
_WAIT = ("--wait", "--timeout", "180s")
_LIMIT_S = 120.0
_OURS = "?labelSelector=app.kubernetes.io%2Fpart-of%3Dslipway"
# Every kind that the chart has, by where it is found.
_KINDS = {
    "ServiceAccount": "v1/serviceaccounts",
    "ConfigMap": "v1/configmaps",
    "Secret": "v1/secrets",
    "Service": "v1/services",
    "LimitRange": "v1/limitranges",
    "ResourceQuota": "v1/resourcequotas",
    "Role": "rbac.authorization.k8s.io/v1/roles",
    "RoleBinding": "rbac.authorization.k8s.io/v1/rolebindings",
    "Deployment": "apps/v1/deployments",
    "CronJob": "batch/v1/cronjobs",
    "PodDisruptionBudget": "policy/v1/poddisruptionbudgets",
    "NetworkPolicy": "networking.k8s.io/v1/networkpolicies",
    "ServingRuntime": "serving.kserve.io/v1alpha1/servingruntimes",
    "PodMonitor": "monitoring.coreos.com/v1/podmonitors",
    "PrometheusRule": "monitoring.coreos.com/v1/prometheusrules",
    "ScrapeConfig": "monitoring.coreos.com/v1alpha1/scrapeconfigs",
}
_RELEASE_FILE = """
model: %s
source: {format: onnx}
rollout: {namespace: %s, deployment_mode: Standard, runtime: slipway-triton}
"""
# An object by its kind, namespace and name.
Key = tuple[str, str, str]


@dataclass(frozen=True)
class Installed:
    """One release of the chart.

    :param namespace: the release's own.
    :param pods: where pods of releases run.
    :param serving: where models are served.
    :param airflow: where Airflow's accounts are.
    :param monitoring: where Prometheus finds its objects.
    :param values: Helm's arguments for its values.
    """

    cluster: RealCluster
    helm: Helm
    namespace: str
    pods: str
    serving: str
    airflow: str
    monitoring: str
    values: tuple[str, ...]

    @property
    def namespaces(self) -> tuple[str, ...]:
        """Every namespace that it writes to, but KServe's and Knative's."""
        return self.namespace, self.pods, self.serving, self.monitoring

    def install(self, chart: Path = CHART) -> str:
        """Install it, wait until all of it is ready, and return what Helm prints."""
        return self.helm.must("install", RELEASE, chart, *self._where, *self.values, *_WAIT)

    def upgrade(self, *values: str) -> None:
        """Upgrade it to the chart as it stands, with further values."""
        called = self.try_upgrade(*values)
        assert called.code == 0, called.error

    def try_upgrade(self, *values: str) -> Called:
        """Upgrade it, or be refused."""
        return self.helm.call("upgrade", RELEASE, CHART, *self._where, *self.values, *values, *_WAIT)

    def rollback(self) -> None:
        """Go back to the revision before."""
        self.helm.must("rollback", RELEASE, *self._where, *_WAIT)

    def uninstall(self) -> str:
        """Uninstall it and return what Helm prints."""
        return self.helm.must("uninstall", RELEASE, *self._where, *_WAIT)

    @property
    def _where(self) -> tuple[str, ...]:
        return ("--namespace", self.namespace)

    def identities(self) -> dict[Key, str]:
        """Return the uid of each object of the chart that is there: the same uid is the same object."""
        found: dict[Key, str] = {}
        for kind, where in _KINDS.items():
            base, _, plural = where.rpartition("/")
            prefix = f"/api/{base}" if "/" not in base else f"/apis/{base}"
            for namespace in (*self.namespaces, "kserve", "knative-serving"):
                for one in self.cluster.api.items(f"{prefix}/namespaces/{namespace}/{plural}{_OURS}"):
                    found[kind, namespace, one["metadata"]["name"]] = one["metadata"]["uid"]
        for one in self.cluster.api.items(f"{STORAGE_CONTAINERS}{_OURS}"):
            found["ClusterStorageContainer", "", one["metadata"]["name"]] = one["metadata"]["uid"]
        return found

    def find(self, version: str, plural: str, name: str, namespace: str = "") -> Object | None:
        """Return one object; None: there is none."""
        prefix = f"/apis/{version}" if "/" in version else f"/api/{version}"
        return self.cluster.api.get(f"{prefix}/namespaces/{namespace or self.namespace}/{plural}/{name}")

    def rules(self, role: str, namespace: str) -> list[Object]:
        """Return the rules of a Role as it is stored."""
        found = self.find("rbac.authorization.k8s.io/v1", "roles", role, namespace)
        assert found is not None
        rules: list[Object] = found["rules"]
        return rules

    def wait_for_pods(self, deployment: str) -> None:
        """Wait until a Deployment of the release's own namespace has its pod."""

        def available() -> bool:
            found = self.find("apps/v1", "deployments", deployment)
            return found is not None and found.get("status", {}).get("availableReplicas") == 1

        wait_until(available, f"the pod of {deployment} is there", _LIMIT_S)

    @property
    def _token_path(self) -> str:
        return f"/api/v1/namespaces/{self.monitoring}/secrets/slipway-metrics-token"

    def put_token(self, token: str) -> None:
        """Renew the token of Prometheus, as the CronJob does."""
        self.cluster.api.merge(self._token_path, {"stringData": {"token": token}})

    def has_token(self) -> bool:
        """Whether there is a token."""
        return bool(self.cluster.api.must("GET", self._token_path).get("data", {}).get("token"))

    def serve(self, model: str) -> Object:
        """Serve a model with the chart's runtime, and return its InferenceService once it has a pod."""
        spec = parse_release_spec(_RELEASE_FILE % (model, self.serving), "the chart's release")
        manifest = inference_service_manifest(spec, f"s3://{BUCKET}/models/{model}/1/repository", version=1)
        path = f"/apis/serving.kserve.io/v1beta1/namespaces/{self.serving}/inferenceservices"
        self.cluster.api.must("POST", path, manifest)
        self.predictor_pod()
        service = self.service(model)
        assert service is not None
        return service

    def service(self, model: str) -> Object | None:
        """Return a model's InferenceService."""
        return self.find("serving.kserve.io/v1beta1", "inferenceservices", model, self.serving)

    def predictor_pod(self, *, other_than: str = "", image: str = TRITON) -> Object:
        """Wait for a pod of a predictor, with an image of Triton, and return it.

        :param other_than: the uid of a pod that does not count.
        """

        def found() -> list[Object]:
            pods = self.cluster.api.items(f"/api/v1/namespaces/{self.serving}/pods")
            return [
                one
                for one in pods
                if one["metadata"]["uid"] != other_than
                and image in {c["image"] for c in one["spec"]["containers"]}
            ]

        return wait_until(found, "the predictor's pod", _LIMIT_S)[0]

    def end(self, pod: Object) -> None:
        """Delete a pod, as a drained node does."""
        name = pod["metadata"]["name"]
        self.cluster.api.ask("DELETE", f"/api/v1/namespaces/{self.serving}/pods/{name}?gracePeriodSeconds=0")


@contextmanager
def installed(cluster: RealCluster, values: Path, chart: Path = CHART) -> Iterator[Installed]:
    """Install the chart for one test; what it keeps is removed too.

    :param values: a file of values; namespaces are replaced.
    :param chart: the chart that is installed first.
    """
    names = [cluster.new_namespace(_RESTRICTED) for _ in range(5)]
    namespace, pods, serving, airflow, monitoring = names
    with tempfile.TemporaryDirectory(prefix="slipway-chart-") as folder:
        own = Path(folder) / "values.yaml"
        own.write_text(yaml.safe_dump(_placed(pods, serving, airflow, monitoring)), encoding="utf-8")
        helm = Helm(cluster.plane.kubeconfig(ADMIN))
        arguments = ("--values", str(values), "--values", str(own))
        made = Installed(cluster, helm, namespace, pods, serving, airflow, monitoring, arguments)
        try:
            with verifying_storage(cluster):
                made.install(chart)
                yield made
        finally:
            made.helm.call("uninstall", RELEASE, "--namespace", namespace, "--ignore-not-found")
            for name in names:
                cluster.api.ask("DELETE", f"/api/v1/namespaces/{name}")


def _placed(pods: str, serving: str, airflow: str, monitoring: str) -> Mapping[str, Any]:
    accounts = ("slipway-publisher", "slipway-airflow")
    return {
        "teams": [{"podsNamespace": pods, "servingNamespace": serving}],
        "airflow": {
            "subjects": [{"kind": "ServiceAccount", "name": one, "namespace": airflow} for one in accounts]
        },
        "fleets": [{"namespace": serving, "fencing": True}],
        "monitoring": {"namespace": monitoring},
    }


def in_new_namespaces(cluster: RealCluster, found: Iterable[Object]) -> list[Object]:
    """Return objects with a new namespace for each that they name, but for KServe's and Knative's."""
    listed = list(found)
    named = {one["metadata"].get("namespace", "") for one in listed}
    named |= {one["metadata"]["name"] for one in listed if one["kind"] == "Namespace"}
    text = json.dumps(listed)
    for name in sorted(named - {"", "kserve", "knative-serving"}):
        text = text.replace(f'"{name}"', f'"{cluster.new_namespace()}"')
    replaced: list[Object] = json.loads(text)
    return replaced
