"""The node of the emulated cluster: sees to it that what the store says about pods is so."""

from __future__ import annotations

import asyncio
import logging
import shutil

from slipway_sandbox.cluster.errors import ApiError
from slipway_sandbox.cluster.node.image_puller import ImagePuller
from slipway_sandbox.cluster.node.pod_logs import PodLogs
from slipway_sandbox.cluster.node.pod_run import PodRun
from slipway_sandbox.cluster.node.pod_status import lost_status
from slipway_sandbox.cluster.node.processes import CLUSTER_MARK, kill_marked
from slipway_sandbox.cluster.resources import KubeObject
from slipway_sandbox.cluster.settings import NodeSettings
from slipway_sandbox.cluster.storage.events import EventRecorder
from slipway_sandbox.cluster.storage.store import ObjectStore

log = logging.getLogger(__name__)

# When the node itself is stopped, pods get this long between SIGTERM and SIGKILL, whatever they asked for.
_SHUTDOWN_GRACE_S = 2.0


class PodRunner:
    """Runs the pods of `store` on this machine, as `node` says; their output goes to `logs`."""

    def __init__(self, store: ObjectStore, node: NodeSettings, logs: PodLogs) -> None:
        self._store = store
        self._node = node
        self._logs = logs
        self._events = EventRecorder(store, "kubelet")
        self._images = ImagePuller(node)
        self._runs: dict[str, tuple[PodRun, asyncio.Task[None]]] = {}

    async def run(self) -> None:
        """Run until cancelled; then no process of any pod is left."""
        leftover = await asyncio.to_thread(kill_marked, CLUSTER_MARK, str(self._node.state_dir))
        if leftover:
            log.warning("Ended %d processes that an earlier run had left behind.", leftover)
        try:
            async for event, pod in self._store.watch("pods"):
                self._react(event, pod)
        finally:
            await self._stop()

    def _react(self, event: str, pod: KubeObject) -> None:
        if pod["spec"].get("nodeName", self._node.name) != self._node.name:
            return  # another node's
        metadata, uid = pod["metadata"], pod["metadata"]["uid"]
        known = self._runs.get(uid)
        if event == "DELETED":
            if known:
                known[0].stop(0)
            else:
                self._clear(pod)
        elif "deletionTimestamp" in metadata:
            if known:
                known[0].stop(metadata["deletionGracePeriodSeconds"])
            else:
                self._forget(pod)
        elif known is None and pod["status"]["phase"] not in ("Succeeded", "Failed"):
            self._begin(pod)

    def _begin(self, pod: KubeObject) -> None:
        metadata = pod["metadata"]
        if "containerStatuses" in pod["status"]:
            # It ran under an earlier process of the emulator, and ended with it.
            status = lost_status(pod)
            self._store.update_status("pods", metadata["namespace"], metadata["name"], status)
            return
        run = PodRun(pod, self._store, self._node, self._logs, self._events, self._images)
        task = asyncio.create_task(run.run(), name=f"pod {metadata['namespace']}/{metadata['name']}")
        self._runs[metadata["uid"]] = (run, task)
        task.add_done_callback(lambda done: self._ended(pod, done))

    def _ended(self, pod: KubeObject, task: asyncio.Task[None]) -> None:
        metadata = pod["metadata"]
        self._runs.pop(metadata["uid"], None)
        if task.cancelled():
            return
        if error := task.exception():
            log.error("Pod %s/%s: the node failed.", metadata["namespace"], metadata["name"], exc_info=error)
        if self._is_unwanted(pod):
            self._forget(pod)

    def _is_unwanted(self, pod: KubeObject) -> bool:
        metadata = pod["metadata"]
        try:
            present = self._store.get("pods", metadata["namespace"], metadata["name"])["metadata"]
        except ApiError:
            return True
        return present["uid"] != metadata["uid"] or "deletionTimestamp" in present

    def _forget(self, pod: KubeObject) -> None:
        metadata = pod["metadata"]
        self._store.finalize("pods", metadata["namespace"], metadata["name"], metadata["uid"])
        self._clear(pod)

    def _clear(self, pod: KubeObject) -> None:
        self._logs.forget(pod)
        shutil.rmtree(self._node.state_dir / "pods" / pod["metadata"]["uid"], ignore_errors=True)

    async def _stop(self) -> None:
        runs = list(self._runs.values())
        await asyncio.gather(*(run.shut_down(_SHUTDOWN_GRACE_S) for run, _ in runs), return_exceptions=True)
        for _, task in runs:
            task.cancel()
        await asyncio.gather(*(task for _, task in runs), return_exceptions=True)
        await self._images.stop()
        await asyncio.to_thread(kill_marked, CLUSTER_MARK, str(self._node.state_dir))
