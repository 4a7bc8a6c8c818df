"""A node whose kubelet runs the pods of releases: their programs are processes of the images' environments.

The sandbox's node does the running, on a store of its own; here is what lies between it and the real API: pods that are
bound to the node go into that store, what becomes of them is written into the API, and the API asks for logs as it asks
any kubelet. There is no container: network, users and limits of a pod are not enforced.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
import threading
from dataclasses import dataclass
from typing import Any

from aiohttp import web

from slipway_sandbox.cluster.admission.validation import Admission
from slipway_sandbox.cluster.api.requests import flag, number
from slipway_sandbox.cluster.errors import ApiError
from slipway_sandbox.cluster.node.container_log import LogQuery, seconds_ago
from slipway_sandbox.cluster.node.pod_logs import PodLogs
from slipway_sandbox.cluster.node.pods import PodRunner
from slipway_sandbox.cluster.resources import PODS, KubeObject, Resource
from slipway_sandbox.cluster.settings import NodeSettings
from slipway_sandbox.cluster.storage.store import ObjectStore
from slipway_sandbox.host.ports import LOOPBACK, free_port
from tests.support.conformance.api import MERGE_PATCH, Api, Object
from tests.support.conformance.certificates import Certificates

log = logging.getLogger(__name__)

_STAGE_LABEL = "slipway.dev/stage"
_LOOK_EVERY_S = 0.2
_START_LIMIT_S = 20.0


def is_of_a_release(pod: Object) -> bool:
    """Return whether a release has made the pod, and not KServe."""
    return _STAGE_LABEL in pod["metadata"].get("labels", {})


@dataclass
class _Known:
    """A pod that runs here: the one in the node's own store, and its status as the API has it."""

    here: KubeObject
    reported: Any = None


def _as_it_is(resource: Resource, before: KubeObject | None, obj: KubeObject) -> Admission:
    """Take what the real API has admitted."""
    if before is None and resource == PODS:
        obj["status"] = {"phase": "Pending"}
    return Admission(obj)


