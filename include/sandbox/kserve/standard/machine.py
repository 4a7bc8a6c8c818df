"""KServe's Standard mode as a pure state machine: an InferenceService and its Deployments in, routes and status out.

One reconciliation has two stages, `reconcile` (Deployments and their Services, and what the status says of
canaries) and then `route` (the HTTPRoutes), as in KServe's `Predictor.Reconcile` and `RawHTTPRouteReconciler`
since 0.21 (pull requests 5672, 5912, 5944, 5984). Its traps are there, because a release that is safe only
against a friendlier machine is not safe:

- `canaryTrafficPercent` is ignored: a new storageUri in the predictor is a rolling update that ends with
  everybody on it;
- a canary that has no minReplicas of its own has as many replicas as its percent is of stable's, so none at 0 %;
- the replicas of a *ready* canary are taken from stable's minReplicas, if it has them, down to one;
- Deployments and Services that nothing names any more are deleted in the first stage, before the second leads
  users away from them: what still leads there fails;
- only ready canaries have a place in the routes, stable gets the rest; and the routes stay as they are while the
  stable predictor is not ready;
- a canary that becomes the stable predictor under its own name keeps its pods; under another, or under none,
  stable's pods are replaced one by one instead and users are back on the version before until they are;
- `status.canaryStatuses` repeats the percents of the spec, whatever the routes say;
- without Gateway API there are no HTTPRoutes, and everybody is on stable whatever the percents;
- annotations and labels of the InferenceService reach the pods of every predictor, so a new one restarts them all.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Mapping
from copy import deepcopy
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from include.sandbox.kserve.annotations import UNPROPAGATED_ANNOTATIONS
from include.sandbox.kserve.conditions import TRUE, Condition, ConditionStatus, with_times

Phase = Literal["pending", "ready", "failed"]
Object = Mapping[str, Any]
# What of a predictor does not change its pods.
_NOT_IN_PODS = frozenset(
    {
        "name",
        "minReplicas",
        "maxReplicas",
        "scaleTarget",
        "scaleMetric",
        "scaleMetricType",
        "autoScaling",
        "canaryTrafficPercent",
        "deploymentStrategy",
        "timeout",
    }
)


@dataclass(frozen=True)
class Pods:
    """The pods of one template of a Deployment; all of them fare alike."""

    template: str
    number: int
    storage_uri: str
    phase: Phase = "pending"
    message: str = ""
    exit_code: int = 0


@dataclass(frozen=True)
class Workload:
    """A Deployment with its Service. `pods` are those of the present template, last, and what they replace."""

    name: str
    replicas: int
    pods: tuple[Pods, ...]

    @property
    def newest(self) -> Pods:
        """The pods of the present template."""
        return self.pods[-1]

    @property
    def serving(self) -> Pods | None:
        """The pods that answer: the newest that are ready."""
        if not self.replicas:
            return None
        return next((one for one in reversed(self.pods) if one.phase == "ready"), None)


@dataclass(frozen=True)
class CanaryStatus:
    """What the status says of a canary."""

    name: str
    ready: bool
    percent: int


@dataclass(frozen=True)
class Backend:
    """A reference in the routes; without canaries it has no weight."""

    name: str
    weight: int | None = None


@dataclass(frozen=True)
class Predictor:
    """What KServe has made of one InferenceService. `generation` is that of the stable Deployment."""

    stable: str = ""
    workloads: tuple[Workload, ...] = ()
    canaries: tuple[CanaryStatus, ...] = ()
    routed: tuple[Backend, ...] = ()
    generation: int = 0
    fingerprint: str = ""
    last_failure: Mapping[str, Any] | None = field(default=None, hash=False)

    def workload(self, name: str) -> Workload | None:
        """Return a Deployment by its name; None where there is none."""
        return next((one for one in self.workloads if one.name == name), None)

    @property
    def is_ready(self) -> bool:
        """Whether the stable predictor answers."""
        stable = self.workload(self.stable)
        return stable is not None and stable.serving is not None

    def shares(self) -> dict[str, int]:
        """Return the percents that the routes give, by Deployment."""
        weights = {one.name: 1 if one.weight is None else one.weight for one in self.routed}
        total = sum(weights.values())
        return {name: round(100 * weight / total) for name, weight in weights.items() if weight}

    def users(self) -> dict[str, int]:
        """Return the percents of users by storageUri; what leads to nothing that answers is under ""."""
        shares: dict[str, int] = {}
        for name, percent in self.shares().items():
            workload = self.workload(name)
            serving = workload.serving if workload else None
            uri = serving.storage_uri if serving else ""
            shares[uri] = shares.get(uri, 0) + percent
        return shares


def workload_name(service: Object, predictor: Mapping[str, Any]) -> str:
    """Return what KServe calls a predictor's Deployment and Service."""
    name, own = service["metadata"]["name"], predictor.get("name")
    return f"{name}-{own}-predictor" if own else f"{name}-predictor"


