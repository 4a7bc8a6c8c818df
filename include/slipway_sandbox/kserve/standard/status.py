"""The status of an InferenceService in Standard mode."""

from __future__ import annotations

from typing import Any

from slipway_sandbox.kserve.conditions import TRUE, Condition, ConditionStatus, with_times
from slipway_sandbox.kserve.standard.machine import Object, Predictor, Workload

SERVING_RUNTIME = "kserve-tritonserver"
_UNAVAILABLE: Condition = (
    "False",
    "MinimumReplicasUnavailable",
    "Deployment does not have minimum availability.",
)


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
    component: dict[str, Any] = {}
    status: dict[str, Any] = {
        "observedGeneration": predictor.generation,
        "deploymentMode": "Standard",
        "clusterServingRuntimeName": SERVING_RUNTIME,
        "conditions": with_times(conditions, previous.get("conditions") or [], now),
        "components": {"predictor": component},
        "modelStatus": _model_status(predictor, conditions["Ready"][0]),
    }
    if predictor.canaries:
        status["canaryStatuses"] = [
            {
                "name": one.name,
                "ready": one.ready,
                "trafficPercent": one.percent,
                "modelStatus": {"transitionStatus": ""},
            }
            for one in predictor.canaries
        ]
    if predictor.routed:
        # After a promotion it is a host that no route serves.
        component["url"] = f"http://{predictor.stable}.{namespace}.{domain}"
        status["url"] = f"http://{name}.{namespace}.{domain}"
        status["address"] = {"url": f"http://{predictor.stable}.{namespace}.svc.cluster.local"}
    return status


def _conditions(predictor: Predictor, ingress_ready: bool) -> dict[str, Condition]:
    """Return {type: (status, reason, message)}."""
    stable = predictor.workload(predictor.stable)
    ingress: Condition = ("False", "Predictor Deployment NotReady", "Predictor HTTPRoute not created")
    if predictor.routed:
        not_taken: Condition = ("False", "ParentStatusNotAvailable", "Predictor HttpRouteNotReady")
        ingress = TRUE if ingress_ready else not_taken
    up = _UNAVAILABLE if stable is None or not stable.is_available else available(stable)
    conditions: dict[str, Condition] = {
        "IngressReady": ingress,
        "PredictorReady": up,
        "Ready": ingress if up[0] == "True" or not predictor.routed else up,
        "Stopped": ("False", "", ""),
    }
    if predictor.canaries:
        all_ready = all(one.ready for one in predictor.canaries)
        conditions["CanaryPredictorReady"] = (
            ("True", "AllCanariesReady", "") if all_ready else ("False", "CanariesNotReady", "")
        )
    return conditions


def available(workload: Workload) -> Condition:
    """Return what PredictorReady says of an available Deployment: the words of its condition Progressing."""
    if len(workload.pods) > 1:
        return ("True", "MinimumReplicasAvailable", "Deployment has minimum availability.")
    message = f'ReplicaSet "{workload.name}-{workload.newest.template[:10]}" has successfully progressed.'
    return ("True", "NewReplicaSetAvailable", message)


def _model_status(predictor: Predictor, ready: ConditionStatus) -> dict[str, Any]:
    """Return the status of the stable predictor's model; a failed load shows although old pods answer."""
    stable = predictor.workload(predictor.stable)
    phase = stable.newest.phase if stable else "pending"
    status: dict[str, Any] = {"copies": {"failedCopies": 0}, "transitionStatus": ""}
    if stable and predictor.routed:
        status["copies"]["totalCopies"] = stable.replicas
    if phase == "failed":
        status["transitionStatus"] = "BlockedByFailedLoad"
        status["states"] = _states(predictor, "FailedToLoad")
    elif phase == "ready" and ready == "True":
        status["transitionStatus"] = "UpToDate"
        status["states"] = _states(predictor, "Loaded")
    elif predictor.routed:
        status["transitionStatus"] = "InProgress"
        status["states"] = _states(predictor, "Pending")
    if predictor.last_failure:
        status["lastFailureInfo"] = dict(predictor.last_failure)
    return status


def _states(predictor: Predictor, target: str) -> dict[str, str]:
    return {"activeModelState": "Loaded" if predictor.is_ready else "", "targetModelState": target}
