"""The logs of all pods, found by pod and container."""

from __future__ import annotations

import shutil
from pathlib import Path

from slipway_sandbox.cluster.node.container_log import ContainerLog
from slipway_sandbox.cluster.resources import KubeObject


class PodLogs:
    """Keeps the log of each container in `folder`/POD-UID/CONTAINER.log until its pod is gone."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._open: dict[tuple[str, str], ContainerLog] = {}

    def of(self, pod: KubeObject, container: str) -> ContainerLog:
        """Return the log of one container, the same one for the writer and all readers."""
        uid = pod["metadata"]["uid"]
        key = (uid, container)
        if key not in self._open:
            self._open[key] = ContainerLog(self._folder / uid / f"{container}.log")
        return self._open[key]

    def forget(self, pod: KubeObject) -> None:
        """Delete the logs of a pod."""
        uid = pod["metadata"]["uid"]
        for key in [key for key in self._open if key[0] == uid]:
            self._open.pop(key).close()
        shutil.rmtree(self._folder / uid, ignore_errors=True)