# --- the first stage: Deployments ---


def reconcile(
    before: Predictor, service: Object, unpropagated: Iterable[str] = UNPROPAGATED_ANNOTATIONS
) -> Predictor:
    """Take an InferenceService's spec: make, change and delete Deployments, canaries before stable."""
    stable, canaries = service["spec"]["predictor"], service["spec"].get("canary") or []
    kept_out = frozenset(unpropagated)
    workloads: dict[str, Workload] = {}
    statuses = []
    taken = 0
    for canary in canaries:
        predictor = overlaid(stable, canary["predictor"])
        name = workload_name(service, predictor)
        replicas = canary_replicas(stable, canary)
        workloads[name] = _deployed(before.workload(name), name, replicas, service, predictor, kept_out)
        ready = workloads[name].serving is not None
        statuses.append(CanaryStatus(predictor["name"], ready, canary.get("trafficPercent", 0)))
        taken += replicas if ready else 0
    name = workload_name(service, stable)
    least = stable.get("minReplicas")
    replicas = max(least - taken, 1) if least is not None and canaries else least or 1
    workloads[name] = _deployed(before.workload(name), name, replicas, service, stable, kept_out)
    fingerprint = json.dumps([name, replicas, workloads[name].newest.template])
    return replace(
        before,
        stable=name,
        workloads=tuple(workloads.values()),
        canaries=tuple(statuses),
        generation=before.generation + (fingerprint != before.fingerprint),
        fingerprint=fingerprint,
        last_failure=_failure(workloads[name]) or before.last_failure,
    )


def canary_replicas(stable: Mapping[str, Any], canary: Mapping[str, Any]) -> int:
    """Return how many replicas a canary has: its own minReplicas, or its percent of stable's, rounded up."""
    own = canary["predictor"].get("minReplicas")
    if own is not None:
        return int(own)
    least = stable.get("minReplicas")
    return math.ceil((1 if least is None else least) * canary.get("trafficPercent", 0) / 100)


def overlaid(stable: Mapping[str, Any], canary: Mapping[str, Any]) -> dict[str, Any]:
    """Return the predictor of a canary: stable's, with all that the canary's own says laid over it.

    What is empty says nothing.
    """
    result = deepcopy(dict(stable))
    for key, value in canary.items():
        if isinstance(value, Mapping) and isinstance(result.get(key), Mapping):
            result[key] = overlaid(result[key], value)
        elif value not in (None, "", 0, False, [], {}):
            result[key] = deepcopy(value)
    return result


def _deployed(
    before: Workload | None,
    name: str,
    replicas: int,
    service: Object,
    predictor: Mapping[str, Any],
    kept_out: frozenset[str],
) -> Workload:
    template = template_digest(service, predictor, kept_out)
    if before is None:
        pods: tuple[Pods, ...] = (Pods(template, 1, storage_uri_of(predictor)),)
    elif before.newest.template == template:
        pods = before.pods
    else:
        serving = before.serving
        kept = () if serving is None else (serving,)
        pods = (*kept, Pods(template, before.newest.number + 1, storage_uri_of(predictor)))
    return Workload(name, replicas, pods[-1:] if pods[-1].phase == "ready" else pods)


