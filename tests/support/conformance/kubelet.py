"""What no program of the lane does: a scheduler and kubelets. Tests say which pods become ready, and when.

All is said through the API, as a kubelet says it, so the real controllers of Deployments, ReplicaSets, endpoints,
KServe and Knative act on it.
"""

from __future__ import annotations

import itertools
import logging
import threading
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime
from enum import StrEnum
from typing import Protocol

from tests.support.conformance.api import MERGE_PATCH, Api, Object

log = logging.getLogger(__name__)

NODE = "by-hand"
_LOOK_EVERY_S = 0.1
_ADDRESSES_OF_A_BLOCK = 250


class Fate(StrEnum):
    """What becomes of a pod."""

    READY = "ready"
    # Its containers run, and its readiness probe fails.
    UNREADY = "unready"
    CRASHES = "crashes"
    WAITS = "waits"


class PodFates:
    """What tests want to become of which pods; all others become ready at once."""

    def __init__(self) -> None:
        self._of_uri: dict[str, Fate] = {}
        self._of_pod: dict[str, Fate] = {}
        self._most_ready: dict[str, int] = {}

    def of_version(self, uri: str, fate: Fate) -> None:
        """Decide on every pod that serves a storageUri, those that run already among them."""
        self._of_uri[uri] = fate

    def of_pod(self, name: str, fate: Fate) -> None:
        """Decide on one pod."""
        self._of_pod[name] = fate

    def at_most_ready(self, uri: str, count: int) -> None:
        """Let only so many pods of a version become ready; the others wait."""
        self._most_ready[uri] = count

    def of(self, pod: Object, ready_others: int) -> Fate:
        """Return what becomes of a pod.

        :param ready_others: how many pods of its version were found to be ready before.
        """
        uri = storage_uri(pod)
        fate = self._of_pod.get(pod["metadata"]["name"]) or self._of_uri.get(uri, Fate.READY)
        if fate is Fate.READY and ready_others >= self._most_ready.get(uri, ready_others + 1):
            return Fate.WAITS
        return fate


def storage_uri(pod: Object) -> str:
    """Return what the pod's storage initializer downloads; "" where it has none."""
    for container in pod["spec"].get("initContainers", []):
        if container["name"] == "storage-initializer":
            return str(container["args"][0])
    return ""


def is_ready(pod: Object) -> bool:
    """Return whether the pod says of itself that it is ready."""
    conditions = pod.get("status", {}).get("conditions", [])
    return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)


class Runtime(Protocol):
    """What runs some pods in truth."""

    def fate(self, pod: Object) -> Fate | None:
        """Return how a pod is; None: it is not this one's."""

    def end(self, uid: str) -> None:
        """End what runs for a pod that is gone."""


