"""Why a pod has left no result, as one of the project's errors, which says who must act."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from kubernetes.client import ApiException
from kubernetes.client import models as k8s
from urllib3.exceptions import HTTPError

from include.model_release.errors import (
    ClusterUnavailableError,
    SlipwayError,
    TimedOutError,
    TransientError,
    UserError,
)

# The kubelet's reasons for a container whose image could not be pulled: first the one, later the other.
_NO_IMAGE = frozenset({"ErrImagePull", "ImagePullBackOff", "ErrImageNeverPull", "InvalidImageName"})
# For instance, a variable from a Secret that does not exist.
_NOT_CONFIGURED = frozenset({"CreateContainerConfigError", "CreateContainerError"})
_REFUSED = frozenset({400, 403, 413, 422})
# The condition of a pod that is ended for another's sake: its node is drained, or needed for a pod of higher priority.
_DISRUPTED = "DisruptionTarget"
# A quota is free again when another pod has ended.
_QUOTA = "exceeded quota"


@dataclass(frozen=True)
class PodLimits:
    """The limits of a pod as the release file gives them: sizes as text, time in seconds."""

    image: str
    memory: str
    disk: str
    scratch: str
    deadline_s: int


def silent_end(
    name: str, pod: k8s.V1Pod | None, limits: PodLimits, *, wanted: str, failure: Exception | None
) -> SlipwayError:
    """Return why a pod ended, or never began, without the result that was `wanted`: by what the cluster says of it."""
    reasons, waiting = _reasons(pod), _waiting(pod)
    for reason, message in waiting.items():
        if reason in _NO_IMAGE:
            return UserError(
                f"the image {limits.image!r} cannot be pulled",
                expected="an image that the node can get",
                found=f"{reason}: {message}".strip(": \n"),
                remedy="build and push it, correct `image` in the release file, or let the node into the registry",
            )
        if reason in _NOT_CONFIGURED:
            return UserError(
                f"the container of the pod {name!r} cannot be made",
                expected="every Secret and key that the release file names",
                found=f"{reason}: {message}".strip(": \n"),
                remedy="create it in the pod's namespace, or correct `secret_env` in the release file",
            )
    if "OOMKilled" in reasons:
        return UserError(
            f"the pod {name!r} was killed for its memory",
            expected=f"no more than `resources.memory: {limits.memory}`",
            found="OOMKilled",
            remedy="raise it in the release file",
        )
    if "Evicted" in reasons and _is_over_its_disk(message := _message(pod)):
        return UserError(
            f"the pod {name!r} was evicted for its disk",
            expected=f"no more than {limits.disk} on the node's disk, {limits.scratch} of it at /tmp",
            found=message,
            remedy="raise `resources.ephemeral_storage` and `scratch_size` in the release file",
        )
    if "DeadlineExceeded" in reasons:
        return TimedOutError(
            f"the pod {name!r} did not end in time",
            expected=f"an end within {limits.deadline_s} s, its start included",
            found="DeadlineExceeded",
            remedy="raise `timeout_s` in the release file, or `startup_timeout_s` if the node or image came late",
        )
    return TransientError(
        f"the pod {name!r} ended without a result",
        expected=wanted,
        found=", ".join(sorted(reasons | set(waiting))) or str(failure or "none").splitlines()[0],
        remedy="read the pod's log and events above: evicted, or never started",
    )


def refused_or_away(name: str, error: ApiException | HTTPError, conn_id: str) -> SlipwayError:
    """Return what the Kubernetes API's answer, or silence, means for a pod that was to run."""
    if isinstance(error, ApiException) and error.status in _REFUSED and _QUOTA not in _told(error):
        return UserError(
            f"the cluster refuses the pod {name!r}",
            expected="a pod that its namespace admits, and the right to create it",
            found=_told(error),
            remedy="correct the release file, or what the namespace admits (Pod Security, quotas, RBAC, webhooks)",
        )
    return ClusterUnavailableError(
        f"the cluster did not run the pod {name!r}",
        expected="an answer of the Kubernetes API",
        found=f"{type(error).__name__}: {str(error).splitlines()[0]}",
        remedy=f"check the API server and the connection {conn_id!r}",
    )


def _told(error: ApiException) -> str:
    """Return the API server's own sentence, where its answer holds one."""
    try:
        message = json.loads(error.body)["message"]
    except (KeyError, TypeError, ValueError):
        message = None
    return str(message or error.reason)


def _is_over_its_disk(message: str) -> bool:
    """Return whether the pod took more than it may, rather than the node having too little for all."""
    return "exceed" in message and "limit" in message


def _statuses(pod: k8s.V1Pod | None) -> tuple[Any, list[Any]]:
    status = None if pod is None else pod.status
    if status is None:
        return None, []
    return status, [one.state for one in status.container_statuses or () if one.state is not None]


def _reasons(pod: k8s.V1Pod | None) -> set[str]:
    """Return why the cluster says that a pod and its containers have ended."""
    status, states = _statuses(pod)
    conditions = () if status is None else status.conditions or ()
    disrupted = (one for one in conditions if one.type == _DISRUPTED and one.status == "True")
    ended = (status, *disrupted, *(state.terminated for state in states))
    return {one.reason for one in ended if one is not None and one.reason} - {"Completed", "Error"}


def _waiting(pod: k8s.V1Pod | None) -> dict[str, str]:
    """Return what containers that have not begun wait for, with the kubelet's message; not what every one passes
    through.
    """
    _, states = _statuses(pod)
    found = [state.waiting for state in states if state.waiting is not None]
    ordinary = {"ContainerCreating", "PodInitializing"}
    return {one.reason: one.message or "" for one in found if one.reason and one.reason not in ordinary}


def _message(pod: k8s.V1Pod | None) -> str:
    status, _ = _statuses(pod)
    return str(status.message or "") if status is not None else ""
