"""Whether the cluster itself took a candidate's pod away: then its errors say nothing about the model.

What tells this from a crash is the pod's own status. Kubernetes writes the condition `DisruptionTarget` into a pod that
it is about to end for another's sake (https://kubernetes.io/docs/concepts/workloads/pods/disruptions/), and the status'
reason where a node is lost or shut down. The kubelet of a node that is lost says nothing any more: then the control
plane sets `Ready` to False, while `ContainersReady` stays as the kubelet left it.

An eviction for the node's memory or disk (`TerminationByKubelet`) is no excuse: the model may be its cause. Nor is any
excuse taken where a container of the candidate has crashed as well.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from slipway_core.rollout.fields import items, mapping, text, whole
from slipway_core.rollout.pods.drain import serving_pods

_DISRUPTED = "DisruptionTarget"
# Kubernetes' reasons for ending a pod that are not about what the pod does.
_FOR_OTHERS = frozenset(
    {"PreemptionByScheduler", "DeletionByTaintManager", "EvictionByEvictionAPI", "DeletionByPodGC"}
)
_NODE_GONE = frozenset({"NodeLost", "NodeShutdown", "Terminated", "Preempting"})
# Above this weight most users are on the candidate: without a pod that answers they are taken back first.
MOST_USERS_PERCENT = 50


@dataclass(frozen=True)
class PodState:
    """What the cluster says of one pod of a revision.

    :param disrupted: by what the cluster took it away; "" if it did not.
    :param crashes: how often its containers ended by themselves.
    """

    name: str
    uid: str
    is_ready: bool
    disrupted: str
    crashes: int


def pod_states(pods: Iterable[Mapping[str, Any]], revision: str) -> tuple[PodState, ...]:
    """Return the states of the revision's pods; what cannot be read of a pod's status excuses nothing."""
    found = [(pod, serving) for pod in pods for serving in serving_pods([pod])]
    return tuple(_state(pod) for pod, serving in found if revision and serving.revision == revision)


def disruption(before: Iterable[PodState], now: Iterable[PodState], weight: int) -> str:
    """Return in words how the cluster disturbed the candidate since `before`; "" if it did not, or a crash did too,
    or no pod is left to answer most users.

    :param weight: percent of the users that are led to the candidate.
    """
    known, present = {pod.uid: pod for pod in before}, tuple(now)
    if any(pod.crashes > (known[pod.uid].crashes if pod.uid in known else 0) for pod in present):
        return ""
    if weight > MOST_USERS_PERCENT and not any(pod.is_ready and not pod.disrupted for pod in present):
        return ""
    lost = [pod for pod in present if pod.disrupted and not (pod.uid in known and known[pod.uid].disrupted)]
    return ", ".join(f"{pod.name}: {pod.disrupted}" for pod in lost)


def _state(pod: Mapping[str, Any]) -> PodState:
    metadata, status = mapping(pod.get("metadata")), mapping(pod.get("status"))
    conditions = {text(one.get("type")): one for one in items(status.get("conditions"))}
    containers = items(status.get("containerStatuses"))
    return PodState(
        name=text(metadata.get("name")),
        uid=text(metadata.get("uid")),
        is_ready=_is_true(conditions.get("Ready")) and not metadata.get("deletionTimestamp"),
        disrupted=_disrupted(pod, status, conditions),
        crashes=sum(_crashes(one) for one in containers),
    )


def _disrupted(pod: Mapping[str, Any], status: Mapping[str, Any], conditions: Mapping[str, Any]) -> str:
    target = mapping(conditions.get(_DISRUPTED))
    if _is_true(target) and text(target.get("reason")) in _FOR_OTHERS:
        return text(target.get("reason"))
    if text(status.get("reason")) in _NODE_GONE:
        return text(status.get("reason"))
    ready, containers_ready = conditions.get("Ready"), conditions.get("ContainersReady")
    has_gates = bool(mapping(pod.get("spec")).get("readinessGates"))
    if (
        ready is not None
        and text(ready.get("status")) == "False"
        and _is_true(containers_ready)
        and not has_gates
    ):
        return "its node does not answer"
    return ""


def _is_true(condition: Mapping[str, Any] | None) -> bool:
    return condition is not None and text(condition.get("status")) == "True"


def _crashes(container: Mapping[str, Any]) -> int:
    """Return how often a container ended by itself: its restarts, and an end of now that was a failure."""
    restarts = whole(container.get("restartCount"))
    ended = mapping(mapping(container.get("state")).get("terminated"))
    failed = (bool(ended) and ended.get("exitCode") not in (0, 143, 137)) or ended.get(
        "reason"
    ) == "OOMKilled"
    return (restarts or 0) + bool(failed)