class Kubelet(threading.Thread):
    """Binds every pod to one node, and gives it the status of its fate.

    `runtimes` are asked first; a pod that is none of theirs has the fate that the tests decided on.
    """

    def __init__(self, api: Api, fates: PodFates) -> None:
        super().__init__(name="kubelet-by-hand", daemon=True)
        self._api, self._fates = api, fates
        self.runtimes: list[Runtime] = []
        # Pods that are another node's.
        self.elsewhere: Callable[[Object], bool] = lambda pod: False
        self._stop_wanted = threading.Event()
        self._addresses = itertools.count()

    def run(self) -> None:
        """Look at all pods, again and again."""
        # Without a node a pod has no place in an EndpointSlice.
        self._api.ask("POST", "/api/v1/nodes", {"metadata": {"name": NODE}})
        while not self._stop_wanted.wait(_LOOK_EVERY_S):
            try:
                self._look()
            except Exception:  # the thread must outlive whatever it is: tests would wait for its pods
                log.exception("the pods could not be looked at")

    def stop(self) -> None:
        """End the thread."""
        self._stop_wanted.set()
        self.join()

    def _look(self) -> None:
        ready: Counter[str] = Counter()
        for pod in sorted(self._api.items("/api/v1/pods"), key=lambda one: not is_ready(one)):
            if self.elsewhere(pod):
                continue
            metadata, uri = pod["metadata"], storage_uri(pod)
            path = f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}"
            if "deletionTimestamp" in metadata:
                self._end(path, metadata["uid"])
                continue
            if not pod["spec"].get("nodeName"):
                target = {"kind": "Node", "name": NODE}
                self._api.ask(
                    "POST", f"{path}/binding", {"metadata": {"name": metadata["name"]}, "target": target}
                )
            fate = self._run_by(pod) or self._fates.of(pod, ready[uri])
            ready[uri] += fate is Fate.READY
            if not _shows(pod, fate):
                status = {"status": self._status(pod, fate)}
                self._api.ask("PATCH", f"{path}/status", status, content=MERGE_PATCH)

    def _run_by(self, pod: Object) -> Fate | None:
        for runtime in tuple(self.runtimes):
            if (fate := runtime.fate(pod)) is not None:
                return fate
        return None

    def _end(self, path: str, uid: str) -> None:
        """Delete a pod that is to end, as a kubelet does when its containers have ended."""
        for runtime in tuple(self.runtimes):
            runtime.end(uid)
        self._api.ask("DELETE", path, {"gracePeriodSeconds": 0, "preconditions": {"uid": uid}})

    def _status(self, pod: Object, fate: Fate) -> Object:
        spec, is_up, runs = pod["spec"], fate is Fate.READY, fate in (Fate.READY, Fate.UNREADY)
        address = pod.get("status", {}).get("podIP") or self._address()
        conditions = {"PodScheduled": True, "Initialized": runs, "ContainersReady": is_up, "Ready": is_up}
        inits, containers = spec.get("initContainers", []), spec["containers"]
        if runs:
            init_states = [{**_named(one), "ready": True, "state": _ended_well()} for one in inits]
            states = [
                {**_named(one), "ready": is_up, "started": True, "state": {"running": {"startedAt": _now()}}}
                for one in containers
            ]
        elif fate is Fate.CRASHES and inits:
            init_states = [{**_named(one), **_crashing()} for one in inits]
            states = [
                {**_named(one), "state": {"waiting": {"reason": "PodInitializing"}}} for one in containers
            ]
        elif fate is Fate.CRASHES:
            init_states, states = [], [{**_named(one), **_crashing()} for one in containers]
        else:
            init_states, states = [], [{**_named(one), "state": {"waiting": {}}} for one in containers]
        return {
            "phase": "Pending" if inits and not runs else "Running",
            "conditions": [_condition(kind, value) for kind, value in conditions.items()],
            "podIP": address,
            "podIPs": [{"ip": address}],
            "startTime": pod.get("status", {}).get("startTime") or _now(),
            "initContainerStatuses": init_states,
            "containerStatuses": states,
        }

    def _address(self) -> str:
        block, last = divmod(next(self._addresses), _ADDRESSES_OF_A_BLOCK)
        return f"10.244.{block}.{last + 1}"


def _shows(pod: Object, fate: Fate) -> bool:
    """Return whether the pod's status says its fate already."""
    status = pod.get("status", {})
    if fate is Fate.UNREADY:
        return not is_ready(pod) and "podIP" in status
    if fate is not Fate.CRASHES:
        return is_ready(pod) is (fate is Fate.READY)
    states = [*status.get("initContainerStatuses", []), *status.get("containerStatuses", [])]
    return not is_ready(pod) and any("waiting" in one["state"] and one["restartCount"] for one in states)


def _named(container: Object) -> Object:
    return {
        "name": container["name"],
        "image": container["image"],
        "imageID": "",
        "restartCount": 0,
        "ready": False,
    }


def _ended_well() -> Object:
    return {"terminated": {"exitCode": 0, "reason": "Completed", "startedAt": _now(), "finishedAt": _now()}}


def _crashing() -> Object:
    ended = {"exitCode": 1, "reason": "Error", "message": "no such repository"}
    return {
        "restartCount": 3,
        "state": {
            "waiting": {"reason": "CrashLoopBackOff", "message": "back-off 10s restarting failed container"}
        },
        "lastState": {"terminated": {**ended, "startedAt": _now(), "finishedAt": _now()}},
    }


def _condition(kind: str, value: bool) -> Object:
    return {"type": kind, "status": str(value), "lastTransitionTime": _now()}


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
