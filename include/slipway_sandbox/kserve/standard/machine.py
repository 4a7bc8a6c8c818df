"""KServe's Standard mode as a pure state machine: an InferenceService and its Deployments in, routes out.

One reconciliation has two stages, `reconcile` (Deployments and their Services, and what the status says of
canaries) and then `route` (the HTTPRoutes), as in KServe's `Predictor.Reconcile` and `RawHTTPRouteReconciler`
since 0.21 (pull requests 5672, 5912, 5944, 5984). Its traps are there, because a release that is safe only
against a friendlier machine is not safe:

- `canaryTrafficPercent` is ignored: a new storageUri in the predictor is a rolling update that ends with
  everybody on it;
- minReplicas are an autoscaler's (its least and its most, here), never the Deployment's replicas: those begin at one
  and follow when the autoscaler looks again (`scaled`);
- a canary that has no minReplicas of its own has as many replicas as its percent is of stable's, one at least;
- a canary is *ready* with one pod that answers, however many are wanted;
- the replicas of a ready canary are taken from stable's minReplicas, if it has them, down to one;
- Deployments and Services that nothing names any more are deleted in the first stage, before the second leads
  users away from them: what still leads there fails;
- only ready canaries have a place in the routes, stable gets the rest; and the routes stay as they are while the
  stable predictor is not ready, which is its Deployment's Available: with the default maxUnavailable of 25 % one
  missing pod of three is enough;
- a canary that becomes the stable predictor under its own name keeps its pods; under another, or under none,
  stable's pods are replaced one by one instead and users are back on the version before until they are;
- `status.canaryStatuses` repeats the percents of the spec, whatever the routes say;
- without Gateway API there are no HTTPRoutes, and everybody is on stable whatever the percents;
- annotations and labels of the InferenceService reach the pods of every predictor, so a new one restarts them all;
- a canary whose storageUri changes stays ready, and keeps its weight, while its old pods answer; and stable is ready,
  with a failed load in its status, while a rolling update of it fails.

Not emulated: another autoscaler than the one on CPU, which without load keeps to minReplicas; the autoscalers
themselves, as objects.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Iterable, Mapping
from copy import deepcopy
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from slipway_sandbox.kserve.annotations import UNPROPAGATED_ANNOTATIONS

Phase = Literal["pending", "ready", "failed"]
DEFAULT_MAX_UNAVAILABLE = "25%"
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
    """The pods of one template of a Deployment: how its servers fare, and how many pods answer."""

    template: str
    number: int
    storage_uri: str
    phase: Phase = "pending"
    message: str = ""
    exit_code: int = 0
    available: int = 0


@dataclass(frozen=True)
class Workload:
    """A Deployment with its Service. `pods` are those of the present template, last, and what they replace.

    `replicas` is what the Deployment wants, `target` what its autoscaler will make of that. `missing` pods of those
    wanted do not answer, whatever the template; `max_unavailable` is a number or a percent.
    """

    name: str
    replicas: int
    pods: tuple[Pods, ...]
    target: int = 1
    missing: int = 0
    max_unavailable: int | str = DEFAULT_MAX_UNAVAILABLE

    @property
    def newest(self) -> Pods:
        """The pods of the present template."""
        return self.pods[-1]

    @property
    def serving(self) -> Pods | None:
        """The pods that answer: the newest of which one does."""
        return next((one for one in reversed(self.pods) if one.available), None)

    @property
    def available(self) -> int:
        """How many pods answer, of whatever template."""
        return sum(one.available for one in self.pods)

    @property
    def is_available(self) -> bool:
        """The Deployment's condition Available."""
        return bool(self.replicas) and self.available >= self.replicas - self._may_be_unavailable

    @property
    def is_complete(self) -> bool:
        """Whether there is nothing left to come up, as far as it can."""
        return self.replicas == self.target and self.newest.available >= self.replicas - self.missing

    @property
    def _may_be_unavailable(self) -> int:
        most = self.max_unavailable
        if isinstance(most, str):
            return self.replicas * int(most.removesuffix("%")) // 100
        return min(most, self.replicas)


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
        """Return a Deployment by its name; None if there is none."""
        return next((one for one in self.workloads if one.name == name), None)

    @property
    def is_ready(self) -> bool:
        """Whether the stable predictor's Deployment is available."""
        stable = self.workload(self.stable)
        return stable is not None and stable.is_available

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
        target = canary_replicas(stable, canary)
        workloads[name] = _deployed(before.workload(name), name, target, service, predictor, kept_out)
        ready = workloads[name].serving is not None
        statuses.append(CanaryStatus(predictor["name"], ready, canary.get("trafficPercent", 0)))
        taken += target if ready else 0
    name = workload_name(service, stable)
    least = stable.get("minReplicas")
    target = max(least - taken, 1) if least is not None and canaries else least or 1
    workloads[name] = _deployed(before.workload(name), name, target, service, stable, kept_out)
    fingerprint = json.dumps([name, target, workloads[name].newest.template])
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
    """Return a canary's least replicas: its own minReplicas, or its percent of stable's, rounded up; one at least."""
    own = canary["predictor"].get("minReplicas")
    if own is None:
        least = stable.get("minReplicas")
        own = math.ceil((1 if least is None else least) * canary.get("trafficPercent", 0) / 100)
    return max(int(own), 1)


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
    target: int,
    service: Object,
    predictor: Mapping[str, Any],
    kept_out: frozenset[str],
) -> Workload:
    template = template_digest(service, predictor, kept_out)
    most = max_unavailable_of(predictor)
    if before is None:
        only = (Pods(template, 1, storage_uri_of(predictor)),)
        return Workload(name, 1, only, target, max_unavailable=most)
    pods = before.pods
    if before.newest.template != template:
        serving = before.serving
        kept = () if serving is None else (serving,)
        pods = (*kept, Pods(template, before.newest.number + 1, storage_uri_of(predictor)))
    return _rolled(replace(before, pods=pods, target=target, max_unavailable=most))


