"""The InferenceService of a first deployment."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from include.model_release.isvc_observation import RELEASE, VERSION

if TYPE_CHECKING:
    from include.model_release.spec import ReleaseSpec

API_VERSION = "serving.kserve.io/v1beta1"
DEPLOYMENT_MODE = "serving.kserve.io/deploymentMode"


def inference_service_manifest(
    spec: ReleaseSpec, storage_uri: str, *, release_id: str = "", version: int | None = None
) -> dict[str, Any]:
    """Return the manifest that serves the Triton repository at `storage_uri` as `spec.rollout` says.

    It names Knative's deployment mode, in which `canaryTrafficPercent` has an effect at all, and one replica
    at least: a stable version that scales to zero is cold when traffic comes back to it.
    """
    rollout = spec.rollout
    annotations = {DEPLOYMENT_MODE: "Knative"}
    if release_id:
        annotations[RELEASE] = release_id
    if version is not None:
        annotations[VERSION] = str(version)
    model: dict[str, Any] = {
        # The repository holds its own config.pbtxt; for KServe its format is simply Triton's.
        "modelFormat": {"name": "triton"},
        "protocolVersion": "v2",
        "runtime": rollout.runtime,
        "storageUri": storage_uri,
        "resources": rollout.resources.to_kubernetes(),
    }
    if rollout.runtime_version:
        model["runtimeVersion"] = rollout.runtime_version
    return {
        "apiVersion": API_VERSION,
        "kind": "InferenceService",
        "metadata": {
            "name": rollout.inference_service or spec.model,
            "namespace": rollout.namespace,
            "labels": {"app.kubernetes.io/managed-by": "slipway", "slipway.dev/model": spec.model},
            "annotations": annotations,
        },
        "spec": {
            "predictor": {"serviceAccountName": rollout.service_account, "minReplicas": 1, "model": model},
        },
    }
