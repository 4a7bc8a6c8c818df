"""The status of an InferenceService in Knative mode."""

from __future__ import annotations

from typing import Any

from include.sandbox.kserve.conditions import TRUE, Condition, ConditionStatus, with_times
from include.sandbox.kserve.knative.machine import Object, Predictor, Target


def status_of(
    predictor: Predictor, *, name: str, namespace: str, domain: str, previous: Object, now: str
) -> dict[str, Any]:
    """Return the InferenceService's status.

    :param predictor: its `traffic` must be what the router really does.
    :param previous: the status before; it has the transition times that still hold.
    :param now: the present time, RFC 3339.
    """
    created = predictor.latest_created
    component: dict[str, Any] = {
        "latestCreatedRevision": created.name if created else "",
        "latestReadyRevision": predictor.latest_ready,
        "latestRolledoutRevision": predictor.latest_rolledout,
        "previousRolledoutRevision": predictor.previous_rolledout,
    }
    component = {key: value for key, value in component.items() if value}
    if predictor.traffic:
        component["traffic"] = [_target_status(one, name, namespace, domain) for one in predictor.traffic]
        component["url"] = f"http://{name}-predictor.{namespace}.{domain}"
    conditions = _conditions(predictor, name)
    status: dict[str, Any] = {
        "observedGeneration": predictor.generation,
        "deploymentMode": "Knative",
        "conditions": with_times(conditions, previous.get("conditions") or [], now),
        "components": {"predictor": component},
        "modelStatus": _model_status(predictor, conditions["Ready"][0]),
    }
    if predictor.traffic:
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


def _conditions(predictor: Predictor, name: str) -> dict[str, Condition]:
    """Return {type: (status, reason, message)}."""
    configuration = _configuration_condition(predictor)
    route = _route_condition(predictor, configuration, name)
    ready = next((one for one in (configuration, route) if one[0] == "False"), None) or next(
        (one for one in (configuration, route) if one[0] == "Unknown"), TRUE
    )
    ingress: Condition = TRUE if route == TRUE else (route[0], "Predictor ingress not created", "")
    overall = ready if ready != TRUE else ingress
    return {
        "IngressReady": ingress,
        "LatestDeploymentReady": _aggregate(configuration, "PredictorConfigurationReady not ready"),
        "PredictorConfigurationReady": configuration,
        "PredictorReady": ready,
        "PredictorRouteReady": route,
        "Ready": overall,
        "RoutesReady": _aggregate(route, "PredictorRouteReady not ready"),
        "Stopped": ("False", "", ""),
    }


def _aggregate(condition: Condition, reason: str) -> Condition:
    return TRUE if condition == TRUE else (condition[0], reason, "")


def _configuration_condition(predictor: Predictor) -> Condition:
    created = predictor.latest_created
    if created is None or created.phase == "pending":
        return ("Unknown", "", "")
    if created.phase == "failed":
        return (
            "False",
            "RevisionFailed",
            f'Revision "{created.name}" failed with message: {created.message}.',
        )
    return TRUE


def _route_condition(predictor: Predictor, configuration: Condition, name: str) -> Condition:
    if predictor.traffic:
        return TRUE
    if configuration[0] == "False":
        message = f'Configuration "{name}-predictor" does not have any ready Revision.'
        return ("False", "RevisionMissing", message)
    return ("Unknown", "", "")


def _model_status(predictor: Predictor, ready: ConditionStatus) -> dict[str, Any]:
    created = predictor.latest_created
    phase = created.phase if created else "pending"
    states: dict[str, str] = {"activeModelState": "Loaded" if predictor.latest_ready else ""}
    status: dict[str, Any] = {}
    if phase == "failed":
        states["targetModelState"] = "FailedToLoad"
        status["transitionStatus"] = "BlockedByFailedLoad"
    elif phase == "ready" and ready == "True":
        states["targetModelState"] = "Loaded"
        status["transitionStatus"] = "UpToDate"
        status["copies"] = {"failedCopies": 0, "totalCopies": 1}
    else:
        states["targetModelState"] = "Loading" if created else "Pending"
        status["transitionStatus"] = "InProgress"
    status["states"] = states
    if predictor.last_failure:
        status["lastFailureInfo"] = dict(predictor.last_failure)
    return status