def _rolled(workload: Workload) -> Workload:
    """Return it without the old pods that new ones have replaced, and without those that are too many or missing."""
    room = max(workload.replicas - workload.missing, 0)
    pods: list[Pods] = []
    for one in reversed(workload.pods):
        available = min(one.available, room) if one.phase == "ready" else 0
        room -= available
        if not pods or available:
            pods.insert(0, replace(one, available=available))
    return replace(workload, pods=tuple(pods))


def max_unavailable_of(predictor: Mapping[str, Any]) -> int | str:
    """Return what `deploymentStrategy` says, or Kubernetes' default."""
    strategy = (predictor.get("deploymentStrategy") or {}).get("rollingUpdate") or {}
    value = strategy.get("maxUnavailable")
    return DEFAULT_MAX_UNAVAILABLE if value is None else value


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


# --- between reconciliations: pods, and autoscalers ---


def with_pods(before: Predictor, name: str, number: int, **changes: Any) -> Predictor:
    """Return the predictor with one Deployment's pods changed: their `phase`, `message`, `exit_code`.

    Where their server gets ready, the first of them answers.
    """

    def changed(one: Workload) -> Workload:
        pods = tuple(replace(each, **changes) if each.number == number else each for each in one.pods)
        pods = tuple(_first_up(each) if each.number == number else each for each in pods)
        return _rolled(replace(one, pods=pods))

    return _with_workloads(before, lambda one: changed(one) if one.name == name else one)


def _first_up(pods: Pods) -> Pods:
    return replace(pods, available=max(pods.available, 1)) if pods.phase == "ready" else pods


def with_one_more(before: Predictor, name: str) -> Predictor:
    """Return the predictor with one more pod of a Deployment's present template that answers, if one is wanted."""

    def more(one: Workload) -> Workload:
        pods = one.newest
        if one.name != name or pods.phase != "ready":
            return one
        return _rolled(replace(one, pods=(*one.pods[:-1], replace(pods, available=pods.available + 1))))

    return _with_workloads(before, more)


def with_missing(before: Predictor, missing: Mapping[str, int]) -> Predictor:
    """Return the predictor with so many pods by Deployment that do not answer; what answers again does so later."""
    return _with_workloads(before, lambda one: _rolled(replace(one, missing=missing.get(one.name, 0))))


def scaled(before: Predictor) -> Predictor:
    """Return the predictor once the autoscalers have looked: each Deployment wants what its minReplicas say."""
    return _with_workloads(before, lambda one: _rolled(replace(one, replicas=one.target)))


def _with_workloads(before: Predictor, changed: Callable[[Workload], Workload]) -> Predictor:
    return replace(before, workloads=tuple(changed(one) for one in before.workloads))


def _failure(stable: Workload) -> dict[str, Any] | None:
    if stable.newest.phase != "failed":
        return None
    newest = stable.newest
    return {"reason": "ModelLoadFailed", "message": newest.message, "exitCode": newest.exit_code}


# --- the second stage: routes ---


def route(before: Predictor, service: Object, *, gateway_api: bool = True) -> Predictor:
    """Lead users as the spec says and readiness allows; nothing changes while the stable predictor is not ready.

    Whatever somebody else has written into the routes is written again.
    """
    if not before.is_ready:
        return before
    if not gateway_api or not service["spec"].get("canary"):
        return replace(before, routed=(Backend(before.stable),))
    ready = [one for one in before.canaries if one.ready]
    weighted = [Backend(workload_name(service, {"name": one.name}), one.percent) for one in ready]
    rest = 100 - sum(one.percent for one in ready)
    return replace(before, routed=(Backend(before.stable, rest), *weighted))
