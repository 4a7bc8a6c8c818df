"""One InferenceService in Standard mode: its Deployments' servers, its HTTPRoutes, what Envoy does, and its status.

One Triton stands for all pods of a Deployment, which are only counted (`pods.py`); its number is in the Deployment's
status. The HTTPRoutes are objects of the cluster like any other: what somebody else writes into them counts until
KServe writes them again. Once Envoy has taken their weights, their status says so, as a Gateway
would, about the very generation. A Service's own address, BACKEND.NAMESPACE.svc.cluster.local, leads through
Envoy to that Deployment alone.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import logging
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from slipway_sandbox.cluster.errors import ApiError
from slipway_sandbox.kserve.revisions import RevisionRun
from slipway_sandbox.kserve.standard import machine
from slipway_sandbox.kserve.standard.deployments import SERVICE_LABEL, deployments
from slipway_sandbox.kserve.standard.gateway import ROUTES, accept
from slipway_sandbox.kserve.standard.http_routes import http_routes, routed_by
from slipway_sandbox.kserve.standard.pods import PodCount
from slipway_sandbox.kserve.standard.status import status_of
from slipway_sandbox.kserve.worker import ServiceWorker, WorkerContext
from slipway_sandbox.services.routing import Backend, Ingress
from slipway_sandbox.services.triton import TritonPorts

log = logging.getLogger(__name__)

DEPLOYMENTS = "deployments"
# What is asked at a Service's own address is counted apart from what comes through the Gateway.
SERVICE_TAG = "service"


class StandardWorker(ServiceWorker):
    """Brings together, in KServe's order: Deployments and their servers, HTTPRoutes, the Gateway, and the status."""

    mode = "Standard"

    def __init__(self, context: WorkerContext, namespace: str, name: str) -> None:
        super().__init__(context, namespace, name)
        self.predictor = machine.Predictor()
        self._routed: tuple[machine.Backend, ...] = ()
        self._pods = PodCount(self._settings)
        self._next_look: asyncio.TimerHandle | None = None
        # A port on which nobody listens: what the Service of a deleted Deployment leads to.
        self._unused_ports = TritonPorts.free()

    def backends(self) -> list[Backend]:
        """Return the servers that the router shall know; what is deleted and still routed leads nowhere."""
        workloads = {workload.name: workload for workload in self.predictor.workloads}
        known = {}
        for run_name, run in self.runs.items():
            name = run_name.rpartition("-")[0]
            if name not in workloads or run is self._run_of(workloads[name]):
                is_up = name not in workloads or _leads_somewhere(workloads[name])
                ports = run.ports if is_up else self._unused_ports
                known[name] = self.backend(name, ports)
        for one in self._routed:
            if one.weight != 0 and one.name not in workloads:
                known[one.name] = self.backend(one.name, self._unused_ports)
        return list(known.values())

    def ingresses(self) -> list[Ingress]:
        """Return the host names: the HTTPRoutes' for the weights, and each Service's own.

        While the routes name a Deployment that has no users, users' requests are mirrored.
        """
        if not self._routed:
            return []
        suffix = f"{self.namespace}.{self._settings.domain}"
        hosts = (f"{self.name}.{suffix}", f"{self.name}-predictor.{suffix}")
        percents = tuple((one.name, 100 if one.weight is None else one.weight) for one in self._routed)
        services = [
            Ingress(
                f"{self.namespace}/{self.name}/{workload.name}",
                (f"{workload.name}.{self.namespace}.svc.cluster.local",),
                ((workload.name, 100),),
                tag=SERVICE_TAG,
            )
            for workload in self.predictor.workloads
            if workload.serving is not None and self._run_of(workload) is not None
        ]
        led_to = {ingress.percents[0][0] for ingress in services}
        shown = any(name in led_to and not percent for name, percent in percents)
        mirror = self._settings.mirror if shown else None
        return [Ingress(f"{self.namespace}/{self.name}", hosts, percents, mirror=mirror), *services]

    async def reconcile(self, service: Mapping[str, Any]) -> None:
        """Bring Deployments, routes, router and status to what the spec asks for, as KServe does."""
        before = self.predictor
        for workload, pods in _all_pods(before):
            run = self.runs.get(_run_name(workload, pods))
            if run is not None and run.phase != "stopped":
                before = machine.with_pods(
                    before,
                    workload.name,
                    pods.number,
                    phase=run.phase,
                    message=run.message,
                    exit_code=run.exit_code,
                )
        now_s = asyncio.get_running_loop().time()
        before = self._pods.advance(before, self._context.missing_pods(self.namespace), now_s)
        before = dataclasses.replace(before, routed=self._written_routes() or before.routed)
        self.predictor = machine.reconcile(before, service, self._settings.unpropagated_annotations)
        self._write_deployments(service)
        needed = self._start()
        routed = {one.name for one in self._routed if one.weight != 0}
        if routed - {workload.name for workload in self.predictor.workloads}:
            # KServe deletes a Deployment before it leads users away from it.
            await self.route()
        gateway_api = self._settings.gateway_api
        self.predictor = machine.route(self.predictor, service, gateway_api=gateway_api)
        self._write_routes(service)
        self.save_state()
        status = self._write_status(service)
        await self._apply_routes()
        self._write_status({**service, "status": status})
        for name in [one for one in self.runs if one not in needed]:
            log.info("pods %s: deleted", name)
            self.retire(name)
        self._look_again()

    def _look_again(self) -> None:
        """Have the worker look again when pods or autoscalers may have got on."""
        seconds = self._pods.next_look_s(self.predictor)
        if self._next_look is not None:
            self._next_look.cancel()
        loop = asyncio.get_running_loop()
        self._next_look = None if seconds is None else loop.call_later(seconds, self.wake)

    def pod_labels(self, run: str) -> Mapping[str, str]:
        """Return KServe's label of a Deployment's pods."""
        return {"app": f"isvc.{run.rpartition('-')[0]}"}

    def reset(self) -> None:
        """Forget all state and all routes, as before the first reconciliation."""
        if self.predictor.routed:
            self._delete_routes()
        self._delete_deployments_but(set())
        self.predictor, self._routed = machine.Predictor(), ()

    def state_to_save(self) -> dict[str, Any]:
        """Return the state that a later controller needs, as JSON."""
        return dataclasses.asdict(self.predictor)

    def restore_state(self, kept: Mapping[str, Any]) -> None:
        """Go on from what `state_to_save` returned; the pods died with the controller that started them."""
        workloads = tuple(
            machine.Workload(
                **{
                    **one,
                    "pods": tuple(
                        machine.Pods(**{**pods, "phase": "pending", "available": 0}) for pods in one["pods"]
                    ),
                }
            )
            for one in kept["workloads"]
        )
        routed = tuple(machine.Backend(**one) for one in kept["routed"])
        canaries = tuple(machine.CanaryStatus(**one) for one in kept["canaries"])
        self.predictor = machine.Predictor(
            **{**kept, "workloads": workloads, "routed": routed, "canaries": canaries}
        )
        self._routed = routed

    def _write_status(self, service: Mapping[str, Any]) -> dict[str, Any]:
        """Write and return the status; it repeats the canaries of the spec, whatever Envoy does."""
        accepted = self._is_accepted()
        status = status_of(self.predictor, **self.status_arguments(service), ingress_ready=accepted)
        self.write_status(status)
        return status

    async def _apply_routes(self) -> None:
        """Have Envoy do what the HTTPRoutes say, a moment after they were written, and say so in their status."""
        if self._routed != self.predictor.routed:
            await asyncio.sleep(self._settings.gateway_lag_s)
        self._routed = self.predictor.routed
        await self.route()
        self._accept_routes()

    def _start(self) -> set[str]:
        """Start the servers that must run, and return their names."""
        needed = set()
        for workload, pods in _all_pods(self.predictor):
            needed.add(_run_name(workload, pods))
            self.start_run(_run_name(workload, pods), pods.storage_uri)
        return needed

    def _run_of(self, workload: machine.Workload) -> RevisionRun | None:
        """Return the server that a Deployment's Service leads to: one that answers, or else the newest."""
        return self.runs.get(_run_name(workload, workload.serving or workload.newest))

    def _write_routes(self, service: Mapping[str, Any]) -> None:
        """Write the HTTPRoutes, unless they stay as they are; each keeps its generation where nothing changes."""
        if not self._settings.gateway_api or not self.predictor.is_ready:
            return
        for wanted in http_routes(self.predictor, service, self._settings.domain, self._settings.gateway):
            try:
                self._store.merge_patch(ROUTES, self.namespace, wanted["metadata"]["name"], wanted)
            except ApiError as error:
                if error.status != HTTPStatus.NOT_FOUND:
                    raise
                self._store.create(wanted)

    def _written_routes(self) -> tuple[machine.Backend, ...]:
        """Return what the service's own HTTPRoute leads to now, whoever wrote it; nothing if there is none."""
        try:
            return routed_by(self._store.get(ROUTES, self.namespace, self.name))
        except ApiError:
            return ()

    def _write_deployments(self, service: Mapping[str, Any]) -> None:
        """Write the Deployments with their status, and delete those that nothing names any more."""
        wanted = deployments(self.predictor, service)
        for one in wanted:
            name, status = one["metadata"]["name"], one.pop("status")
            try:
                stored = self._store.merge_patch(DEPLOYMENTS, self.namespace, name, one)
            except ApiError as error:
                if error.status != HTTPStatus.NOT_FOUND:
                    raise
                stored = self._store.create(one)
            status["observedGeneration"] = stored["metadata"]["generation"]
            self._store.update_status(DEPLOYMENTS, self.namespace, name, status)
        self._delete_deployments_but({one["metadata"]["name"] for one in wanted})

    def _delete_deployments_but(self, names: set[str]) -> None:
        for one in self._store.list(DEPLOYMENTS, self.namespace):
            metadata = one["metadata"]
            if metadata["labels"].get(SERVICE_LABEL) == self.name and metadata["name"] not in names:
                with contextlib.suppress(ApiError):
                    self._store.delete(DEPLOYMENTS, self.namespace, metadata["name"])

    def _is_accepted(self) -> bool:
        """Return whether a Gateway has taken the HTTPRoutes at all; KServe does not ask in which generation."""
        if not self._settings.gateway_api:
            return bool(self._routed)
        found = {one["metadata"]["name"]: one for one in self._store.list(ROUTES, self.namespace)}
        return all(found.get(name, {}).get("status", {}).get("parents") for name in self._route_names)

    def _accept_routes(self) -> None:
        """Say in the HTTPRoutes' status what a Gateway says of a generation that it has taken."""
        for name in self._route_names:
            accept(self._store, self.namespace, name)

    def _delete_routes(self) -> None:
        for name in self._route_names:
            try:
                self._store.delete(ROUTES, self.namespace, name)
            except ApiError as error:
                if error.status != HTTPStatus.NOT_FOUND:
                    raise

    @property
    def _route_names(self) -> tuple[str, str]:
        return (f"{self.name}-predictor", self.name)


def _all_pods(predictor: machine.Predictor) -> list[tuple[machine.Workload, machine.Pods]]:
    return [(workload, pods) for workload in predictor.workloads for pods in workload.pods]


def _leads_somewhere(workload: machine.Workload) -> bool:
    """Return whether a Deployment's Service has a pod to lead to, as far as its server says nothing else."""
    return workload.serving is not None or workload.newest.phase != "ready"


def _run_name(workload: machine.Workload, pods: machine.Pods) -> str:
    return f"{workload.name}-{pods.number}"
