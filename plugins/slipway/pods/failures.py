"""Why a pod has left no result, as one of the project's errors, which says who must act.

By what the cluster says of the pod: its own reason and conditions, and of each container the state, the exit code and
the last words. What a person must mend is a `UserError`, what the cluster lacks may be tried again.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from slipway.pods.refusals import refused_or_away
from slipway.pods.starting import NOT_PULLED, plain
from slipway_core.errors import (
    PodStartError,
    SlipwayError,
    TimedOutError,
    TransientError,
    UserError,
)
from slipway_core.rollout.fields import conditions, items, mapping, text, whole
from slipway_core.rollout.pods.image_pull import PULL_REASONS, prospect

__all__ = ["PodLimits", "refused_or_away", "silent_end"]

_BASE = "base"
# For instance, a variable from a Secret that does not exist, or a driver that is too old for the image.
_NOT_CONFIGURED = frozenset({"CreateContainerConfigError", "CreateContainerError", "RunContainerError"})
_NOT_STARTED = frozenset({"StartError", "ContainerCannotRun"})
_ORDINARY = frozenset({"ContainerCreating", "PodInitializing"})
# The condition of a pod that is ended for another's sake: its node is drained, or needed for a pod of higher priority.
_DISRUPTED = "DisruptionTarget"
_SAID_LIMIT = 600


@dataclass(frozen=True)
class PodLimits:
    """The limits of a pod as the release file gives them: sizes as text, time in seconds."""

    image: str
    memory: str
    disk: str
    scratch: str
    deadline_s: int


@dataclass(frozen=True)
class _Container:
    """What the cluster says of a container; `kind` is what messages call it."""

    kind: str
    name: str
    image: str
    waiting: Mapping[str, Any]
    ended: Mapping[str, Any]

    @property
    def is_base(self) -> bool:
        return self.kind == "container" and self.name == _BASE

    @property
    def label(self) -> str:
        return f"the {self.kind} {self.name!r}"

    @property
    def why(self) -> str:
        return text(self.waiting.get("reason"))

    @property
    def failed(self) -> bool:
        return bool(self.ended) and self.ended.get("exitCode") != 0


@dataclass(frozen=True)
class _SilentPod:
    """The pod, as the explanations look at it."""

    name: str
    status: Mapping[str, Any]
    containers: Sequence[_Container]
    limits: PodLimits
    failure: str

    @property
    def reason(self) -> str:
        return text(self.status.get("reason"))


def silent_end(
    name: str,
    pod: Any,
    limits: PodLimits,
    *,
    wanted: str,
    failure: BaseException | None,
    warnings: Callable[[], Sequence[str]] = tuple,
) -> SlipwayError:
    """Return why a pod ended, or never began, without the result that was `wanted`: by what the cluster says of it.

    :param pod: as either Kubernetes client gives it; None: it is gone.
    :param failure: what was raised of it.
    :param warnings: returns the messages of the cluster's events about it, oldest first; asked where its status says
        nothing.
    """
    whole_pod = plain(pod)
    status = mapping(whole_pod.get("status"))
    failed = (str(failure or "").splitlines() or [""])[0]
    seen = _SilentPod(name, status, tuple(_containers(status)), limits, failed)
    for explained in (_not_pulled, _not_made, _out_of_memory, _over_its_disk, _too_late, _not_started):
        error = explained(seen)
        if error is not None:
            return error
    error = _init_failed(seen) or _without_a_node(seen)
    if error is not None:
        return error
    found = "; ".join(_facts(seen)) or "; ".join(warnings()) or failed or "none"
    return TransientError(
        f"the pod {name!r} ended without a result",
        expected=wanted,
        found=found,
        remedy="read the pod's log and events above: evicted, or never started",
    )


def _not_pulled(pod: _SilentPod) -> SlipwayError | None:
    for one in pod.containers:
        if one.why not in PULL_REASONS:
            continue
        image = one.image or pod.limits.image
        found = f"{one.why}: {_said(one.waiting)}"
        what = prospect(one.why, found)
        if what == "may_come" and pod.failure.startswith(NOT_PULLED):
            # An older kubelet does not repeat what the registry said; who waited for the pod has heard it.
            found, what = pod.failure, prospect(one.why, pod.failure)
        if what != "never":
            remedy = "it is tried again; check the registry, and that the node can reach it"
            if what == "not_permitted":
                remedy = (
                    "it is tried again, because a node's login may be renewed; otherwise, let the node pull "
                    "from the registry"
                )
            return PodStartError(
                f"the image {image!r} could not be pulled in time",
                expected="an image that the node can pull",
                found=found.strip(": \n"),
                remedy=remedy,
            )
        remedy = (
            "build and push it, correct `image` in the release file, or let the node pull from the registry"
        )
        if not one.is_base:
            remedy = f"{one.label} is added by the cluster: find out what adds it, and with which image"
        return UserError(
            f"the image {image!r} cannot be pulled",
            expected="an image that the node can pull",
            found=found.strip(": \n"),
            remedy=remedy,
        )
    return None


def _not_made(pod: _SilentPod) -> SlipwayError | None:
    for one in pod.containers:
        if one.why not in _NOT_CONFIGURED:
            continue
        what = "container" if one.is_base else f"{one.kind} {one.name!r}"
        remedy = "create it in the pod's namespace, or correct `secret_env` in the release file"
        if one.why != "CreateContainerConfigError":
            remedy = "give it a node that can run this image (driver, GPU, architecture), or correct `image`"
        return UserError(
            f"the {what} of the pod {pod.name!r} cannot be created",
            expected="every Secret and key that the release file names, and a node that can run its image",
            found=f"{one.why}: {_said(one.waiting)}".strip(": \n"),
            remedy=remedy,
        )
    return None


def _out_of_memory(pod: _SilentPod) -> SlipwayError | None:
    killed = [one for one in pod.containers if text(one.ended.get("reason")) == "OOMKilled"]
    if any(one.is_base for one in killed):
        return UserError(
            f"the pod {pod.name!r} was killed because it used too much memory",
            expected=f"no more than `resources.memory: {pod.limits.memory}`",
            found="OOMKilled",
            remedy="raise it in the release file",
        )
    for one in killed:
        return UserError(
            f"{one.label} of the pod {pod.name!r} was killed because it used too much memory",
            expected="no more than its own limit",
            found=f"OOMKilled; {'; '.join(_ends(pod))}",
            remedy="raise that container's limit where it is configured; `resources.memory` does not apply to it",
        )
    return None


def _over_its_disk(pod: _SilentPod) -> SlipwayError | None:
    message = _said(pod.status)
    if pod.reason != "Evicted" or not ("exceed" in message and "limit" in message):
        return None
    return UserError(
        f"the pod {pod.name!r} was evicted because it used too much disk",
        expected=f"no more than {pod.limits.disk} on the node's disk, {pod.limits.scratch} of it at /tmp",
        found=message,
        remedy="raise `resources.ephemeral_storage` and `scratch_size` in the release file",
    )


def _too_late(pod: _SilentPod) -> SlipwayError | None:
    if pod.reason != "DeadlineExceeded":
        return None
    return TimedOutError(
        f"the pod {pod.name!r} did not end in time",
        expected=f"an end within {pod.limits.deadline_s} s, including its start",
        found="DeadlineExceeded",
        remedy="raise `timeout_s` in the release file, or `startup_timeout_s` if the node or image came late",
    )


def _not_started(pod: _SilentPod) -> SlipwayError | None:
    for one in pod.containers:
        if text(one.ended.get("reason")) not in _NOT_STARTED:
            continue
        return UserError(
            f"{one.label} of the pod {pod.name!r} cannot be started",
            expected=f"an image with its program, for the node's architecture: {one.image or pod.limits.image}",
            found=_end(one),
            remedy="correct `image` in the release file, or build it again from `include/images/`",
        )
    return None


def _init_failed(pod: _SilentPod) -> SlipwayError | None:
    """Return of a pod which of its init containers failed, so that its own program never ran."""
    for one in pod.containers:
        if one.kind != "init container" or not one.failed:
            continue
        return PodStartError(
            f"{one.label} of the pod {pod.name!r} failed",
            expected="exit code 0: the rest of the pod starts only then",
            found=_end(one),
            remedy="it is tried again; read its log, and find out what put it into the pod (a mesh, a vault, a policy)",
        )
    return None


def _without_a_node(pod: _SilentPod) -> SlipwayError | None:
    if text(pod.status.get("phase")) not in ("", "Pending"):
        return None
    for one in conditions(pod.status, "PodScheduled"):
        if one.get("status") == "False":
            return PodStartError(
                f"the pod {pod.name!r} got no node",
                expected="a node with the resources that it requests",
                found=f"{text(one.get('reason'))}: {_said(one)}".strip(": "),
                remedy="it is tried again; check that the autoscaler can create such a node (`node_selector`, "
                "`tolerations`, `resources`), and raise `startup_timeout_s` if that takes longer",
            )
    return None


def _facts(pod: _SilentPod) -> Iterator[str]:
    """Yield what the cluster says of the end: of the pod, and of its containers where it says nothing of the pod."""
    disrupted = [
        text(one.get("reason")) for one in conditions(pod.status, _DISRUPTED) if one.get("status") == "True"
    ]
    reasons = [one for one in (pod.reason, *disrupted) if one and one not in ("Completed", "Error")]
    message = _said(pod.status)
    yield from (f"{one}: {message}" if one == pod.reason and message else one for one in reasons)
    if reasons:
        return
    yield from _ends(pod)
    for one in pod.containers:
        if one.why and one.why not in _ORDINARY:
            yield f"{one.label}: {one.why}: {_said(one.waiting)}".rstrip(": ")


def _ends(pod: _SilentPod) -> Iterator[str]:
    yield from (f"{one.label}: {_end(one)}" for one in pod.containers if one.failed)


def _end(container: _Container) -> str:
    """Return how a container ended: the exit code, the reason and its last words."""
    code, reason = whole(container.ended.get("exitCode")), text(container.ended.get("reason"))
    by = {137: ", killed from outside (SIGKILL)", 143: ", asked to stop (SIGTERM)"}.get(code or 0, "")
    by = "" if reason == "OOMKilled" else by
    said = _said(container.ended)
    return f"exit code {code}{f' ({reason})' if reason else ''}{by}{f': {said}' if said else ''}"


def _containers(status: Mapping[str, Any]) -> Iterator[_Container]:
    for kind, key in (("init container", "initContainerStatuses"), ("container", "containerStatuses")):
        for one in items(status.get(key)):
            state, last = mapping(one.get("state")), mapping(one.get("lastState"))
            yield _Container(
                kind,
                text(one.get("name")),
                text(one.get("image")),
                mapping(state.get("waiting")),
                mapping(state.get("terminated")) or mapping(last.get("terminated")),
            )


def _said(part: Mapping[str, Any]) -> str:
    """Return a message in one line; its end where it is long, for there a program says why it ends."""
    words = re.sub(r"\s+", " ", text(part.get("message"))).strip()
    return words if len(words) <= _SAID_LIMIT else f"…{words[-_SAID_LIMIT:]}"
