"""The life of one pod on the node: scheduled, pulled, started, followed to its end or ended by force."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from slipway_sandbox.cluster.admission.pod_rules import quantity_value
from slipway_sandbox.cluster.errors import ApiError
from slipway_sandbox.cluster.node.container_process import (
    CannotConfigureError,
    CannotStartError,
    ContainerProcess,
    launch_plan,
)
from slipway_sandbox.cluster.node.image_puller import ImagePuller
from slipway_sandbox.cluster.node.pod_logs import PodLogs
from slipway_sandbox.cluster.node.pod_status import (
    KILLED_CODE,
    START_ERROR_CODE,
    ContainerState,
    pod_status,
    running,
    terminated,
    unschedulable_status,
    waiting,
)
from slipway_sandbox.cluster.node.processes import CLUSTER_MARK, CONTAINER_MARK, kill_marked
from slipway_sandbox.cluster.resources import KubeObject
from slipway_sandbox.cluster.settings import NodeSettings
from slipway_sandbox.cluster.storage.events import EventRecorder
from slipway_sandbox.cluster.storage.store import ObjectStore
from slipway_sandbox.host.images import ImageError

log = logging.getLogger(__name__)

# How often a pod that waits for its image or for room on the node looks again.
_RETRY_S = 2.0
_FALLBACK_LINES, _FALLBACK_BYTES = 80, 2048
_NOT_EMULATED = ("affinity", "nodeSelector")


class PodRun:
    """Brings one pod from Pending to its end. `run` returns when nothing of it is left running."""

    def __init__(
        self,
        pod: KubeObject,
        store: ObjectStore,
        node: NodeSettings,
        logs: PodLogs,
        events: EventRecorder,
        images: ImagePuller,
    ) -> None:
        self._pod = pod
        self._store = store
        self._node = node
        self._logs = logs
        self._events = events
        self._images = images
        self._states: dict[str, ContainerState] = {
            container["name"]: waiting("ContainerCreating") for container in pod["spec"]["containers"]
        }
        self._processes: dict[str, ContainerProcess] = {}
        self._grace_s: float = 0.0
        self._stopping = asyncio.Event()
        self._hurry: asyncio.Task[None] | None = None

    async def run(self) -> None:
        """Run the pod from its scheduling to its end; raises nothing that the pod itself could cause."""
        work = asyncio.create_task(self._work())
        stop = asyncio.create_task(self._stopping.wait())
        deadline = asyncio.create_task(self._deadline())
        try:
            await asyncio.wait({work, stop, deadline}, return_when=asyncio.FIRST_COMPLETED)
            if not work.done():
                # From here on nobody else reports: a pod that is ended by force has one last status.
                work.cancel()
                await asyncio.gather(work, return_exceptions=True)
                await (self._stopped() if stop.done() else self._overdue())
            elif error := work.exception():
                self._broken(error)
        finally:
            for task in (work, stop, deadline):
                task.cancel()
            await asyncio.gather(work, stop, deadline, return_exceptions=True)
            await self._sweep()

    def stop(self, grace_s: float) -> None:
        """End the pod, by force after `grace_s` seconds; called again, the shorter grace counts."""
        if self._stopping.is_set():
            self._hurry = asyncio.create_task(self._kill_after(grace_s))
        else:
            self._grace_s = grace_s
            self._stopping.set()

    async def shut_down(self, grace_s: float) -> None:
        """End the pod's processes because the node goes down; what they end with is what it reports."""
        await self._end(grace_s)

    async def _work(self) -> None:
        """Do everything from scheduling to the last exit code."""
        await self._until_scheduled()
        self._report("Pending")
        self._tell_what_is_not_emulated()
        containers = self._pod["spec"]["containers"]
        images = [await self._until_pulled(container) for container in containers]
        for container, image in zip(containers, images, strict=True):
            await self._start(container, image)
        if self._processes:
            self._report("Running")
        await asyncio.gather(*(self._follow(name) for name in list(self._processes)))
        self._finish()

    async def _until_scheduled(self) -> None:
        """Return once the node has what the pod asks for."""
        while lacking := self._lacking():
            message = f"0/1 nodes are available: 1 Insufficient {lacking}."
            self._write(unschedulable_status(self._pod, message))
            self._events.warning(self._pod, "FailedScheduling", message)
            await asyncio.sleep(_RETRY_S * 5)
        name = self._pod["metadata"]["name"]
        message = f"Successfully assigned {self._pod['metadata']['namespace']}/{name} to {self._node.name}"
        self._change(lambda pod: pod["spec"].setdefault("nodeName", self._node.name))
        self._events.normal(self._pod, "Scheduled", message)

    def _lacking(self) -> str | None:
        """Return the first extended resource of which the pod asks for more than there is."""
        asked: dict[str, float] = {}
        for container in self._pod["spec"]["containers"]:
            # A limit without a request is a request for as much.
            wanted = {
                **container["resources"].get("limits", {}),
                **container["resources"].get("requests", {}),
            }
            for resource, quantity in wanted.items():
                asked[resource] = asked.get(resource, 0.0) + quantity_value(quantity)
        # CPU and memory are not rationed on a laptop; a GPU is there or it is not.
        extended = (resource for resource in sorted(asked) if "/" in resource)
        return next((r for r in extended if asked[r] > self._node.allocatable.get(r, 0.0)), None)

    def _tell_what_is_not_emulated(self) -> None:
        ignored = [part for part in _NOT_EMULATED if self._pod["spec"].get(part)]
        if ignored:
            message = f"The emulated node does nothing about spec.{', spec.'.join(ignored)}"
            self._events.warning(self._pod, "NotEmulated", message)

    async def _until_pulled(self, container: Mapping[str, Any]) -> Path:
        """Return the folder of the container's image once it is there; builds it where it is not."""
        name, reference, reason = container["name"], container["image"], "ErrImagePull"
        while True:
            try:
                if folder := self._images.present(reference):
                    return folder
            except ImageError as error:
                await self._wait_reporting(name, "InvalidImageName", str(error))
                continue
            try:
                self._images.check(reference)
                await self._pull(name, reference)
            except ImageError as error:
                await self._wait_reporting(name, reason, f'Failed to pull image "{reference}": {error}')
                reason = "ImagePullBackOff"

    async def _pull(self, container: str, reference: str) -> None:
        """Build an image, and tell of it as a kubelet tells of a pull; raises ImageError."""
        started = time.monotonic()
        self._events.normal(self._pod, "Pulling", f'Pulling image "{reference}"', container=container)
        await self._images.pull(reference)
        message = f'Successfully pulled image "{reference}" in {time.monotonic() - started:.1f}s'
        self._events.normal(self._pod, "Pulled", message, container=container)

    async def _wait_reporting(self, container: str, reason: str, message: str) -> None:
        before = self._states[container]
        self._states[container] = waiting(reason, message)
        if self._states[container] != before:
            self._report("Pending")
            self._events.warning(self._pod, "Failed", f"{reason}: {message}", container=container)
        await asyncio.sleep(_RETRY_S)

    async def _start(self, container: Mapping[str, Any], image: Path) -> None:
        """Start one container; what prevents it becomes its state."""
        name, metadata = container["name"], self._pod["metadata"]
        given = {**self._node.environment, CLUSTER_MARK: str(self._node.state_dir)}
        while True:
            try:
                plan = launch_plan(
                    self._pod,
                    container,
                    image=image,
                    scripts=self._node.pod_scripts_dir,
                    folder=self._node.state_dir / "pods" / metadata["uid"] / name,
                    given=given,
                )
                mark = (CONTAINER_MARK, f"{metadata['uid']}/{name}")
                self._processes[name] = await ContainerProcess.start(
                    plan, self._logs.of(self._pod, name), mark
                )
            except CannotConfigureError as error:
                await self._wait_reporting(name, "CreateContainerConfigError", str(error))
                continue
            except CannotStartError as error:
                state = self._states[name]
                self._states[name] = terminated(
                    state, START_ERROR_CODE, reason="StartError", message=str(error)
                )
                self._events.warning(self._pod, "Failed", f"Error: {error}", container=name)
                return
            self._states[name] = running()
            self._events.normal(self._pod, "Started", f"Started container {name}", container=name)
            return

    async def _follow(self, name: str) -> None:
        """Wait for the end of one container and report it, unless it was the last."""
        code = await self._processes[name].wait()
        message = self._termination_message(name) if code else ""
        self._states[name] = terminated(self._states[name], code, message=message)
        if any("running" in state for state in self._states.values()):
            self._report("Running")

    def _termination_message(self, name: str) -> str:
        container = next(c for c in self._pod["spec"]["containers"] if c["name"] == name)
        if container["terminationMessagePolicy"] != "FallbackToLogsOnError":
            return ""
        return self._logs.of(self._pod, name).tail(lines=_FALLBACK_LINES, max_bytes=_FALLBACK_BYTES)

    def _finish(self) -> None:
        failed = any(state["terminated"]["exitCode"] != 0 for state in self._states.values())
        self._report("Failed" if failed else "Succeeded")

    async def _deadline(self) -> None:
        """Return when the pod's time is up; never, if it has no limit. Counted from when the node took it."""
        limit_s = self._pod["spec"].get("activeDeadlineSeconds")
        if limit_s is None:
            await asyncio.Event().wait()
        await asyncio.sleep(limit_s)

    async def _stopped(self) -> None:
        """End a pod that was deleted, and say so while there is still an object to say it in."""
        self._events.normal(self._pod, "Killing", "Stopping the containers of a deleted pod")
        self._terminate_states(await self._end(self._grace_s))
        self._finish()

    async def _overdue(self) -> None:
        """End a pod whose time is up, and say so."""
        message = "Pod was active on the node longer than the specified deadline"
        self._events.warning(self._pod, "DeadlineExceeded", message)
        self._terminate_states(await self._end(self._pod["spec"]["terminationGracePeriodSeconds"]))
        self._report("Failed", reason="DeadlineExceeded", message=message)

    def _broken(self, error: BaseException) -> None:
        """Report a pod that the node itself could not run."""
        log.error("Pod %s: the node could not run it.", self._pod["metadata"]["name"], exc_info=error)
        self._terminate_states({})
        self._report("Failed", reason="NodeFailure", message=f"the node could not run the pod: {error}")

    def _terminate_states(self, codes: Mapping[str, int]) -> None:
        """Report every container that has not ended by itself as ended now, with the code given or as if killed."""
        for name, state in self._states.items():
            if "terminated" not in state:
                self._states[name] = terminated(state, codes.get(name, KILLED_CODE))

    async def _end(self, grace_s: float) -> dict[str, int]:
        """Ask all containers to end, and end them by force after `grace_s` seconds; return their exit
        codes.
        """
        waits = {name: asyncio.create_task(process.wait()) for name, process in self._processes.items()}
        if not waits:
            return {}
        for process in self._processes.values():
            process.terminate()
        _, unfinished = await asyncio.wait(waits.values(), timeout=grace_s)
        if unfinished:
            await self._kill_after(0)
            await asyncio.wait(unfinished)
        return {name: task.result() for name, task in waits.items()}

    async def _kill_after(self, delay_s: float) -> None:
        await asyncio.sleep(delay_s)
        await asyncio.gather(*(process.kill() for process in self._processes.values()))

    async def _sweep(self) -> None:
        """End whatever is left, also of a container that was just about to start."""
        await self._kill_after(0)
        for name in self._states:
            mark = f"{self._pod['metadata']['uid']}/{name}"
            await asyncio.to_thread(kill_marked, CONTAINER_MARK, mark)

    def _report(self, phase: str, *, reason: str = "", message: str = "") -> None:
        self._write(pod_status(self._pod, phase, self._states, reason=reason, message=message))

    def _write(self, status: dict[str, Any]) -> None:
        def change(pod: KubeObject) -> None:
            pod["status"] = status

        self._change(change)

    def _change(self, change: Callable[[KubeObject], Any]) -> None:
        """Write to the stored pod, unless it is gone or another one has its name by now."""
        metadata = self._pod["metadata"]
        try:
            stored = self._store.get("pods", metadata["namespace"], metadata["name"])
            if stored["metadata"]["uid"] == metadata["uid"]:
                self._pod = self._store.mutate("pods", metadata["namespace"], metadata["name"], change)
        except ApiError:
            # It was deleted without grace; the order to stop is on its way.
            return
