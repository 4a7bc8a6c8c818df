"""The Deployments that KServe makes for an InferenceService in Standard mode, as far as their readers need them.

The emulator's own objects: nobody else may write them, and what somebody writes is written over.
"""

from __future__ import annotations

from typing import Any

from slipway_sandbox.kserve.annotations import SOURCE_URI
from slipway_sandbox.kserve.owner import owner
from slipway_sandbox.kserve.standard.machine import Object, Predictor, Workload

SERVICE_LABEL = "serving.kserve.io/inferenceservice"


def deployments(predictor: Predictor, service: Object) -> list[dict[str, Any]]:
    """Return the Deployments with what their status shall say; they have no times, which the API server gives."""
    return [_deployment(workload, service) for workload in predictor.workloads]


def _deployment(workload: Workload, service: Object) -> dict[str, Any]:
    metadata = service["metadata"]
    app = f"isvc.{workload.name}"
    labels = {
        **(metadata.get("labels") or {}),
        "app": app,
        "component": "predictor",
        SERVICE_LABEL: metadata["name"],
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {
            "name": workload.name,
            "namespace": metadata["namespace"],
            "labels": labels,
            "ownerReferences": [owner(service)],
        },
        "spec": {
            "replicas": workload.replicas,
            "selector": {"matchLabels": {"app": app}},
            "strategy": {
                "type": "RollingUpdate",
                "rollingUpdate": {"maxUnavailable": workload.max_unavailable, "maxSurge": "25%"},
            },
            "template": {
                "metadata": {"labels": labels, "annotations": {SOURCE_URI: workload.newest.storage_uri}}
            },
        },
        "status": _status(workload),
    }


def _status(workload: Workload) -> dict[str, Any]:
    """Return a Deployment's status; numbers that are nought are left out, as Kubernetes leaves them."""
    old = sum(one.available for one in workload.pods[:-1])
    numbers = {
        "replicas": workload.replicas,
        "updatedReplicas": workload.replicas - old,
        "readyReplicas": workload.available,
        "availableReplicas": workload.available,
        "unavailableReplicas": workload.replicas - workload.available,
    }
    available = ("True", "MinimumReplicasAvailable", "Deployment has minimum availability.")
    if not workload.is_available:
        available = ("False", "MinimumReplicasUnavailable", "Deployment does not have minimum availability.")
    status, reason, message = available
    return {
        **{key: number for key, number in numbers.items() if number},
        "conditions": [{"type": "Available", "status": status, "reason": reason, "message": message}],
    }