class PodNode(threading.Thread):
    """Runs the pods of releases while it lives.

    :param settings: where images lie, and what every pod is given.
    :param certificates: with which it serves logs to the API.
    """

    def __init__(self, api: Api, settings: NodeSettings, certificates: Certificates) -> None:
        super().__init__(name=f"kubelet-{settings.name}", daemon=True)
        self._api, self._settings, self._certificates = api, settings, certificates
        self._port = free_port()
        self._known: dict[str, _Known] = {}
        # Each phase that a pod was in, by the pod's name, for tests.
        self.phases: dict[str, list[str]] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._ending: asyncio.Event | None = None
        self._is_up = threading.Event()

    def __enter__(self) -> PodNode:
        self.start()
        assert self._is_up.wait(_START_LIMIT_S), "the node does not start"
        return self

    def __exit__(self, *_: object) -> None:
        assert self._loop is not None
        assert self._ending is not None
        self._loop.call_soon_threadsafe(self._ending.set)
        self.join()
        self._api.ask("DELETE", f"/api/v1/nodes/{self._settings.name}")

    def run(self) -> None:
        """Serve in a loop of its own until the end."""
        asyncio.run(self._serve())

    async def _serve(self) -> None:
        self._loop, self._ending = asyncio.get_running_loop(), asyncio.Event()
        self._store = ObjectStore(admission=_as_it_is)
        self._logs = PodLogs(self._settings.state_dir / "logs")
        server = web.AppRunner(self._app(), access_log=None, shutdown_timeout=1.0)
        await server.setup()
        encrypted = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        encrypted.load_cert_chain(self._certificates.certificate, self._certificates.key)
        await web.TCPSite(server, LOOPBACK, self._port, ssl_context=encrypted).start()
        await asyncio.to_thread(self._register)
        runner = asyncio.create_task(PodRunner(self._store, self._settings, self._logs).run())
        self._is_up.set()
        try:
            while not self._ending.is_set():
                try:
                    await self._look()
                except Exception:  # it must outlive whatever it is: tests would wait for its pods
                    log.exception("the pods could not be looked at")
                await asyncio.sleep(_LOOK_EVERY_S)
        finally:
            runner.cancel()
            await asyncio.gather(runner, return_exceptions=True)
            await server.cleanup()

    def _register(self) -> None:
        name = self._settings.name
        self._api.ask("POST", "/api/v1/nodes", {"metadata": {"name": name}})
        status = {
            "addresses": [{"type": "InternalIP", "address": LOOPBACK}],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": self._port}},
        }
        self._api.must("PATCH", f"/api/v1/nodes/{name}/status", {"status": status}, content=MERGE_PATCH)

    # --- pods ---

    async def _look(self) -> None:
        pods = await asyncio.to_thread(self._api.items, f"/api/v1/pods?labelSelector={_STAGE_LABEL}")
        for pod in pods:
            if pod["metadata"]["uid"] not in self._known:
                await self._begin(pod)
            await self._bring_up_to_date(pod)
        present = {pod["metadata"]["uid"] for pod in pods}
        for uid in [one for one in self._known if one not in present]:
            self._end(self._known.pop(uid), 0)

    async def _begin(self, pod: Object) -> None:
        metadata = pod["metadata"]
        target = {
            "metadata": {"name": metadata["name"]},
            "target": {"kind": "Node", "name": self._settings.name},
        }
        await asyncio.to_thread(self._api.ask, "POST", f"{_path(pod)}/binding", target)
        kept = {
            key: metadata[key] for key in ("name", "namespace", "labels", "annotations") if key in metadata
        }
        spec = {key: value for key, value in pod["spec"].items() if key != "nodeName"}
        here = self._store.create({"apiVersion": "v1", "kind": "Pod", "metadata": kept, "spec": spec})
        self._known[metadata["uid"]] = _Known(here)

    async def _bring_up_to_date(self, pod: Object) -> None:
        known = self._known[pod["metadata"]["uid"]]
        here = self._here(known)
        status = {} if here is None else here["status"]
        if status != known.reported and "containerStatuses" in status:
            body = {"status": {**status, "podIPs": [{"ip": status["podIP"]}]}}
            # The API has computed it, and lets nobody change it.
            body["status"].pop("qosClass", None)
            await asyncio.to_thread(
                self._api.must, "PATCH", f"{_path(pod)}/status", body, content=MERGE_PATCH
            )
            known.reported = status
            phases = self.phases.setdefault(pod["metadata"]["name"], [])
            if status["phase"] not in phases[-1:]:
                phases.append(status["phase"])
        if "deletionTimestamp" not in pod["metadata"]:
            return
        if here is not None and "deletionTimestamp" not in here["metadata"]:
            self._end(known, pod["metadata"].get("deletionGracePeriodSeconds", 0))
        if self._here(known) is None:
            gone = {"gracePeriodSeconds": 0, "preconditions": {"uid": pod["metadata"]["uid"]}}
            await asyncio.to_thread(self._api.ask, "DELETE", _path(pod), gone)

    def _here(self, known: _Known) -> KubeObject | None:
        metadata = known.here["metadata"]
        try:
            found = self._store.get("pods", metadata["namespace"], metadata["name"])
        except ApiError:
            return None
        return found if found["metadata"]["uid"] == metadata["uid"] else None

    def _end(self, known: _Known, grace_s: int) -> None:
        here = self._here(known)
        if here is not None:
            metadata = here["metadata"]
            self._store.delete("pods", metadata["namespace"], metadata["name"], grace_period_s=grace_s)

    # --- logs ---

    def _app(self) -> web.Application:
        app = web.Application()
        app.add_routes([web.get("/containerLogs/{namespace}/{pod}/{container}", self._log)])
        return app

    async def _log(self, request: web.Request) -> web.StreamResponse:
        """Answer the API, which asks a kubelet so when somebody asks it for a pod's log."""
        asked = request.match_info
        try:
            pod = self._store.get("pods", asked["namespace"], asked["pod"])
        except ApiError as error:
            raise web.HTTPNotFound(text=str(error)) from error
        seconds = number(request, "sinceSeconds")
        query = LogQuery(
            follow=flag(request, "follow"),
            timestamps=flag(request, "timestamps"),
            since=None if seconds is None else seconds_ago(seconds),
            tail_lines=number(request, "tailLines"),
            limit_bytes=number(request, "limitBytes"),
        )
        response = web.StreamResponse(headers={"Content-Type": "text/plain"})
        await response.prepare(request)
        async for chunk in self._logs.of(pod, asked["container"]).read(query):
            await response.write(chunk)
        await response.write_eof()
        return response


def _path(pod: Object) -> str:
    return f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods/{pod['metadata']['name']}"
