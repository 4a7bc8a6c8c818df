"""The servers behind a Kubernetes Service, by its EndpointSlices."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from airflow_provider_triton.client.settings import TritonSettings
from airflow_provider_triton.connection_fields import bracketed
from slipway.blocking_calls import BlockingCalls
from slipway.fleet.members import Member, with_control_over_grpc
from slipway.hooks.kubernetes_object import ClusterObjectHook
from slipway.hooks.triton import TritonHook
from slipway_core.errors import TimedOutError, TransientError, UserError
from slipway_core.fleet.fleet_file import ServiceMembers
from slipway_kubernetes import ObjectKind

ENDPOINT_SLICES = ObjectKind("discovery.k8s.io", "v1", "endpointslices", "EndpointSlice")
_OF_SERVICE = "kubernetes.io/service-name"
_LIMIT_S = 30.0
# For how long Kubernetes may take to write the slices after a label has changed.
_LEAVE_LIMIT_S = 30.0
_LEAVE_INTERVAL_S = 0.2
# A pod of a Service with two families has an address in a slice of each; it is always asked at the same one.
_FAMILIES = ("IPv4", "IPv6")
_FENCED = "false"
_SERVING = "true"


class SlicesHook(ClusterObjectHook):
    """The EndpointSlices of a Service, and its pods."""

    object_kind = ENDPOINT_SLICES

    def slices(self) -> Sequence[Mapping[str, Any]]:
        """Return the slices of the Service.

        :raises ClusterUnavailableError: they could not be read.
        """
        selector = f"{_OF_SERVICE}={self.name}"
        return self.objects.list(ENDPOINT_SLICES, self.namespace, label_selector=selector).items


class ServicePods:
    """The pods behind a Service, those that are not ready yet included: so a new one can be brought to the version.

    A pod is fenced by its label, which the Service selects by; no request reaches it then.
    """

    def __init__(self, service: ServiceMembers) -> None:
        self._service = service
        self._hook = SlicesHook(service.name, service.namespace, service.kubernetes_conn_id)
        self._calls = BlockingCalls("the Kubernetes API", _LIMIT_S)
        self._base: TritonSettings | None = None

    async def current(self) -> Sequence[Member]:
        """Return the pods that the Service's slices name."""
        slices = await self._calls.run(self._hook.slices)
        base = self._settings()
        return [
            Member(name, self._at(base, name, address), is_ready)
            for name, address, is_ready in endpoints_of(slices)
        ]

    async def require_fencing(self) -> None:
        """Find out whether the Service selects by the label, and whether pods may be labelled.

        :raises UserError: one of both is not so.
        :raises ClusterUnavailableError: the Kubernetes API does not say.
        """
        await self._calls.run(self._require_fencing)

    def _require_fencing(self) -> None:
        self._require_label()
        service = self._service
        if not self._hook.objects.may("patch", "pods", service.namespace):
            raise UserError(
                f"no pod of the Service {service.name!r} could be fenced",
                expected=f"the right to patch pods in the namespace {service.namespace!r}",
                found=f"the account of the connection {service.kubernetes_conn_id!r} does not have it",
                remedy="give it the Role of include/manifests/fleet/rbac.yaml, or let the fleet fail when a server "
                "is unavailable (`policy.on_unreachable`)",
            )

    async def fence(self, name: str, reason: str) -> None:
        """Change the label by which the Service finds a pod, and wait until the pod is in none of its slices.

        :raises UserError: the Service does not select by that label, so the pod would go on to get requests.
        :raises ClusterUnavailableError: the label could not be changed.
        :raises TimedOutError: the slices still name the pod.
        """
        await self._calls.run(lambda: self._fence(name))
        deadline, found = time.monotonic() + _LEAVE_LIMIT_S, "its slices still name it"
        while True:
            try:
                slices = await self._calls.run(self._hook.slices)
            except TransientError as error:
                found = error.in_short()
            else:
                if name not in {one for one, _, _ in endpoints_of(slices)}:
                    return
            if time.monotonic() >= deadline:
                raise TimedOutError(
                    f"the pod {name!r} has not left the Service {self._service.name!r}",
                    expected=f"no EndpointSlice with it within {_LEAVE_LIMIT_S:g} s",
                    found=found,
                    remedy="check that the cluster's endpointslice controller runs",
                )
            await asyncio.sleep(_LEAVE_INTERVAL_S)

    def _fence(self, name: str) -> None:
        self._require_label()
        labels = {self._service.fence_label: _FENCED}
        self._hook.objects.label_pod(self._service.namespace, name, labels)

    def _require_label(self) -> None:
        service = self._service
        selector = self._hook.objects.service_selector(service.namespace, service.name)
        if selector is None:
            raise UserError(
                f"the namespace {service.namespace!r} has no Service {service.name!r}",
                remedy="correct `service` in the fleet's file",
            )
        if selector.get(service.fence_label) != _SERVING:
            raise UserError(
                f"the Service {service.name!r} does not select by the label {service.fence_label!r}",
                expected=f"{service.fence_label}: {_SERVING!r} in its selector and on its pods",
                found=", ".join(f"{key}={value}" for key, value in selector.items()) or "no selector",
                remedy="add it to both, or let the fleet fail when a server is unreachable (`policy.on_unreachable`)",
            )

    def _settings(self) -> TritonSettings:
        if self._base is None:
            self._base = with_control_over_grpc(TritonHook(self._service.triton_conn_id).settings)
        return self._base

    def _at(self, base: TritonSettings, name: str, address: str) -> TritonSettings:
        host = bracketed(address)
        metrics = None if base.metrics_address is None else f"{host}:{base.metrics_address.rsplit(':', 1)[1]}"
        return replace(
            base,
            conn_id=name,
            http_address=f"{host}:{self._service.http_port}",
            grpc_address=f"{host}:{self._service.grpc_port}",
            metrics_address=metrics,
        )


def endpoints_of(slices: Iterable[Mapping[str, Any]]) -> list[tuple[str, str, bool]]:
    """Return the pods that EndpointSlices name, each once: its name, its address, and whether it gets requests.

    One that is ending is left out: its users have gone elsewhere.
    """
    found, ending = dict[str, tuple[str, str, bool]](), set[str]()
    usable = [one for one in slices if one["addressType"] in _FAMILIES]
    for one in sorted(usable, key=lambda one: _FAMILIES.index(one["addressType"])):
        for endpoint in one.get("endpoints") or ():
            conditions = endpoint.get("conditions") or {}
            addresses = endpoint.get("addresses") or ()
            if not addresses:
                continue
            name = str((endpoint.get("targetRef") or {}).get("name") or addresses[0])
            if conditions.get("terminating"):
                ending.add(name)
            # An endpoint that does not say is ready, by Kubernetes' own reading.
            found.setdefault(name, (name, str(addresses[0]), conditions.get("ready") is not False))
    return [one for name, one in found.items() if name not in ending]
