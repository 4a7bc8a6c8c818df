"""The controller: keeps every InferenceService of the store served as its spec and KServe's rules say.

One worker per InferenceService brings together four things, in this order: what the spec asks for (`knative`),
which servers run (`revisions`), what the router does (`router`), and what the status says: of traffic only what
the router has already taken.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import json
import logging
import shutil
import tempfile
import time
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from http import HTTPStatus
from pathlib import Path
from typing import Any, Protocol

from include.model_release.errors import SlipwayError
from include.sandbox.cluster.errors import ApiError
from include.sandbox.kserve import knative
from include.sandbox.kserve.revisions import RevisionRun, RunPolicy
from include.sandbox.router import Backend, Ingress, Router, Routing
from include.sandbox.triton import TritonInstall

log = logging.getLogger(__name__)

KIND = "inferenceservices"
DEPLOYMENT_MODE_ANNOTATION = "serving.kserve.io/deploymentMode"
OTHER_MODES = ("Standard", "RawDeployment", "ModelMesh")
RETRY_PAUSE_S = 1.0
SHUTDOWN_GRACE_S = 0.5
Key = tuple[str, str]


class Store(Protocol):
    """What the controller needs of the cluster's object store."""

    def get(self, kind: str, namespace: str | None, name: str) -> dict[str, Any]:
        """Return an object; raises `ApiError` 404."""

    def update_status(
        self, kind: str, namespace: str | None, name: str, status: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Replace an object's status; raises `ApiError` 404."""

    def watch(self, kind: str, namespace: str | None = None) -> AsyncIterator[tuple[str, dict[str, Any]]]:
        """Yield the objects there are and then every change."""


@dataclass(frozen=True)
class KServeSettings:
    """Where the controller keeps its files, what it steers, and how patient it is.

    `environment` is what a predictor's pod would have (AWS_*); `scale_down_grace_s` is how long a revision
    stays that has no part in the traffic; `unpropagated_annotations` is inferenceservice-config's list of
    annotations that do not reach the revision template.
    """

    state_dir: Path
    router_dir: Path
    router_admin_url: str
    domain: str = "sandbox.slipway"
    triton_venv: Path | None = None
    triton_root: Path | None = None
    environment: Mapping[str, str] = field(default_factory=dict)
    scale_down_grace_s: float = 10.0
    unpropagated_annotations: tuple[str, ...] = knative.UNPROPAGATED_ANNOTATIONS
    run_policy: RunPolicy = field(default_factory=RunPolicy)

    @classmethod
    def from_cluster_config(cls, config: Mapping[str, Any], base: Path | None = None) -> KServeSettings:
        """Read the settings from the whole of cluster.json; relative paths are relative to `base` or else to
        here.

        Under "kserve": router_dir, router_admin_url, domain; optional: triton_dir, scale_down_grace_s,
        service_annotation_disallowed_list. Raises `SlipwayError` that names a missing key.
        """
        base = base or Path.cwd()
        try:
            kserve = config["kserve"]
            optional: dict[str, Any] = {}
            if "scale_down_grace_s" in kserve:
                optional["scale_down_grace_s"] = float(kserve["scale_down_grace_s"])
            if "service_annotation_disallowed_list" in kserve:
                optional["unpropagated_annotations"] = tuple(kserve["service_annotation_disallowed_list"])
            if "triton_dir" in kserve:
                optional["triton_root"] = base / kserve["triton_dir"]
            return cls(
                state_dir=base / config["state_dir"] / "kserve",
                router_dir=base / kserve["router_dir"],
                router_admin_url=str(kserve["router_admin_url"]),
                domain=str(kserve.get("domain", cls.domain)),
                triton_venv=base / config["images_dir"] / "triton",
                environment={key: str(value) for key, value in config.get("node_env", {}).items()},
                **optional,
            )
        except KeyError as error:
            raise SlipwayError(
                "The cluster's settings lack what the KServe controller needs", expected=f"the key {error}"
            ) from None


class KServeController:
    """Watches the InferenceServices of `store` and serves them; see `run`."""

    def __init__(self, store: Store, settings: KServeSettings | Mapping[str, Any]) -> None:
        if not isinstance(settings, KServeSettings):
            settings = KServeSettings.from_cluster_config(settings)
        self.store = store
        self.settings = settings
        self.router = Router(settings.router_dir, settings.router_admin_url)
        self._services: dict[Key, _Service] = {}
        self._install: TritonInstall | None = None

    async def run(self) -> None:
        """Serve until cancelled; then end every server."""
        revisions = self.settings.state_dir / "revisions"
        await asyncio.to_thread(shutil.rmtree, revisions, ignore_errors=True)
        revisions.mkdir(parents=True)
        self.settings.router_dir.mkdir(parents=True, exist_ok=True)
        try:
            async for _, service in self.store.watch(KIND):
                self._notice(service)
        finally:
            await asyncio.gather(*(one.shut_down() for one in self._services.values()))

    def prepare_install(self) -> TritonInstall:
        """Return the server folder, building it when first asked; raises `SlipwayError`."""
        if self._install is None:
            self._install = TritonInstall.prepare(self.settings.triton_root, self.settings.triton_venv)
        return self._install

    async def route(self) -> None:
        """Make the router do what all services want now; returns once it does."""
        services = list(self._services.values())
        backends = tuple(backend for one in services for backend in one.backends())
        ingresses = tuple(ingress for one in services for ingress in one.ingresses())
        await self.router.apply(Routing(backends, ingresses))

    def _notice(self, service: Mapping[str, Any]) -> None:
        metadata = service["metadata"]
        namespace, name = key = metadata["namespace"], metadata["name"]
        mode = (metadata.get("annotations") or {}).get(DEPLOYMENT_MODE_ANNOTATION, "Knative")
        if mode in OTHER_MODES:
            log.error(
                "InferenceService %s/%s: the emulator has the Knative mode only, not %s",
                namespace,
                name,
                mode,
            )
            return
        if any(other != namespace and same == name for other, same in self._services):
            # The router counts by revision name, as the metrics' readers expect.
            log.error("InferenceService %s/%s: another namespace has one of this name", namespace, name)
            return
        if key not in self._services:
            self._services[key] = _Service(self, namespace, name)
        self._services[key].wake()


class _Service:
    """The worker of one InferenceService."""

    def __init__(self, controller: KServeController, namespace: str, name: str) -> None:
        self.namespace = namespace
        self.name = name
        self.predictor = knative.Predictor()
        self.runs: dict[str, RevisionRun] = {}
        self._controller = controller
        self._settings = controller.settings
        self._uid = ""
        self._routed: tuple[knative.Target, ...] = ()
        self._idle_since: dict[str, float] = {}
        self._retiring: dict[asyncio.Task[None], RevisionRun] = {}
        self._dirty = asyncio.Event()
        self._worker = asyncio.get_running_loop().create_task(
            self._work(), name=f"service {namespace}/{name}"
        )

    def wake(self) -> None:
        """Have the worker look again."""
        self._dirty.set()

    def backends(self) -> list[Backend]:
        """Return the servers that the router shall know."""
        routed = {target.revision for target in self._routed}
        runs = [run for name, run in self.runs.items() if run.phase == "ready" or name in routed]
        return [Backend(run.name, run.ports.http, run.ports.grpc) for run in runs]

    def ingresses(self) -> list[Ingress]:
        """Return the host names: the service's own and Knative's for the weights, one for each tag."""
        if not self._routed:
            return []
        suffix = f"{self.namespace}.{self._settings.domain}"
        hosts = (f"{self.name}.{suffix}", f"{self.name}-predictor.{suffix}")
        percents: dict[str, int] = {}
        for target in self._routed:  # two lines may name one revision
            percents[target.revision] = percents.get(target.revision, 0) + target.percent
        tagged = [
            Ingress(
                f"{self.namespace}/{self.name}/{target.tag}",
                (f"{target.tag}-{self.name}-predictor.{suffix}",),
                ((target.revision, 100),),
            )
            for target in self._routed
            if target.tag
        ]
        return [Ingress(f"{self.namespace}/{self.name}", hosts, tuple(percents.items())), *tagged]

    async def shut_down(self) -> None:
        """End the worker and every server, soon."""
        runs = [*self.runs.values(), *self._retiring.values()]
        tasks = [self._worker, *self._retiring]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.gather(*(run.stop(SHUTDOWN_GRACE_S) for run in runs))

    async def _work(self) -> None:
        while True:
            await self._dirty.wait()
            self._dirty.clear()
            try:
                service = self._service()
                if service is None:
                    await self._tear_down()
                else:
                    await self._reconcile(service)
            except SlipwayError as error:
                log.warning("InferenceService %s/%s: %s", self.namespace, self.name, error)
                self._wake_after(RETRY_PAUSE_S)
            except Exception:  # the worker must outlive whatever it is
                log.exception("InferenceService %s/%s", self.namespace, self.name)
                self._wake_after(RETRY_PAUSE_S)

    def _service(self) -> dict[str, Any] | None:
        try:
            return self._controller.store.get(KIND, self.namespace, self.name)
        except ApiError as error:
            if error.status != HTTPStatus.NOT_FOUND:
                raise
            return None

    def _wake_after(self, seconds: float) -> None:
        asyncio.get_running_loop().call_later(seconds, self.wake)

    async def _reconcile(self, service: Mapping[str, Any]) -> None:
        self._recall(service["metadata"]["uid"])
        accepted = knative.accept(self.predictor, service, self._settings.unpropagated_annotations)
        for run in self.runs.values():
            if run.phase in ("ready", "failed"):
                accepted = knative.with_revision(
                    accepted, run.name, phase=run.phase, message=run.message, exit_code=run.exit_code
                )
        annotations = service["metadata"].get("annotations") or {}
        settled = knative.settle(
            accepted,
            service["spec"]["predictor"].get("canaryTrafficPercent"),
            tag_latest=annotations.get(knative.TAG_ROUTING_ANNOTATION) == "true",
        )
        self._start(settled)
        if self._waits_for_a_server(settled):
            # Knative's activator would hold the requests; here traffic stays where it is until the server is up.
            self.predictor = accepted
        else:
            await self._route(settled)
            self.predictor = knative.forget_old(settled)
        self._keep()
        self._tell(service)
        self._scale_down(settled.needed() | self.predictor.needed())

    def _start(self, predictor: knative.Predictor) -> None:
        """Start every revision that must run and does not."""
        for name in predictor.needed():
            self._idle_since.pop(name, None)
            if name not in self.runs:
                revision = predictor.revision(name)
                folder = self._settings.state_dir / "revisions"
                self.runs[name] = run = RevisionRun(
                    name,
                    revision.storage_uri,
                    Path(tempfile.mkdtemp(prefix=f"{name}-", dir=folder)),
                    self._controller.prepare_install,
                    self._settings.environment,
                    self.wake,
                    self._settings.run_policy,
                )
                run.start()

    def _waits_for_a_server(self, predictor: knative.Predictor) -> bool:
        """Tell whether traffic would begin to flow to a revision that cannot answer yet."""
        routed = {target.revision for target in self._routed if target.percent}
        return any(
            target.revision not in routed and self.runs[target.revision].phase != "ready"
            for target in predictor.traffic
            if target.percent or target.tag
        )

    async def _route(self, predictor: knative.Predictor) -> None:
        before = self._routed
        self._routed = predictor.traffic
        try:
            await self._controller.route()
        except BaseException:
            self._routed = before
            raise

    def _tell(self, service: Mapping[str, Any]) -> None:
        """Write the status; the store keeps the object as it is where nothing changed."""
        status = knative.status_of(
            self.predictor,
            name=self.name,
            namespace=self.namespace,
            domain=self._settings.domain,
            previous=service.get("status") or {},
            now=datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        )
        with contextlib.suppress(ApiError):  # deleted meanwhile: the watch will say so
            self._controller.store.update_status(KIND, self.namespace, self.name, status)

    def _scale_down(self, needed: set[str]) -> None:
        """End the revisions that have had no part in the traffic for the grace period."""
        for name in [one for one in self.runs if one not in needed]:
            since = self._idle_since.setdefault(name, time.monotonic())
            left_s = since + self._settings.scale_down_grace_s - time.monotonic()
            if left_s > 0:
                self._wake_after(left_s + 0.01)
                continue
            log.info("revision %s: no traffic, scaled down", name)
            self._retire(name)

    def _retire(self, name: str) -> None:
        """Begin to take a revision out of the router and to end its server."""
        run = self.runs.pop(name)
        self._idle_since.pop(name, None)
        task = asyncio.get_running_loop().create_task(self._drain_and_stop(run))
        self._retiring[task] = run
        task.add_done_callback(self._retiring.pop)

    async def _drain_and_stop(self, run: RevisionRun) -> None:
        try:
            await self._controller.route()  # waits for the last answers
        except SlipwayError as error:
            log.warning("revision %s: the router did not let it go: %s", run.name, error)
        await run.stop()

    async def _tear_down(self) -> None:
        """The InferenceService is deleted: end what was its own."""
        self._begin_anew("")
        self._state_file.unlink(missing_ok=True)
        await self._controller.route()

    def _begin_anew(self, uid: str) -> None:
        self._uid = uid
        self._routed = ()
        self.predictor = knative.Predictor()
        for name in list(self.runs):
            self._retire(name)

    @property
    def _state_file(self) -> Path:
        return self._settings.state_dir / self.namespace / f"{self.name}.json"

    def _recall(self, uid: str) -> None:
        """Once, take up what an earlier controller knew of the same object."""
        if self._uid == uid:
            return
        self._begin_anew(uid)
        with contextlib.suppress(FileNotFoundError):
            kept = json.loads(self._state_file.read_text(encoding="utf-8"))
            if kept["uid"] == uid:
                self.predictor = _predictor_from(kept["predictor"])

    def _keep(self) -> None:
        """Write down what a later controller must know."""
        self._state_file.parent.mkdir(parents=True, exist_ok=True)
        text = json.dumps({"uid": self._uid, "predictor": dataclasses.asdict(self.predictor)}, indent=1)
        partial = self._state_file.with_suffix(".partial")
        partial.write_text(text, encoding="utf-8")
        partial.replace(self._state_file)


def _predictor_from(kept: Mapping[str, Any]) -> knative.Predictor:
    revisions = tuple(knative.Revision(**one) for one in kept["revisions"])
    traffic = tuple(knative.Target(**one) for one in kept["traffic"])
    return knative.Predictor(**{**kept, "revisions": revisions, "traffic": traffic})
