"""What KServe's admission webhook refuses about the canaries of an InferenceService in Standard mode.

Rules and words are those of `TestValidateCanarySpecs` and `TestValidatePredictorNameChange` in KServe's
`inference_service_validation_test.go` (0.20 and later).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from include.sandbox.cluster.resources import KubeObject

_DEPLOYMENT_MODE = "serving.kserve.io/deploymentMode"
_STANDARD = ("Standard", "RawDeployment")
_AUTOSCALING = ("maxReplicas", "scaleTarget", "scaleMetric", "autoScaling", "workerSpec")


def canary_denial(before: KubeObject | None, service: KubeObject) -> str | None:
    """Return why the webhook would deny `service` for its canaries or its predictor's name; None where it would not."""
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
    mode = (service["metadata"].get("annotations") or {}).get(_DEPLOYMENT_MODE)
    if mode not in _STANDARD:
        return "canary is only supported in Standard deployment mode"
    if not service["spec"]["predictor"].get("model"):
        return "canary requires a stable predictor with a model"
    return None


def _names_denial(stable: Mapping[str, Any], canaries: list[Mapping[str, Any]]) -> str | None:
    names = [one["predictor"].get("name") for one in canaries]
    for index, name in enumerate(names):
        if not name:
            return f"canary[{index}].predictor.name is required"
        if name in names[:index]:
            return f"canary[{index}].predictor.name {name!r} is duplicated"
        if name == stable.get("name"):
            return f"canary[{index}].predictor.name {name!r} conflicts with stable predictor name"
    return None


def _traffic_denial(canaries: list[Mapping[str, Any]]) -> str | None:
    total = sum(one.get("trafficPercent", 0) for one in canaries)
    return f"sum of canary trafficPercent is {total}, must be <= 100" if total > 100 else None


def _entry_denial(stable: Mapping[str, Any], canary: Mapping[str, Any]) -> str | None:
    predictor = canary["predictor"]
    for key in _AUTOSCALING:
        if predictor.get(key) is not None:
            return f"canary {predictor['name']!r} must not set {key}"
    own, limit = predictor.get("minReplicas"), stable.get("minReplicas", 1)
    if own is not None and own > limit:
        return f"canary {predictor['name']!r} minReplicas {own} must not exceed stable minReplicas {limit}"
    return None


def _storage_uri(predictor: Mapping[str, Any]) -> Any:
    return (predictor.get("model") or {}).get("storageUri")
