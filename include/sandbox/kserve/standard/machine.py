"""KServe's Standard mode as a pure state machine: an InferenceService and its Deployments in, routes out.

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
