"""What the workers of both modes share: one InferenceService, its servers, and what is written down about it."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from http import HTTPStatus
from pathlib import Path
from typing import Any, ClassVar

from slipway_core.errors import SlipwayError
from slipway_sandbox.cluster.errors import ApiError
from slipway_sandbox.cluster.storage.events import EventRecorder
from slipway_sandbox.host.files import replace_file
from slipway_sandbox.kserve.revisions import RevisionRun
from slipway_sandbox.kserve.serving_pods import GRACE_S, SERVICE_LABEL, PodName, ServingPods
from slipway_sandbox.kserve.settings import KServeSettings, Store
from slipway_sandbox.services.routing import Backend, Ingress
from slipway_sandbox.services.triton import TritonPorts
from slipway_sandbox.services.triton_install import TritonInstall

log = logging.getLogger(__name__)

KIND = "inferenceservices"
# The name by which KServe's controller writes events.
EVENT_SOURCE = "v1beta1Controllers"
RETRY_PAUSE_S = 1.0
SHUTDOWN_GRACE_S = 0.5


@dataclass(frozen=True)
class WorkerContext:
    """What a worker is given: `route` makes the router do what all services want and returns once it does.

    `pods` are those of all services. `open_requests` tells how many requests are open at each revision.
    `missing_pods` tells how many pods of each Deployment of a namespace shall not answer; Standard mode only.
    """

    store: Store
    settings: KServeSettings
    prepare_install: Callable[[], TritonInstall]
    route: Callable[[], Awaitable[None]]
    pods: ServingPods
    open_requests: Callable[[], Awaitable[Mapping[str, int]]]
    missing_pods: Callable[[str], Mapping[str, int]] = lambda namespace: {}


class ServiceWorker(ABC):
    """Keeps one InferenceService served. `runs` are its servers by name."""

    mode: ClassVar[str]

    def __init__(self, context: WorkerContext, namespace: str, name: str) -> None:
        self.namespace = namespace
        self.name = name
        self.runs: dict[str, RevisionRun] = {}
        self._store = context.store
        self._settings = context.settings
        self._context = context
        self._events = EventRecorder(context.store, EVENT_SOURCE)
        self._uid = ""
        self._speaks_h2c = False
        self._retiring: dict[asyncio.Task[None], RevisionRun] = {}
        self._shown_pods: dict[RevisionRun, PodName] = {}
        self._dirty = asyncio.Event()
        self._worker = asyncio.get_running_loop().create_task(
            self._work(), name=f"service {namespace}/{name}"
        )

    @abstractmethod
    def backends(self) -> list[Backend]:
        """Return the servers that the router shall know."""

    @abstractmethod
    def ingresses(self) -> list[Ingress]:
        """Return what answers to which host names."""

    @abstractmethod
    async def reconcile(self, service: Mapping[str, Any]) -> None:
        """Bring servers, router and status to what the spec asks for, as far as that is possible now."""

    @abstractmethod
    def pod_labels(self, run: str) -> Mapping[str, str]:
        """Return the labels by which a server's pod is known."""

    @abstractmethod
    def reset(self) -> None:
        """Forget all state and all routes, as before the first reconciliation."""

    @abstractmethod
    def state_to_save(self) -> dict[str, Any]:
        """Return the state that a later controller needs, as JSON."""

    @abstractmethod
    def restore_state(self, kept: Mapping[str, Any]) -> None:
        """Go on from what `state_to_save` returned."""

    def backend(self, revision: str, ports: TritonPorts) -> Backend:
        """Return a server as the router reaches it: a model whose port is named for HTTP/2 has that one alone."""
        return Backend(revision, ports.grpc if self._speaks_h2c else ports.http, ports.grpc)

    def wake(self) -> None:
        """Have the worker look again."""
        self._dirty.set()

    def wake_after(self, seconds: float) -> None:
        """Have the worker look again, later."""
        asyncio.get_running_loop().call_later(seconds, self.wake)

    async def shut_down(self) -> None:
        """End the worker and every server, soon."""
        runs = [*self.runs.values(), *self._retiring.values()]
        tasks = [self._worker, *self._retiring]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.gather(*(run.stop(SHUTDOWN_GRACE_S) for run in runs))
        for run in runs:
            self._context.pods.remove(self._shown_pods.pop(run, None))

    async def route(self) -> None:
        """Make the router do what this service wants now, and all others."""
        await self._context.route()

    def start_run(self, name: str, storage_uri: str) -> None:
        """Start a server, unless it runs."""
        if name in self.runs:
            return
        folder = self._settings.state_dir / "revisions"
        self.runs[name] = run = RevisionRun(
            name,
            storage_uri,
            Path(tempfile.mkdtemp(prefix=f"{name}-", dir=folder)),
            self._context.prepare_install,
            self._settings.environment,
            self.wake,
            self._settings.run_policy,
        )
        labels = {**self.pod_labels(name), SERVICE_LABEL: self.name, "component": "predictor"}
        pod = self._context.pods.add(self.namespace, name, labels, storage_uri)
        if pod is not None:
            self._shown_pods[run] = pod
        run.start()

    def end_pod(self, uid: str, grace_s: int) -> bool:
        """End the server whose pod was deleted, within the grace; return whether it is one of this service's.

        Where it is still wanted, another one is started.
        """
        for name, run in list(self.runs.items()):
            if self._uid_of(run) == uid:
                del self.runs[name]
                self._follow(run, self._stop(run, grace_s))
                self.wake()
                return True
        for run in list(self._retiring.values()):
            if self._uid_of(run) == uid:
                # What has its Deployment ended is on its way out with this grace at least.
                if grace_s < GRACE_S:
                    self._follow(run, run.stop(grace_s))
                return True
        return False

    def retire(self, name: str) -> None:
        """Begin to take a server out of the router and to end it."""
        run = self.runs.pop(name)
        self._context.pods.begin_to_end(self._shown_pods.get(run))
        self._follow(run, self._drain_and_stop(run))

    def _follow(self, run: RevisionRun, ending: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(ending)
        self._retiring[task] = run
        task.add_done_callback(self._retiring.pop)

    def write_status(self, status: Mapping[str, Any]) -> None:
        """Write the status, and an event where it says that the service became ready, or is no longer.

        The store keeps the object as it is where nothing changed.
        """
        with contextlib.suppress(ApiError):  # deleted meanwhile: the watch will say so
            before = self._store.get(KIND, self.namespace, self.name)
            after = self._store.update_status(KIND, self.namespace, self.name, status)
            self._tell_readiness(before, after)

    def _tell_readiness(self, before: Mapping[str, Any], after: dict[str, Any]) -> None:
        was_ready, is_ready = "Ready" in _conditions(before, "True"), "Ready" in _conditions(after, "True")
        if is_ready and not was_ready:
            self._events.normal(after, "InferenceServiceReady", f"InferenceService [{self.name}] is Ready")
        elif was_ready and not is_ready:
            because = ", ".join(sorted(_conditions(after, "False")))
            message = f"InferenceService [{self.name}] is no longer Ready because of: {because}"
            self._events.warning(after, "InferenceServiceNotReady", message)

    def status_arguments(self, service: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments of `status_of` besides the predictor."""
        return {
            "name": self.name,
            "namespace": self.namespace,
            "domain": self._settings.domain,
            "previous": service.get("status") or {},
            "now": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        }

    def save_state(self) -> None:
        """Write the state that a later controller needs."""
        text = json.dumps({"uid": self._uid, "mode": self.mode, "predictor": self.state_to_save()}, indent=1)
        replace_file(self._state_file, text)

    async def _work(self) -> None:
        while True:
            await self._dirty.wait()
            self._dirty.clear()
            try:
                service = self._service()
                if service is None:
                    await self._tear_down()
                else:
                    self._restore_once(service["metadata"]["uid"])
                    self._speaks_h2c = _names_h2c(service)
                    await self.reconcile(service)
            except SlipwayError as error:
                log.warning("InferenceService %s/%s: %s", self.namespace, self.name, error)
                self.wake_after(RETRY_PAUSE_S)
            except Exception:  # the worker must outlive whatever it is
                log.exception("InferenceService %s/%s", self.namespace, self.name)
                self.wake_after(RETRY_PAUSE_S)

    def _service(self) -> dict[str, Any] | None:
        try:
            return self._store.get(KIND, self.namespace, self.name)
        except ApiError as error:
            if error.status != HTTPStatus.NOT_FOUND:
                raise
            return None

    async def _drain_and_stop(self, run: RevisionRun) -> None:
        try:
            await self.route()  # waits for the last answers
        except SlipwayError as error:
            log.warning("revision %s: the router did not let it go: %s", run.name, error)
        await self._stop(run)

    async def _stop(self, run: RevisionRun, grace_s: float | None = None) -> None:
        await run.stop(grace_s)
        self._context.pods.remove(self._shown_pods.pop(run, None))

    def _uid_of(self, run: RevisionRun) -> str:
        pod = self._shown_pods.get(run)
        return "" if pod is None else pod.uid

    async def _tear_down(self) -> None:
        """End all that belonged to the InferenceService, which is deleted."""
        self._begin_anew("")
        self._state_file.unlink(missing_ok=True)
        await self.route()

    def _begin_anew(self, uid: str) -> None:
        self._uid = uid
        self.reset()
        for name in list(self.runs):
            self.retire(name)

    @property
    def _state_file(self) -> Path:
        return self._settings.state_dir / self.namespace / f"{self.name}.json"

    def _restore_once(self, uid: str) -> None:
        """Restore, once, the state that an earlier controller saved for the same object."""
        if self._uid == uid:
            return
        self._begin_anew(uid)
        with contextlib.suppress(FileNotFoundError):
            kept = json.loads(self._state_file.read_text(encoding="utf-8"))
            if (kept["uid"], kept.get("mode", self.mode)) == (uid, self.mode):
                self.restore_state(kept["predictor"])


def _conditions(service: Mapping[str, Any], status: str) -> list[str]:
    """Return the types of the conditions that have this status."""
    conditions = (service.get("status") or {}).get("conditions") or ()
    return [one["type"] for one in conditions if one["status"] == status]


def _names_h2c(service: Mapping[str, Any]) -> bool:
    """Return whether the predictor has a port for HTTP/2 without TLS, by which Knative and KServe know gRPC."""
    model = service["spec"].get("predictor", {}).get("model") or {}
    names = [str(port.get("name", "")) for port in model.get("ports") or () if isinstance(port, Mapping)]
    return any("h2c" in name or "grpc" in name for name in names)
