"""A pod's status as the kubelet reports it, made from what is known of its containers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from slipway_sandbox.cluster.resources import KubeObject
from slipway_sandbox.cluster.storage.times import api_time

# The exit code that container runtimes report for a command that could not be started.
START_ERROR_CODE = 128
# … and for one that was killed; the kubelet also for one of which it lost sight.
KILLED_CODE = 137

ContainerState = dict[str, Any]


def waiting(reason: str, message: str = "") -> ContainerState:
    """Return a container that does not run yet."""
    return {"waiting": {"reason": reason, **({"message": message} if message else {})}}


def running() -> ContainerState:
    """Return a container that has just been started."""
    return {"running": {"startedAt": api_time()}}


def terminated(
    before: ContainerState, exit_code: int, *, reason: str | None = None, message: str = ""
) -> ContainerState:
    """Return a container that has just ended; `before` is its state until now."""
    now = api_time()
    ended = {
        "exitCode": exit_code,
        "reason": reason or ("Completed" if exit_code == 0 else "Error"),
        "startedAt": before.get("running", {}).get("startedAt", now),
        "finishedAt": now,
    }
    return {"terminated": {**ended, **({"message": message} if message else {})}}


def pod_status(
    pod: KubeObject,
    phase: str,
    states: Mapping[str, ContainerState],
    *,
    reason: str = "",
    message: str = "",
) -> dict[str, Any]:
    """Return the whole status: phase, conditions (with the time of their last change), one entry for each container."""
    before = pod.get("status", {})
    up = phase == "Running" and all("running" in state for state in states.values())
    not_up = "PodCompleted" if phase in ("Succeeded", "Failed") else "ContainersNotReady"
    status = {
        "phase": phase,
        "qosClass": before.get("qosClass", "BestEffort"),
        "hostIP": "127.0.0.1",
        "podIP": "127.0.0.1",
        "startTime": before.get("startTime", api_time()),
        "conditions": [
            _condition(before, "PodScheduled", True),
            _condition(before, "Initialized", True),
            _condition(before, "ContainersReady", up, not_up),
            _condition(before, "Ready", up, not_up),
        ],
        "containerStatuses": [
            _container_status(container, states[container["name"]]) for container in pod["spec"]["containers"]
        ],
    }
    return status | {key: text for key, text in (("reason", reason), ("message", message)) if text}


def unschedulable_status(pod: KubeObject, message: str) -> dict[str, Any]:
    """Return the status of a pod that no node can take."""
    before = pod.get("status", {})
    condition = _condition(before, "PodScheduled", False, "Unschedulable") | {"message": message}
    return {"phase": "Pending", "qosClass": before.get("qosClass", "BestEffort"), "conditions": [condition]}


def lost_status(pod: KubeObject) -> dict[str, Any]:
    """Return the status of a pod whose processes ended with an earlier process of the emulator."""
    message = "The container could not be located when the pod was terminated: the node was restarted"
    states = {
        status["name"]: status["state"]
        if "terminated" in status["state"]
        else terminated(status["state"], KILLED_CODE, reason="ContainerStatusUnknown", message=message)
        for status in pod["status"]["containerStatuses"]
    }
    return pod_status(
        pod, "Failed", states, reason="NodeLost", message="the node restarted while the pod ran"
    )


def _condition(before: Mapping[str, Any], kind: str, true: bool, reason: str = "") -> dict[str, Any]:
    status = "True" if true else "False"
    for earlier in before.get("conditions", []):
        if earlier["type"] == kind and earlier["status"] == status:
            since = earlier["lastTransitionTime"]
            break
    else:
        since = api_time()
    condition = {"type": kind, "status": status, "lastTransitionTime": since}
    return condition if true else {**condition, "reason": reason}


def _container_status(container: Mapping[str, Any], state: ContainerState) -> dict[str, Any]:
    is_running = "running" in state
    return {
        "name": container["name"],
        "image": container["image"],
        "imageID": "" if "waiting" in state else container["image"],
        "ready": is_running,
        "started": is_running,
        "restartCount": 0,
        "state": state,
        "lastState": {},
    }
