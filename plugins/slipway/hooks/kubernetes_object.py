"""One object of the Kubernetes API: what the hooks for a kind of object have in common."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Self

from airflow.sdk import BaseHook

from slipway_core.rollout.fields import FIELD_MANAGER
from slipway_kubernetes import ObjectKind

if TYPE_CHECKING:
    from slipway_kubernetes.client import KubernetesObjects


# How often a change is decided anew while others change the object in between, and the pause before the second time.
ATTEMPTS = 6
FIRST_PAUSE_S = 0.05


class ClusterObjectHook(BaseHook):
    """One object of a kind that lies under ``/apis``; what is read and sent are plain mappings.

    "Could not read" (`ClusterUnavailableError`) is never reported as "is absent" (`None`).

    :param name: its name.
    :param namespace: its namespace.
    :param kubernetes_conn_id: an Airflow connection of type ``kubernetes``.
    """

    object_kind: ClassVar[ObjectKind]

    def __init__(self, name: str, namespace: str, kubernetes_conn_id: str = "kubernetes_default") -> None:
        super().__init__()
        self.name = name
        self.namespace = namespace
        self.kubernetes_conn_id = kubernetes_conn_id

    @cached_property
    def objects(self) -> KubernetesObjects:
        """The cluster that the connection leads to."""
        # Two Kubernetes clients: reading the DAG files needs neither.
        from airflow.providers.cncf.kubernetes.hooks.kubernetes import KubernetesHook

        from slipway_kubernetes.asking import asking_again
        from slipway_kubernetes.client import KubernetesObjects

        # The provider's hook keeps the connection: connecting anew asks Airflow for nothing.
        return KubernetesObjects(
            asking_again(KubernetesHook(conn_id=self.kubernetes_conn_id).get_conn),
            refused_remedy=f"check the permissions and the address of the connection {self.kubernetes_conn_id!r}",
            away_remedy=f"check the API server and the connection {self.kubernetes_conn_id!r}",
            field_manager=FIELD_MANAGER,
        )

    def sharing_client_of(self, other: ClusterObjectHook) -> Self:
        """Return this hook, with the client of another one: no connection is looked up any more."""
        self.__dict__["objects"] = other.objects
        return self

    def _read(self) -> dict[str, Any] | None:
        """Return the object as the API gives it, or None where there is none of this name."""
        return self.objects.read(self.object_kind, self.namespace, self.name)

    def _create(self, manifest: Mapping[str, Any]) -> dict[str, Any] | None:
        """Create the object and return it as stored; None: there is one of this name already."""
        return self.objects.create(self.object_kind, self.namespace, manifest)

    def _patch(self, body: Mapping[str, Any], limit_s: float | None = None) -> dict[str, Any] | None:
        """Apply a merge patch and return the object as stored; None: it has changed since it was read, or is gone.

        :param body: a mapping with ``metadata.resourceVersion``.
        :param limit_s: when to give the answer up; None: when a webhook must have answered.
        """
        return self.objects.patch(self.object_kind, self.namespace, self.name, body, limit_s=limit_s)

    def _delete(self, uid: str, resource_version: str) -> bool:
        """Delete the very object that was read; False: it has changed since (409), so observe again."""
        return self.objects.delete(self.object_kind, self.namespace, self.name, uid, resource_version)
