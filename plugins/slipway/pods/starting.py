"""The wait for a release's pod to begin: one for tasks that wait in a worker and for those that wait in the triggerer.

In place of the provider's own. That one takes most failed pulls for final, and deletes a pod for which an autoscaler is
making a node. Here an image that may come yet (`slipway_core.rollout.pods.image_pull`) and a pod that the
scheduler calls unschedulable have limits of their own, and what is waited for is said in the task's log.

What ends a wait is the provider's `PodLaunchTimeoutException`, whatever the cause: then its operator does not wait for
the end of a pod that never began. The pod's status has the cause itself (`slipway.pods.failures`).
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from airflow.providers.cncf.kubernetes.utils.pod_manager import (
    AsyncPodManager,
    PodLaunchTimeoutException,
    PodManager,
)
from kubernetes.client import ApiClient
from kubernetes.client import models as k8s

from slipway_core.rollout.fields import condition_is_true, conditions, items, mapping, text
from slipway_core.rollout.pods.image_pull import PULL_REASONS, Prospect, prospect

# How long a node may take that the autoscaler makes, and how long an image that cannot be pulled is pulled again. The
# release file's `startup_timeout_s` counts where it is longer.
NODE_LIMIT_S = 900.0
PULL_LIMIT_S = 600.0
_BARE = re.compile(r"Back-off pulling image(?: \"[^\"]*\")?")
_SAID_LIMIT = 500
# How messages about an image begin.
NOT_PULLED = "the image was not pulled"
_NO_NODE = frozenset({"Unschedulable", "SchedulingGated"})


def plain(pod: Any) -> Mapping[str, Any]:
    """Return a pod of either Kubernetes client as the API gives it; an empty mapping for None."""
    return mapping(_client().sanitize_for_serialization(pod))


@cache
def _client() -> ApiClient:
    return ApiClient()


@dataclass(frozen=True)
class Begun:
    """The pod has begun, or is over already."""


@dataclass(frozen=True)
class Waiting:
    """It is waited for; `reason` says for what, "" if it is only starting."""

    reason: str = ""


@dataclass(frozen=True)
class InVain:
    """It is not waited for any longer, and why."""

    why: str


class StartWait:
    """Say after each look at a pod whether to wait on.

    :param schedule_s: how long it may take to get a node that is there, in seconds.
    :param startup_s: how long it may take to begin on it, in seconds.
    :param began_s: when the wait began, by the clock of every look.
    """

    def __init__(self, schedule_s: float, startup_s: float, began_s: float) -> None:
        self._schedule_s, self._startup_s = schedule_s, startup_s
        self._began_s = began_s
        self._on_node_since_s: float | None = None
        self._pull_fails_since_s: float | None = None
        # By container: what the registry said, which older kubelets do not repeat while they back off.
        self._said: dict[str, str] = {}

    def next(self, pod: Mapping[str, Any], now_s: float) -> Begun | Waiting | InVain:
        """Return what to do after a look at the pod."""
        metadata, status = mapping(pod.get("metadata")), mapping(pod.get("status"))
        phase = text(status.get("phase"))
        if phase == "Failed" and not status.get("containerStatuses"):
            return InVain("the pod failed before its containers started")
        if phase not in ("", "Pending", "Unknown"):
            return Begun()
        if metadata.get("deletionTimestamp"):
            return InVain("a person or the cluster ended the pod before it started")
        if not condition_is_true(status, "PodScheduled"):
            return self._without_a_node(status, now_s)
        self._on_node_since_s = now_s if self._on_node_since_s is None else self._on_node_since_s
        failing = self._failing_pull(status)
        if failing is not None:
            self._pull_fails_since_s = now_s if self._pull_fails_since_s is None else self._pull_fails_since_s
            return self._without_an_image(*failing, now_s)
        if self._pull_fails_since_s is not None:
            # The time in which no image came is not that of the pod's start.
            self._pull_fails_since_s, self._on_node_since_s = None, now_s
        if now_s - self._on_node_since_s >= self._startup_s:
            return InVain(f"the pod did not start within {self._startup_s:.0f} s on its node")
        return Waiting()

    def _without_a_node(self, status: Mapping[str, Any], now_s: float) -> Waiting | InVain:
        why = [one for one in conditions(status, "PodScheduled") if text(one.get("reason")) in _NO_NODE]
        limit_s = max(self._schedule_s, NODE_LIMIT_S) if why else self._schedule_s
        reason = f"no node has room yet: {_in_short(text(why[0].get('message')))}" if why else ""
        if now_s - self._began_s >= limit_s:
            return InVain(f"the pod got no node within {limit_s:.0f} s. {reason}".rstrip())
        return Waiting(f"{reason} (waited for up to {limit_s:.0f} s)" if reason else "")

    def _failing_pull(self, status: Mapping[str, Any]) -> tuple[str, Prospect] | None:
        """Return what is known of an image that could not be pulled; the worst of several."""
        found: list[tuple[str, Prospect]] = []
        for one in (*items(status.get("initContainerStatuses")), *items(status.get("containerStatuses"))):
            waiting = mapping(mapping(one.get("state")).get("waiting"))
            reason, name = text(waiting.get("reason")), text(one.get("name"))
            if reason not in PULL_REASONS:
                continue
            said = _in_short(text(waiting.get("message")))
            if not _BARE.fullmatch(said) or name not in self._said:
                self._said[name] = said
            said = self._said[name]
            found.append((f"{text(one.get('image')) or name}: {reason}: {said}", prospect(reason, said)))
        return min(found, key=lambda one: one[1] != "never", default=None)

    def _without_an_image(self, reason: str, what: Prospect, now_s: float) -> Waiting | InVain:
        limit_s = max(self._startup_s, PULL_LIMIT_S)
        assert self._pull_fails_since_s is not None  # noqa: S101  set by who calls
        if what == "never":
            return InVain(f"{NOT_PULLED}: {reason}")
        if now_s - self._pull_fails_since_s >= limit_s:
            return InVain(f"{NOT_PULLED} for {limit_s:.0f} s: {reason}")
        return Waiting(f"{NOT_PULLED} yet, the node tries again (for up to {limit_s:.0f} s): {reason}")


def _in_short(message: str) -> str:
    words = " ".join(message.split())
    return words if len(words) <= _SAID_LIMIT else f"{words[:_SAID_LIMIT]}…"


async def await_start(
    read: Callable[[], Awaitable[Any]],
    wait: StartWait,
    check_interval_s: float,
    tell: Callable[[str], None],
) -> None:
    """Return when the pod has begun, or is over.

    :param read: reads the pod.
    :param tell: is given what is waited for, whenever that changes.
    :raises PodLaunchTimeoutException: it is not waited for any longer.
    """
    reason = ""
    while True:
        match wait.next(plain(await read()), time.monotonic()):
            case Begun():
                return
            case InVain(why):
                raise PodLaunchTimeoutException(why)
            case Waiting(now) if now and now != reason:
                reason = now
                tell(now)
        await asyncio.sleep(check_interval_s)


class ReleasePodManager(PodManager):
    """The provider's, with the wait for the start of a release's pod."""

    async def await_pod_start(
        self,
        pod: k8s.V1Pod,
        schedule_timeout: int = 120,
        startup_timeout: int = 120,
        check_interval: float = 1,
    ) -> None:
        """Wait until the pod has begun, see `await_start`."""

        async def read() -> Any:
            return self.read_pod(pod)

        wait = StartWait(schedule_timeout, startup_timeout, time.monotonic())
        try:
            await await_start(read, wait, check_interval, self.log.info)
        finally:
            self.stop_watching_events = True


class AsyncReleasePodManager(AsyncPodManager):
    """The same for the triggerer."""

    async def await_pod_start(
        self,
        pod: k8s.V1Pod,
        schedule_timeout: int = 120,
        startup_timeout: int = 120,
        check_interval: float = 1,
    ) -> None:
        """Wait until the pod has begun, see `await_start`."""
        wait = StartWait(schedule_timeout, startup_timeout, time.monotonic())
        try:
            await await_start(lambda: self.read_pod(pod), wait, check_interval, self.log.info)
        finally:
            self.stop_watching_events = True
