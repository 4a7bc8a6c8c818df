"""The InferenceService of a first deployment."""

from __future__ import annotations

from typing import Any

from slipway_core.rollout.dialects.registry import dialect_named
from slipway_core.rollout.fields import (
    API_VERSION,
    DEPLOYMENT_MODE,
    RELEASE,
    VERSION,
)
from slipway_core.rollout.servers.protocol import protocol_fields
from slipway_core.spec.release_file import ReleaseSpec


def inference_service_manifest(
    spec: ReleaseSpec, storage_uri: str, *, release_id: str = "", version: int | None = None
) -> dict[str, Any]:
    """Return the manifest that serves the Triton repository at `storage_uri` as `spec.rollout` says.

    It names the deployment mode, which decides in what way a canary can be made at all, and one replica at
    least: a stable version that scales to zero is cold when traffic comes back to it. Where the notes lie, and what
    the predictor has besides, is for the dialect to say.

    KServe merges what the predictor says of its pods (nodes, taints, priority, ports) over the serving runtime.
    """
    rollout = spec.rollout
    notes: dict[str, str] = {}
    if release_id:
        notes[RELEASE] = release_id
    if version is not None:
        notes[VERSION] = str(version)
    dialect = dialect_named(rollout.deployment_mode)
    model: dict[str, Any] = {
        # The repository holds its own config.pbtxt; for KServe its format is simply Triton's.
        "modelFormat": {"name": "triton"},
        **protocol_fields(rollout.protocol),
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
            "annotations": {
                DEPLOYMENT_MODE: rollout.deployment_mode,
                **dialect.annotations(notes),
            },
        },
        "spec": {
            "predictor": {
                "serviceAccountName": rollout.service_account,
                "minReplicas": rollout.min_replicas,
                **({} if rollout.max_replicas is None else {"maxReplicas": rollout.max_replicas}),
                **rollout.placed(),
                **dialect.predictor_fields(notes),
                "model": model,
            },
        },
    }
