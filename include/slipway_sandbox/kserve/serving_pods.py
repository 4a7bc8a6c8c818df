"""The pods of servers, as the cluster shows them: one for each server, which whoever may can delete.

One server stands for all pods of a version, so there is one pod of it. It is on a node of its own, which the emulated
kubelet leaves alone: the server is the controller's process. A pod that is deleted takes its server with it, within
the grace that was asked for, and where its version is still wanted another one comes.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from slipway_sandbox.cluster.errors import ApiError
from slipway_sandbox.kserve.settings import Store

PODS = "pods"
NODE = "emulated-serving"
SERVICE_LABEL = "serving.kserve.io/inferenceservice"
SOURCE_URI = "internal.serving.kserve.io/storage-initializer-sourceuri"
# Kubernetes' default, which KServe leaves as it is in Standard mode.
GRACE_S = 30
_RESTRICTED = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "runAsNonRoot": True,
    "seccompProfile": {"type": "RuntimeDefault"},
}


@dataclass(frozen=True)
class PodName:
    """Which pod a server has."""

    namespace: str
    name: str
    uid: str


class ServingPods:
    """The pods of all services; `on_end` receives the uid of each that must end, and within how many seconds."""

    def __init__(self, store: Store, on_end: Callable[[str, int], None]) -> None:
        self._store = store
        self._on_end = on_end

    async def run(self) -> None:
        """Follow what is asked of the pods, until cancelled."""
        async for kind, pod in self._store.watch(PODS):
            metadata = pod["metadata"]
            if pod["spec"].get("nodeName") == NODE and kind == "MODIFIED" and "deletionTimestamp" in metadata:
                self._on_end(metadata["uid"], int(metadata["deletionGracePeriodSeconds"]))

    def forget_all(self) -> None:
        """Remove what an earlier controller has left: its servers ended with it."""
        for pod in self._store.list(PODS):
            if pod["spec"].get("nodeName") == NODE:
                metadata = pod["metadata"]
                self._store.finalize(PODS, metadata["namespace"], metadata["name"], metadata["uid"])

    def add(self, namespace: str, name: str, labels: Mapping[str, str], storage_uri: str) -> PodName | None:
        """Show the pod of a server; None if the namespace is gone."""
        manifest: dict[str, Any] = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "generateName": f"{name}-",
                "namespace": namespace,
                "labels": dict(labels),
                "annotations": {SOURCE_URI: storage_uri},
            },
            "spec": {
                "nodeName": NODE,
                "restartPolicy": "Never",
                "terminationGracePeriodSeconds": GRACE_S,
                "containers": [
                    {"name": "kserve-container", "image": "emulated", "securityContext": _RESTRICTED}
                ],
            },
        }
        try:
            metadata = self._store.create(manifest)["metadata"]
            now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
            self._store.update_status(
                PODS, namespace, metadata["name"], {"phase": "Running", "startTime": now}
            )
        except ApiError:
            return None
        return PodName(namespace, metadata["name"], metadata["uid"])

    def begin_to_end(self, pod: PodName | None) -> None:
        """Show that a pod is ending, as when its Deployment was deleted or scaled down."""
        if pod is not None:
            with contextlib.suppress(ApiError):
                self._store.delete(PODS, pod.namespace, pod.name)

    def remove(self, pod: PodName | None) -> None:
        """Show a pod no longer: its server has ended."""
        if pod is not None:
            self._store.finalize(PODS, pod.namespace, pod.name, pod.uid)
