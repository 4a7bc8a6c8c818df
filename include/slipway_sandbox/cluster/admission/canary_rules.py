"""What KServe's admission webhook refuses about the canaries of an InferenceService in Standard mode.

Rules and words are those of `TestValidateCanarySpecs` and `TestValidatePredictorNameChange` in KServe's
`inference_service_validation_test.go` (0.20 and later).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from slipway_sandbox.cluster.admission.inference_service_defaults import DEPLOYMENT_MODE
from slipway_sandbox.cluster.admission.predictor_rules import implementation_denial
from slipway_sandbox.cluster.resources import KubeObject

_FIXED_REPLICAS = "canary uses fixed replicas"
_FORBIDDEN = {
    "scaleTarget": _FIXED_REPLICAS,
    "scaleMetric": _FIXED_REPLICAS,
    "autoScaling": _FIXED_REPLICAS,
    "workerSpec": "multi-node is not yet supported for canary",
}


def canary_denial(before: KubeObject | None, service: KubeObject) -> str | None:
    """Return why the webhook would deny `service` for its canaries or its predictor's name; None if it would not."""
    canaries = service["spec"].get("canary") or []
    return (
        _name_change_denial(before, service)
        or (_mode_denial(service) if canaries else None)
        or _names_denial(service["spec"]["predictor"], canaries)
        or _traffic_denial(canaries)
        or next(filter(None, (_entry_denial(service["spec"]["predictor"], one) for one in canaries)), None)
    )


def _name_change_denial(before: KubeObject | None, service: KubeObject) -> str | None:
    if before is None:
        return None
    old, new = before["spec"]["predictor"], service["spec"]["predictor"]
    if old.get("name") == new.get("name") or _storage_uri(old) != _storage_uri(new):
        return None
    return "predictor.name change requires a model change (e.g. storageUri)"


def _mode_denial(service: KubeObject) -> str | None:
    if service["metadata"]["annotations"][DEPLOYMENT_MODE] != "Standard":
        return "canary is only supported in Standard deployment mode"
    if not service["spec"]["predictor"].get("model"):
        return "canary requires a stable predictor with a model"
    return None


def _names_denial(stable: Mapping[str, Any], canaries: list[Mapping[str, Any]]) -> str | None:
    names = [one["predictor"].get("name") for one in canaries]
    for index, name in enumerate(names):
        if not name:
            return f"canary[{index}] predictor.name is required"
        if name in names[:index]:
            return f'canary predictor.name "{name}" is duplicated'
        if name == stable.get("name"):
            return f"canary predictor.name {json.dumps(name)} conflicts with stable predictor name"
    return None


def _traffic_denial(canaries: list[Mapping[str, Any]]) -> str | None:
    total = sum(one.get("trafficPercent", 0) for one in canaries)
    return f"sum of canary trafficPercent values ({total}) must be <= 100" if total > 100 else None


def _entry_denial(stable: Mapping[str, Any], canary: Mapping[str, Any]) -> str | None:
    predictor = canary["predictor"]
    name = json.dumps(predictor["name"])
    if predictor.get("maxReplicas"):
        return f"canary {name} must not set maxReplicas ({_FIXED_REPLICAS})"
    for key, why in _FORBIDDEN.items():
        if predictor.get(key) is not None:
            return f"canary {name} must not set {key} ({why})"
    own, limit = predictor.get("minReplicas"), stable.get("minReplicas", 1)
    if own is not None and own > limit:
        return f"canary {name} minReplicas ({own}) must not exceed stable predictor minReplicas ({limit})"
    denial = implementation_denial(predictor)
    return f"canary {name} predictor: {denial}" if denial else None


def _storage_uri(predictor: Mapping[str, Any]) -> Any:
    return (predictor.get("model") or {}).get("storageUri")
