"""What keeps a serving pod from answering, by its own status: the cause, what was found, and what to do about it.

A kubelet and the scheduler write into a pod why it does not run: while KServe and Knative still say "deploying" it is
known here, with the container, its exit code and its last words.

    pod cannot be placed        Pending             the scheduler's own sentence; a node may be coming
    image cannot be pulled      ImagePullBackOff    the registry's words; whether it can come, `image_pull.py` knows
    container cannot be made    CreateContainerConfigError, CreateContainerError, RunContainerError
    container ends by itself    CrashLoopBackOff    after two ends or more; Error after the first; OOMKilled
    pod is being ended          Terminating
    pod was ended               Evicted, NodeLost, … the pod's own reason

Each has a patience: how long it is waited for whether it passes. A pod that is ready, or only loads its model, has no
trouble. Nothing here raises: what cannot be read of a status is no trouble.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from slipway_core.rollout.fields import condition_is_true, conditions, items, mapping, text, whole
from slipway_core.rollout.pods.image_pull import PULL_REASONS, prospect

# A pod that has ended so often, and was never ready, does not come up by one start more.
CRASHES_TO_GIVE_UP, HOPELESS_CRASHES_TO_GIVE_UP = 3, 2
# A Secret may be on its way from a vault, a registry may give the node a new login.
CONFIG_PATIENCE_S, LOGIN_PATIENCE_S = 60.0, 300.0
_CANNOT_BE_MADE = frozenset({"CreateContainerConfigError", "CreateContainerError", "RunContainerError"})
# Ends that the next start cannot change: too little memory for the model, a program that is not there or not for this
# machine.
_HOPELESS_ENDS = frozenset({"OOMKilled", "StartError", "ContainerCannotRun"})
# What a cluster puts beside the server: Knative, KServe, meshes, vaults.
_SIDECARS = frozenset(
    {"queue-proxy", "agent", "istio-proxy", "linkerd-proxy", "vault-agent", "cloud-sql-proxy"}
)
_SAID_LIMIT = 600

Blamed = Literal["version", "setup", "cluster"]


@dataclass(frozen=True)
class PodTrouble:
    """Why a pod does not answer.

    :param cause: in Kubernetes' own words, such as `CrashLoopBackOff`.
    :param about: the pod, and its container where it is one's.
    :param found: what is known, as a sentence without its end.
    :param remedy: what to do.
    :param patience_s: how long it may last before it is known that waiting does not help; 0: at once; inf: it may pass.
    :param blames: what has to change: the version, what it was given to run with (image, memory, rights), or nothing
        but the cluster around it.
    """

    cause: str
    about: str
    found: str
    remedy: str
    patience_s: float = math.inf
    blames: Blamed = "cluster"

    @property
    def key(self) -> tuple[str, str]:
        """What tells one trouble from another, however often it is seen."""
        return self.about, self.cause

    @property
    def summary(self) -> str:
        """Pod, cause and what was found, in one line."""
        return f"{self.about}: {self.cause}: {self.found}"


def pod_trouble(pod: Mapping[str, Any]) -> PodTrouble | None:
    """Return why the pod does not answer; None if it is ready, or nothing is known to hold it up."""
    metadata, status = mapping(pod.get("metadata")), mapping(pod.get("status"))
    name = text(metadata.get("name"))
    if metadata.get("deletionTimestamp"):
        return _terminating(name)
    if condition_is_true(status, "Ready"):
        return None
    if text(status.get("phase")) == "Failed" and text(status.get("reason")):
        return _ended(name, status)
    found = list(_of_containers(pod, name, status))
    if found:
        return min(found, key=lambda one: one.patience_s)
    return _pending(name, status)


def _terminating(name: str) -> PodTrouble:
    return PodTrouble(
        "Terminating",
        f"the pod {name}",
        "somebody or the cluster is ending it",
        "wait for the pod that replaces it; if it remains, check its node and its finalizers (kubectl describe pod)",
    )


def _ended(name: str, status: Mapping[str, Any]) -> PodTrouble:
    reason = text(status.get("reason"))
    return PodTrouble(
        reason,
        f"the pod {name}",
        _said(status) or "the cluster has ended it",
        "look at its node (kubectl describe node): for memory or disk, raise `rollout.resources`; else another pod "
        "replaces it",
    )


def _pending(name: str, status: Mapping[str, Any]) -> PodTrouble | None:
    """Return why the pod has no node yet."""
    for condition in conditions(status, "PodScheduled"):
        if condition.get("status") == "False":
            return PodTrouble(
                "Pending",
                f"the pod {name}",
                f"it has no node yet. {text(condition.get('reason'))}: {_said(condition)}".rstrip(": "),
                "wait for the autoscaler, add nodes that have what it asks for, or correct what the release file asks "
                "for (`rollout.resources`, and what places its pods)",
            )
    return None


def _of_containers(pod: Mapping[str, Any], name: str, status: Mapping[str, Any]) -> Iterator[PodTrouble]:
    """Yield the trouble of each container that has one; init containers go first."""
    for kind, key in (("init container", "initContainerStatuses"), ("container", "containerStatuses")):
        for one in items(status.get(key)):
            about = f"the {kind} {text(one.get('name')) or '?'} of the pod {name}"
            found = _of_container(about, one, is_init=kind != "container")
            if found is not None:
                yield found


def _of_container(about: str, container: Mapping[str, Any], *, is_init: bool) -> PodTrouble | None:
    state = mapping(container.get("state"))
    waiting, now = mapping(state.get("waiting")), mapping(state.get("terminated"))
    reason = text(waiting.get("reason"))
    if reason in PULL_REASONS:
        return _not_pulled(about, reason, text(container.get("image")), _said(waiting))
    last = mapping(mapping(container.get("lastState")).get("terminated"))
    end = now or last
    if is_init and now and now.get("exitCode") == 0:
        return None
    if end and container.get("ready") is not True:
        is_running = "running" in state
        ends = (whole(container.get("restartCount")) or 0) + (0 if is_running else 1)
        is_server = not is_init and text(container.get("name")) not in _SIDECARS
        return _crashed(about, end, max(ends, 1), is_server=is_server)
    if reason in _CANNOT_BE_MADE:
        return PodTrouble(
            reason,
            about,
            _said(waiting) or "it cannot be made",
            "create what it names (Secret, ConfigMap, volume, runtime class) in the namespace, or correct the release "
            "file or the ServingRuntime",
            CONFIG_PATIENCE_S,
            blames="setup",
        )
    return None


def _not_pulled(about: str, reason: str, image: str, said: str) -> PodTrouble:
    what = prospect(reason, said)
    remedy = {
        "never": "push the image, or correct its name (`rollout.runtime_version`, the ServingRuntime)",
        "not_permitted": "let the nodes into the registry: the node's role, or the service account's imagePullSecrets",
        "may_come": "the kubelet tries again automatically; check the registry and the node's network path to it",
    }[what]
    patience_s = {"never": 0.0, "not_permitted": LOGIN_PATIENCE_S, "may_come": math.inf}[what]
    found = f"the image {image or '?'} cannot be pulled. {said}".rstrip(". ")
    blames: Blamed = "cluster" if what == "may_come" else "setup"
    return PodTrouble(reason, about, found, remedy, patience_s, blames)


def _crashed(about: str, end: Mapping[str, Any], ends: int, *, is_server: bool) -> PodTrouble:
    """Return what is known of a container that has ended by itself, `ends` times by now."""
    reason, code = text(end.get("reason")), whole(end.get("exitCode"))
    limit = HOPELESS_CRASHES_TO_GIVE_UP if reason in _HOPELESS_ENDS else CRASHES_TO_GIVE_UP
    cause = reason if reason in _HOPELESS_ENDS else "CrashLoopBackOff" if ends > 1 else "Error"
    said = _said(end)
    found = (
        f"it has ended {_times(ends)}, last with exit code {'unknown' if code is None else code}"
        f"{f' ({reason})' if reason else ''}{f': {said}' if said else ', without a log line'}"
    )
    patience_s = 0.0 if ends >= limit else math.inf
    blames: Blamed = "version" if is_server and reason not in _HOPELESS_ENDS else "setup"
    return PodTrouble(cause, about, found, _remedy_of_end(reason, is_server), patience_s, blames)


def _remedy_of_end(reason: str, is_server: bool) -> str:
    if reason == "OOMKilled" and not is_server:
        return "raise that container's own memory limit where it is configured (KServe, Knative, the mesh)"
    if reason == "OOMKilled":
        return "raise `rollout.resources.memory` in the release file, or make the model smaller"
    if reason in ("StartError", "ContainerCannotRun"):
        return "the image has not the program, or is built for another machine: correct `rollout.runtime_version`"
    if not is_server:
        return (
            "read its log (kubectl logs POD -c CONTAINER --previous). The storage initializer needs the right to read "
            "the version's objects: the service account's role, the key of their encryption, the way to S3"
        )
    return (
        "read its log (kubectl logs POD -c CONTAINER --previous): a model that does not load on this server's version, "
        "a backend or GPU that is missing, too little memory. Correct the model or `rollout`, and release again"
    )


def _times(count: int) -> str:
    return {1: "once", 2: "twice"}.get(count, f"{count} times")


def _said(part: Mapping[str, Any]) -> str:
    """Return a status' message in one line: its end where it is long, for there a program says why it ends."""
    words = " ".join(text(part.get("message")).split())
    return words if len(words) <= _SAID_LIMIT else f"…{words[-_SAID_LIMIT:]}"
