"""Statuses of serving pods, as a real kubelet and scheduler write them."""

from __future__ import annotations

from typing import Any

REVISION = "digits-predictor-00003"
SOURCE = "internal.serving.kserve.io/storage-initializer-sourceuri"
UNSCHEDULABLE = {
    "type": "PodScheduled",
    "status": "False",
    "reason": "Unschedulable",
    "message": "0/9 nodes are available: 9 Insufficient nvidia.com/gpu.",
}
READY = {"type": "Ready", "status": "True"}


def container(
    name: str = "kserve-container",
    *,
    waiting: dict[str, Any] | None = None,
    ended: dict[str, Any] | None = None,
    last: dict[str, Any] | None = None,
    restarts: int = 0,
    ready: bool = False,
) -> dict[str, Any]:
    """The status of a container: it waits, has ended, or runs; `last` is its end before."""
    state: dict[str, Any] = {"running": {"startedAt": "2026-11-26T10:00:00Z"}}
    if waiting is not None:
        state = {"waiting": waiting}
    if ended is not None:
        state = {"terminated": ended}
    return {
        "name": name,
        "image": "nvcr.io/nvidia/tritonserver:25.08-py3",
        "ready": ready,
        "restartCount": restarts,
        "state": state,
        "lastState": {} if last is None else {"terminated": last},
    }


def pod(
    *containers: dict[str, Any],
    name: str = "digits-predictor-00003-deployment-7d-x2",
    revision: str = REVISION,
    init: tuple[dict[str, Any], ...] = (),
    conditions: tuple[dict[str, Any], ...] = (),
    uri: str = "",
    ending: bool = False,
    **status: Any,
) -> dict[str, Any]:
    """A pod of a Knative revision."""
    metadata: dict[str, Any] = {
        "name": name,
        "uid": name,
        "labels": {"serving.knative.dev/revision": revision},
    }
    if uri:
        metadata["annotations"] = {SOURCE: uri}
    if ending:
        metadata["deletionTimestamp"] = "2026-11-26T10:00:00Z"
    return {
        "metadata": metadata,
        "status": {
            "phase": "Pending",
            "conditions": list(conditions),
            "containerStatuses": list(containers),
            "initContainerStatuses": list(init),
            **status,
        },
    }


def crashed(times: int, *, reason: str = "Error", code: int = 1, said: str = "") -> dict[str, Any]:
    """A serving container that has ended so often and waits for the next start."""
    end = {"exitCode": code, "reason": reason, "message": said}
    waiting = {"reason": "CrashLoopBackOff", "message": f"back-off {10 * times}s restarting failed container"}
    return container(waiting=waiting, last=end, restarts=times - 1)
