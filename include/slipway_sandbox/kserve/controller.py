"""The controller: keeps every InferenceService of the store served as its spec and KServe's rules say.

One worker per InferenceService, of its deployment mode, brings together what the spec asks for (`knative`,
`standard`), which servers run (`revisions`), what the router does (`router`), and what the status says.
"""

from __future__ import annotations

import asyncio
import json
import logging
import shutil
from collections.abc import Mapping
from typing import Any

from slipway_sandbox.cluster.errors import ApiError
from slipway_sandbox.kserve.annotations import DEPLOYMENT_MODE_ANNOTATION
from slipway_sandbox.kserve.finalizer import Finalizers
from slipway_sandbox.kserve.knative.service import follow
from slipway_sandbox.kserve.knative.worker import KnativeWorker
from slipway_sandbox.kserve.serving_pods import ServingPods
from slipway_sandbox.kserve.settings import KServeSettings, Store
from slipway_sandbox.kserve.standard.gateway import OtherRoutes
from slipway_sandbox.kserve.standard.pods import MissingPods
from slipway_sandbox.kserve.standard.worker import StandardWorker
from slipway_sandbox.kserve.worker import KIND, ServiceWorker, WorkerContext
from slipway_sandbox.services.router import Router
from slipway_sandbox.services.routing import Routing
from slipway_sandbox.services.triton_install import TritonInstall

__all__ = ["KServeController", "KServeSettings"]

log = logging.getLogger(__name__)

CONFIG_NAMESPACE, CONFIG_NAME = "kserve", "inferenceservice-config"
# Admission has written today's name of the mode over an old one.
WORKERS: Mapping[str, type[ServiceWorker]] = {
    "Knative": KnativeWorker,
    "Standard": StandardWorker,
}
Key = tuple[str, str]


class KServeController:
    """Watches the InferenceServices of `store` and serves them; see `run`."""

    def __init__(self, store: Store, settings: KServeSettings | Mapping[str, Any]) -> None:
        if not isinstance(settings, KServeSettings):
            settings = KServeSettings.from_cluster_config(settings)
        self.store = store
        self.settings = settings
        self.router = Router(settings.router_dir, settings.router_admin_url)
        self.routes = OtherRoutes(store, self.route, self._wake)
        self.missing_pods = MissingPods(store, self._wake)
        self.pods = ServingPods(store, self._end_pod)
        self._services: dict[Key, ServiceWorker] = {}
        self._leaving: set[asyncio.Task[None]] = set()
        self._install: TritonInstall | None = None

    async def run(self) -> None:
        """Serve until cancelled; then end every server."""
        revisions = self.settings.state_dir / "revisions"
        await asyncio.to_thread(shutil.rmtree, revisions, ignore_errors=True)
        revisions.mkdir(parents=True)
        self.settings.router_dir.mkdir(parents=True, exist_ok=True)
        loop = asyncio.get_running_loop()
        self.pods.forget_all()
        following = [
            loop.create_task(self.pods.run(), name="serving pods"),
            loop.create_task(self.routes.run(), name="routes"),
            loop.create_task(self.missing_pods.run(), name="missing pods"),
            loop.create_task(follow(self.store, self._wake), name="Knative services"),
            loop.create_task(Finalizers(self.store).run(), name="finalizers"),
        ]
        try:
            async for _, service in self.store.watch(KIND):
                self._handle(service)
        finally:
            for task in following:
                task.cancel()
            await asyncio.gather(*following, return_exceptions=True)
            await asyncio.gather(*(one.shut_down() for one in self._services.values()), *self._leaving)

    def publish_config(self) -> None:
        """Lay KServe's ConfigMap into the cluster, as far as others read it there: before anybody can ask for it."""
        ingress = {
            "enableGatewayApi": self.settings.gateway_api,
            "kserveIngressGateway": self.settings.gateway,
            "ingressDomain": self.settings.domain,
        }
        config = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": CONFIG_NAME, "namespace": CONFIG_NAMESPACE},
            "data": {
                "deploy": json.dumps({"defaultDeploymentMode": self.settings.default_deployment_mode}),
                "ingress": json.dumps(ingress),
            },
        }
        try:
            self.store.merge_patch("configmaps", CONFIG_NAMESPACE, CONFIG_NAME, config)
        except ApiError:
            self.store.create(config)

    def prepare_install(self) -> TritonInstall:
        """Return the server folder, building it when first asked; raises `SlipwayError`."""
        if self._install is None:
            self._install = TritonInstall.prepare(self.settings.triton_root, self.settings.triton_venv)
        return self._install

    async def route(self) -> None:
        """Make the router do what all services want now; returns once it does."""
        services = list(self._services.values())
        backends = [backend for one in services for backend in one.backends()]
        ingresses = [ingress for one in services for ingress in one.ingresses()]
        self.routes.collect()
        ingresses += self.routes.ingresses(backends)
        await self.router.apply(Routing(tuple(backends), tuple(ingresses)))

    def _handle(self, service: Mapping[str, Any]) -> None:
        metadata = service["metadata"]
        namespace, name = key = metadata["namespace"], metadata["name"]
        mode = metadata["annotations"][DEPLOYMENT_MODE_ANNOTATION]
        if mode not in WORKERS:
            log.error(
                "InferenceService %s/%s: the emulator has the modes %s, not %s",
                namespace,
                name,
                " and ".join(WORKERS),
                mode,
            )
            return
        if any(other != namespace and same == name for other, same in self._services):
            # The router counts by revision name, as the metrics' readers expect.
            log.error("InferenceService %s/%s: another namespace has one of this name", namespace, name)
            return
        worker = self._services.get(key)
        if worker is None or not isinstance(worker, WORKERS[mode]):
            # A mode cannot be changed, but an object of the same name may be made again.
            if worker is not None:
                self._begin_shut_down(worker)
            context = WorkerContext(
                self.store,
                self.settings,
                self.prepare_install,
                self.route,
                self.pods,
                self.router.open_requests,
                self.missing_pods.of,
            )
            self._services[key] = WORKERS[mode](context, namespace, name)
        self._services[key].wake()

    def _wake(self, namespace: str, name: str = "") -> None:
        """Have the workers of a namespace look again, or the one of this name alone."""
        for (where, what), worker in self._services.items():
            if where == namespace and name in ("", what):
                worker.wake()

    def _end_pod(self, uid: str, grace_s: int) -> None:
        any(worker.end_pod(uid, grace_s) for worker in self._services.values())

    def _begin_shut_down(self, worker: ServiceWorker) -> None:
        task = asyncio.get_running_loop().create_task(worker.shut_down())
        self._leaving.add(task)
        task.add_done_callback(self._leaving.discard)
