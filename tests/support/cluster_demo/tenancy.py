"""What a release finds in the cluster: namespaces, accounts, rights, and the Secret that leads to S3."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.support.conformance.real_cluster import Cluster
from tests.support.conformance.release.airflow import NAMESPACE as MODELS
from tests.support.conformance.rights import AIRFLOW, documented_rules, grant
from tests.support.conformance.rollouts import ServiceRollouts

# Where the pods of releases run: it admits none with more rights than these.
PODS = "releases"
_RESTRICTED = {f"pod-security.kubernetes.io/{mode}": "restricted" for mode in ("enforce", "warn")}
SECRET = "object-store"
_WITH_PODS = ("conversion", "smoke_test", "benchmark")
_FROM_SECRET = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_DEFAULT_REGION", "AWS_ENDPOINT_URL")
_KSERVE = "serving.kserve.io/s3-{}"


def make_namespaces(cluster: Cluster) -> ServiceRollouts:
    """Make the namespaces with their accounts and rights; return the model's InferenceService to be."""
    rolled_out = ServiceRollouts(cluster, "Knative", MODELS)
    cluster.new_namespace(_RESTRICTED, PODS)
    cluster.add_service_account(PODS, rolled_out.spec.conversion.service_account)
    grant(cluster, PODS, AIRFLOW, documented_rules("that of the pods"), of=MODELS)
    return rolled_out


def lead_to_s3(
    cluster: Cluster, rolled_out: ServiceRollouts, address: str, variables: Mapping[str, str]
) -> None:
    """Give pods of releases and revisions their way to S3.

    :param address: where pods reach it, HOST:PORT.
    :param variables: key, secret and region, as AWS' clients name them.
    """
    known = {**variables, "AWS_ENDPOINT_URL": f"http://{address}"}
    values = {name: known[name] for name in _FROM_SECRET}
    notes = {
        _KSERVE.format("endpoint"): address,
        _KSERVE.format("usehttps"): "0",
        _KSERVE.format("region"): values["AWS_DEFAULT_REGION"],
    }
    for namespace in (PODS, MODELS):
        metadata = {"name": SECRET, "namespace": namespace, "annotations": notes}
        cluster.api.apply({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": values})
    # KServe gives a storage initializer what the Secrets of the predictor's account have.
    account = rolled_out.spec.rollout.service_account
    cluster.api.merge(
        f"/api/v1/namespaces/{MODELS}/serviceaccounts/{account}", {"secrets": [{"name": SECRET}]}
    )


def secret_env() -> dict[str, dict[str, str]]:
    """Return how a release file says that its pods get their way to S3 from that Secret."""
    return {name: {"secret": SECRET, "key": name} for name in _FROM_SECRET}


def release_parts(rollout: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return what differs in the parts of the demo's release file.

    :param rollout: what differs in its rollout.
    """
    pods = {name: {"secret_env": secret_env(), "resources": _small()} for name in _WITH_PODS}
    return {**pods, "rollout": {"resources": _small(), **rollout}}


def _small() -> dict[str, str]:
    return {"cpu": "100m", "memory": "1Gi"}
