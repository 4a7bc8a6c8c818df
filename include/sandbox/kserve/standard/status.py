"""The status of an InferenceService in Standard mode."""

from __future__ import annotations

from typing import Any

from include.sandbox.kserve.conditions import TRUE, Condition, ConditionStatus, with_times
from include.sandbox.kserve.standard.machine import Object, Predictor


def status_of(
    predictor: Predictor,
    *,
    name: str,
    namespace: str,
    domain: str,
    previous: Object,
    now: str,
    ingress_ready: bool = True,
) -> dict[str, Any]:
    """Return the InferenceService's status.

    :param previous: the status before; it has the transition times that still hold.
    :param now: the present time, RFC 3339.
    :param ingress_ready: whether a Gateway has taken the routes.
    """
    conditions = _conditions(predictor, ingress_ready)
    status: dict[str, Any] = {
        "observedGeneration": predictor.generation,
        "deploymentMode": "Standard",
        "conditions": with_times(conditions, previous.get("conditions") or [], now),
        "components": {"predictor": {}},
        "modelStatus": _model_status(predictor, conditions["Ready"][0]),
    }
    if predictor.canaries:
        status["canaryStatuses"] = [
            {"name": one.name, "ready": one.ready, "trafficPercent": one.percent}
            for one in predictor.canaries
        ]
    if predictor.routed:
        status["url"] = f"http://{name}.{namespace}.{domain}"
        status["address"] = {"url": f"http://{predictor.stable}.{namespace}.svc.cluster.local"}
    return status


def _conditions(predictor: Predictor, ingress_ready: bool) -> dict[str, Condition]:
    """Return {type: (status, reason, message)}."""
    up: Condition = TRUE if predictor.is_ready else ("False", "MinimumReplicasUnavailable", "")
    ingress: Condition = ("False", "Predictor ingress not created", "")
    if predictor.routed:
        ingress = TRUE if ingress_ready else ("False", "ParentStatusNotAvailable", "")
    conditions: dict[str, Condition] = {
        "IngressReady": ingress,
        "PredictorReady": up,
        "Ready": up if up != TRUE else ingress,
        "Stopped": ("False", "", ""),
    }
    if predictor.canaries:
        all_ready = all(one.ready for one in predictor.canaries)
        conditions["CanaryPredictorReady"] = (
            ("True", "AllCanariesReady", "") if all_ready else ("False", "CanariesNotReady", "")
        )
    return conditions


def _model_status(predictor: Predictor, ready: ConditionStatus) -> dict[str, Any]:
    stable = predictor.workload(predictor.stable)
    phase = stable.newest.phase if stable else "pending"
    status: dict[str, Any] = {}
    states: dict[str, str] = {"activeModelState": "Loaded" if predictor.is_ready else ""}
    if phase == "failed":
        states["targetModelState"], status["transitionStatus"] = "FailedToLoad", "BlockedByFailedLoad"
    elif phase == "ready" and ready == "True":
        states["targetModelState"], status["transitionStatus"] = "Loaded", "UpToDate"
        status["copies"] = {"failedCopies": 0, "totalCopies": stable.replicas if stable else 0}
    else:
        states["targetModelState"], status["transitionStatus"] = "Loading", "InProgress"
    status["states"] = states
    if predictor.last_failure:
        status["lastFailureInfo"] = dict(predictor.last_failure)
    return status
