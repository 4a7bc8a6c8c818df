"""What the guard asks of the Kubernetes API: canaries and leases, what their dialects ask for, and one event."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from kubernetes import config
from kubernetes.client import ApiClient, Configuration

from slipway_core.errors import ClusterUnavailableError, SpecError
from slipway_core.rollout import lease
from slipway_core.rollout.dialects.registry import dialect_of
from slipway_core.rollout.fields import FIELD_MANAGER
from slipway_core.rollout.reading import Reading, Resource
from slipway_guard.log import say
from slipway_kubernetes import ObjectKind, kind_of
from slipway_kubernetes.asking import asking_again
from slipway_kubernetes.client import KubernetesObjects

# Nobody is there to correct an object: one that the API server refuses is tried again, as all else.
_SERVICES = ObjectKind("serving.kserve.io", "v1beta1", "inferenceservices", "InferenceService")
_LEASES = ObjectKind(lease.GROUP, lease.API_VERSION, lease.PLURAL, "Lease")


@dataclass(frozen=True)
class Snapshot:
    """InferenceServices and our Leases as the API returned them, and what its clock said (None: nothing).

    `watched` is what the dialects of these InferenceServices have listed at every look, by resource; one that could not
    be seen is missing.
    """

    services: tuple[Mapping[str, Any], ...]
    leases: tuple[Mapping[str, Any], ...]
    watched: Mapping[Resource, tuple[Mapping[str, Any], ...]] = field(default_factory=dict)
    server_time: datetime | None = None


class Cluster:
    """The parts of the API that a guard needs, in some namespaces or (none named) in all.

    Methods raise ClusterUnavailableError for whatever keeps the API from doing as asked.
    """

    def __init__(self, api: ApiClient, namespaces: tuple[str, ...] = ()) -> None:
        self._objects = KubernetesObjects(
            api,
            refused_remedy="check the guard's rights and KServe's installation",
            away_remedy="check the API server and the way to it",
            field_manager=FIELD_MANAGER,
        )
        self.namespaces = namespaces

    def snapshot(self) -> Snapshot:
        """Look at everything once. Leases after services: one that a canary has is not missed."""
        services, _ = self._list(_SERVICES)
        leases, server_time = self._list(_LEASES, label_selector=lease.SELECTOR)
        return Snapshot(tuple(services), tuple(leases), self._watched(services), server_time)

    def patch_service(
        self, namespace: str, name: str, body: Mapping[str, Any], limit_s: float | None = None
    ) -> bool:
        """Merge-patch an InferenceService; False: it has changed since it was read, or is gone.

        :param limit_s: when to give the answer up; None: when KServe's webhooks must have answered.
        """
        return self._objects.patch(_SERVICES, namespace, name, body, limit_s=limit_s) is not None

    def read(self, namespace: str, reading: Reading) -> tuple[Mapping[str, Any], ...]:
        """Return the objects of these names; one that does not exist, or cannot be seen, is left out.

        To set a weight takes none of them, and whether users are safe may be known without.
        """
        found = []
        for name in reading.names or ():
            try:
                one = self._objects.read(kind_of(reading.resource), namespace, name)
            except ClusterUnavailableError as error:
                _say_not_seen(reading.resource, error)
                continue
            if one is not None:
                found.append(one)
        return tuple(found)

    def patch_made(self, namespace: str, resource: Resource, name: str, body: Mapping[str, Any]) -> bool:
        """Merge-patch an object that KServe has made; False: it has changed since it was read, or is gone."""
        return self._objects.patch(kind_of(resource), namespace, name, body) is not None

    def patch_lease(self, namespace: str, name: str, body: Mapping[str, Any]) -> bool:
        """Merge-patch a Lease; False: it has changed since it was read, or is gone."""
        return self._objects.patch(_LEASES, namespace, name, body) is not None

    def renew_heartbeat(self, namespace: str, lease_of_guard: Mapping[str, Any]) -> None:
        """Write the Lease that shows that the guard looks, whatever was there: the last one who looked counts."""
        name = str(lease_of_guard["metadata"]["name"])
        if self._objects.patch(_LEASES, namespace, name, lease_of_guard) is None:
            self._objects.create(_LEASES, namespace, lease_of_guard)

    def create_event(self, namespace: str, body: Mapping[str, Any]) -> bool:
        """Write an Event; False: there is one of this name already."""
        return self._objects.create_event(namespace, body)

    def _watched(self, services: list[Mapping[str, Any]]) -> dict[Resource, tuple[Mapping[str, Any], ...]]:
        """Return what is watched, where it matters. It shows whether users are safe; to make them safe takes none."""
        found = {}
        for resource in dict.fromkeys(one for service in services for one in dialect_of(service).watched):
            try:
                found[resource] = tuple(self._list(kind_of(resource))[0])
            except ClusterUnavailableError as error:
                _say_not_seen(resource, error)
        return found

    def _list(
        self, kind: ObjectKind, label_selector: str = ""
    ) -> tuple[list[Mapping[str, Any]], datetime | None]:
        items: list[Mapping[str, Any]] = []
        server_time = None
        for namespace in self.namespaces or (None,):
            listing = self._objects.list(kind, namespace, label_selector=label_selector)
            items += listing.items
            server_time = listing.server_time
        return items, server_time


def _say_not_seen(resource: Resource, error: ClusterUnavailableError) -> None:
    say("not_seen", logging.WARNING, resource=resource.name, found=str(error))


def connect(kubeconfig: str | None) -> ApiClient:
    """Return a client with the rights of a kubeconfig, or of the pod that this runs in.

    :raises SpecError: there is no usable one.
    """

    def client() -> ApiClient:
        configuration = Configuration()
        if kubeconfig is None:
            config.load_incluster_config(client_configuration=configuration)
        else:
            config.load_kube_config(config_file=kubeconfig, client_configuration=configuration)
        return ApiClient(configuration)

    try:
        return asking_again(client)
    except Exception as error:  # a file that is no YAML fails with the parser's own errors
        raise SpecError(
            "the guard does not know how to reach the cluster",
            expected="a pod's service account, or --kubeconfig with a readable file",
            found=str(error),
            remedy="run it in the cluster, or name a kubeconfig",
        ) from error
