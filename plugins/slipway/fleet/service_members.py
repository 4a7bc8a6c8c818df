"""The servers behind a Kubernetes Service, by its EndpointSlices."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from include.kubernetes_objects import ObjectKind
from include.model_release.errors import UserError
from include.model_release.fleet.fleet_file import ServiceMembers
from slipway.blocking_calls import BlockingCalls
from slipway.fleet.members import Member, with_control_over_grpc
from slipway.hooks.kubernetes_object import ClusterObjectHook
from slipway.hooks.triton import TritonHook
from slipway.hooks.triton_client.settings import TritonSettings

ENDPOINT_SLICES = ObjectKind("discovery.k8s.io", "v1", "endpointslices", "EndpointSlice")
_OF_SERVICE = "kubernetes.io/service-name"
_LIMIT_S = 30.0
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

    @property
    def can_fence(self) -> bool:
        """Return whether a server can be taken out here."""
        return True

    async def current(self) -> Sequence[Member]:
        """Return the pods that the Service's slices name."""
        slices = await self._calls.run(self._hook.slices)
        base = self._settings()
        return [
            Member(name, self._at(base, name, address), is_ready)
            for name, address, is_ready in endpoints_of(slices)
        ]

    async def fence(self, name: str, reason: str) -> None:
        """Change the label by which the Service finds a pod.

        :raises UserError: the Service does not select by that label, so the pod would go on to get requests.
        """
        await self._calls.run(lambda: self._fence(name))

    def _fence(self, name: str) -> None:
        service = self._service
        selector = self._hook.objects.service_selector(service.namespace, service.name) or {}
        if selector.get(service.fence_label) != _SERVING:
            raise UserError(
                f"the Service {service.name!r} does not select by the label {service.fence_label!r}",
                expected=f"{service.fence_label}: {_SERVING!r} in its selector and on its pods",
                found=", ".join(f"{key}={value}" for key, value in selector.items()) or "no selector",
                remedy="add it to both, or let the fleet fail where a server is away (`policy.on_unreachable`)",
            )
        self._hook.objects.label_pod(service.namespace, name, {service.fence_label: _FENCED})

    def _settings(self) -> TritonSettings:
        if self._base is None:
            self._base = with_control_over_grpc(TritonHook(self._service.triton_conn_id).settings)
        return self._base

    def _at(self, base: TritonSettings, name: str, address: str) -> TritonSettings:
        host = f"[{address}]" if ":" in address else address
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
    found = dict[str, tuple[str, str, bool]]()
    for one in slices:
        for endpoint in one.get("endpoints") or ():
            conditions = endpoint.get("conditions") or {}
            addresses = endpoint.get("addresses") or ()
            if conditions.get("terminating") or not addresses:
                continue
            target = endpoint.get("targetRef") or {}
            name = str(target.get("name") or addresses[0])
            # An endpoint that does not say is ready, by Kubernetes' own reading.
            found[name] = (name, str(addresses[0]), conditions.get("ready") is not False)
    return list(found.values())