def template_digest(
    service: Object,
    predictor: Mapping[str, Any],
    kept_out: frozenset[str] = frozenset(UNPROPAGATED_ANNOTATIONS),
) -> str:
    """Return the digest of a predictor's pod template: two that are equal need no new pods."""
    metadata = service["metadata"]
    annotations = {**(metadata.get("annotations") or {}), **(predictor.get("annotations") or {})}
    labels = {**(metadata.get("labels") or {}), **(predictor.get("labels") or {})}
    pods = {
        key: value
        for key, value in predictor.items()
        if key not in _NOT_IN_PODS and key not in ("annotations", "labels")
    }
    annotations = {key: value for key, value in annotations.items() if key not in kept_out}
    return hashlib.sha256(json.dumps([annotations, labels, pods], sort_keys=True).encode()).hexdigest()[:16]


def storage_uri_of(predictor: Mapping[str, Any]) -> str:
    """Return a predictor's storageUri; empty if there is none."""
    return str((predictor.get("model") or {}).get("storageUri") or "")


def with_pods(before: Predictor, name: str, number: int, **changes: Any) -> Predictor:
    """Return the predictor with one Deployment's pods changed: their `phase`, `message`, `exit_code`."""

    def changed(one: Workload) -> Workload:
        pods = tuple(replace(each, **changes) if each.number == number else each for each in one.pods)
        return replace(one, pods=pods)

    workloads = tuple(changed(one) if one.name == name else one for one in before.workloads)
    return replace(before, workloads=workloads)


def _failure(stable: Workload) -> dict[str, Any] | None:
    if stable.newest.phase != "failed":
        return None
    newest = stable.newest
    return {"reason": "ModelLoadFailed", "message": newest.message, "exitCode": newest.exit_code}


# --- the second stage: routes ---


def route(before: Predictor, service: Object, *, gateway_api: bool = True) -> Predictor:
    """Lead users as the spec says and readiness allows; nothing changes while the stable predictor is not ready."""
    if not before.is_ready:
        return before
    if not gateway_api or not service["spec"].get("canary"):
        return replace(before, routed=(Backend(before.stable),))
    ready = [one for one in before.canaries if one.ready]
    weighted = [Backend(workload_name(service, {"name": one.name}), one.percent) for one in ready]
    rest = 100 - sum(one.percent for one in ready)
    return replace(before, routed=(Backend(before.stable, rest), *weighted))


def http_routes(predictor: Predictor, service: Object, domain: str, gateway: str) -> list[dict[str, Any]]:
    """Return the HTTPRoutes, the predictor's and the service's own; none before there is anything to lead to."""
    if not predictor.routed:
        return []
    metadata = service["metadata"]
    name, namespace = metadata["name"], metadata["namespace"]
    gateway_namespace, _, gateway_name = gateway.partition("/")
    references = [_reference(one, namespace) for one in predictor.routed]
    return [
        {
            "apiVersion": "gateway.networking.k8s.io/v1",
            "kind": "HTTPRoute",
            "metadata": {
                "name": route_name,
                "namespace": namespace,
                "labels": dict(metadata.get("labels") or {}),
                "ownerReferences": [_owner(service)],
            },
            "spec": {
                "parentRefs": [
                    {
                        "group": "gateway.networking.k8s.io",
                        "kind": "Gateway",
                        "namespace": gateway_namespace,
                        "name": gateway_name,
                    }
                ],
                "hostnames": [f"{route_name}.{namespace}.{domain}"],
                "rules": [
                    {
                        "matches": [{"path": {"type": "RegularExpression", "value": "^/.*$"}}],
                        "backendRefs": references,
                        "timeouts": {"request": "60s"},
                    }
                ],
            },
        }
        for route_name in (f"{name}-predictor", name)
    ]


def _reference(backend: Backend, namespace: str) -> dict[str, Any]:
    weight = {} if backend.weight is None else {"weight": backend.weight}
    return {"kind": "Service", "name": backend.name, "namespace": namespace, "port": 80, **weight}


def _owner(service: Object) -> dict[str, Any]:
    metadata = service["metadata"]
    return {
        "apiVersion": "serving.kserve.io/v1beta1",
        "kind": "InferenceService",
        "name": metadata["name"],
        "uid": metadata["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }


# --- the status ---


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
    """Return the InferenceService's status. `previous` gives the transition times that still hold; `now` is
    RFC 3339; `ingress_ready` tells whether a Gateway has taken the routes.
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
