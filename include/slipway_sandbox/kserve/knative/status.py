"""The status of an InferenceService in Knative mode."""

from __future__ import annotations

from typing import Any

from slipway_sandbox.kserve.conditions import TRUE, Condition, ConditionStatus, with_times
from slipway_sandbox.kserve.knative.machine import Object, Predictor
from slipway_sandbox.kserve.knative.traffic_rules import Target

INGRESS_NOT_CONFIGURED: Condition = (
    "Unknown",
    "IngressNotConfigured",
    "Ingress has not yet been reconciled.",
)


def status_of(
    predictor: Predictor,
    *,
    name: str,
    namespace: str,
    domain: str,
    previous: Object,
    now: str,
    is_routed: bool = True,
) -> dict[str, Any]:
    """Return the InferenceService's status.

    :param predictor: its `traffic` is what Knative intends, whatever the router does.
    :param previous: the status before; it has the transition times that still hold, and what stays once it is there.
    :param now: the present time, RFC 3339.
    :param is_routed: whether the router does what `traffic` says.
    """
    created = predictor.latest_created
    conditions = _conditions(predictor, name, previous, is_routed)
    before = ((previous.get("components") or {}).get("predictor")) or {}
    component: dict[str, Any] = {
        "latestCreatedRevision": created.name if created else "",
        "latestReadyRevision": predictor.latest_ready,
        "latestRolledoutRevision": predictor.latest_rolledout,
        "previousRolledoutRevision": predictor.previous_rolledout,
    }
    component = {key: value for key, value in component.items() if value}
    if predictor.traffic:
        component["traffic"] = [_target_status(one, name, namespace, domain) for one in predictor.traffic]
    if conditions["PredictorReady"] == TRUE or "url" in before:
        component["url"] = f"http://{name}-predictor.{namespace}.{domain}"
        component["address"] = {"url": f"http://{name}-predictor.{namespace}.svc.cluster.local"}
    status: dict[str, Any] = {
        "observedGeneration": predictor.generation,
        "deploymentMode": "Knative",
        "clusterServingRuntimeName": "kserve-tritonserver",
        "conditions": with_times(conditions, previous.get("conditions") or [], now),
        "components": {"predictor": component},
        "modelStatus": _model_status(predictor, conditions["Ready"][0]),
    }
    if conditions["IngressReady"] == TRUE:
        status["url"] = f"http://{name}.{namespace}.{domain}"
        status["address"] = {"url": f"http://{name}.{namespace}.svc.cluster.local"}
    return status


def _target_status(target: Target, name: str, namespace: str, domain: str) -> dict[str, Any]:
    line: dict[str, Any] = {
        "revisionName": target.revision,
        "percent": target.percent,
        "latestRevision": target.latest,
    }
    if target.tag:
        line["tag"] = target.tag
        line["url"] = f"http://{target.tag}-{name}-predictor.{namespace}.{domain}"
    return line


def _conditions(predictor: Predictor, name: str, previous: Object, is_routed: bool) -> dict[str, Condition]:
    """Return {type: (status, reason, message)}.

    IngressReady is about KServe's own ingress, which is made once and leads to the Knative route, whatever the
    weights: once True it stays so. A revision that fails while it boots leaves its conditions Unknown.
    """
    configuration = _configuration_condition(predictor)
    route = _route_condition(predictor, name, is_routed)
    # Knative's Ready tells of the route's trouble where there is any.
    predictor_ready = configuration if route == TRUE else route
    was_ready = any(
        one["type"] == "IngressReady" and one["status"] == "True" for one in previous.get("conditions") or []
    )
    ingress: Condition = TRUE if was_ready or predictor_ready == TRUE else ("Unknown", "", "")
    return {
        "IngressReady": ingress,
        "LatestDeploymentReady": _aggregate(configuration, "PredictorConfigurationReady not ready"),
        "PredictorConfigurationReady": configuration,
        "PredictorReady": predictor_ready,
        "PredictorRouteReady": route,
        "Ready": predictor_ready,
        "RoutesReady": _aggregate(route, "PredictorRouteReady not ready"),
        "Stopped": ("False", "", ""),
    }


def _aggregate(condition: Condition, reason: str) -> Condition:
    return TRUE if condition == TRUE else (condition[0], reason, "")


def _configuration_condition(predictor: Predictor) -> Condition:
    created = predictor.latest_created
    return TRUE if created is not None and created.phase == "ready" else ("Unknown", "", "")


def _route_condition(predictor: Predictor, name: str, is_routed: bool) -> Condition:
    if predictor.traffic:
        return TRUE if is_routed else INGRESS_NOT_CONFIGURED
    message = f'Configuration "{name}-predictor" is waiting for a Revision to become ready.'
    return ("Unknown", "RevisionMissing", message)


def _model_status(predictor: Predictor, ready: ConditionStatus) -> dict[str, Any]:
    created = predictor.latest_created
    phase = created.phase if created else "pending"
    states: dict[str, str] = {"activeModelState": "Loaded" if predictor.latest_ready else ""}
    status: dict[str, Any] = {"copies": {"failedCopies": 0}}
    if phase == "failed":
        states["targetModelState"] = "FailedToLoad"
        status["transitionStatus"] = "BlockedByFailedLoad"
    elif phase == "ready" and ready == "True":
        states["targetModelState"] = "Loaded"
        status["transitionStatus"] = "UpToDate"
        status["copies"] = {"failedCopies": 0, "totalCopies": 1}
    else:
        states["targetModelState"] = "Pending"
        status["transitionStatus"] = "InProgress"
    status["states"] = states
    if predictor.last_failure:
        status["lastFailureInfo"] = dict(predictor.last_failure)
    return status
