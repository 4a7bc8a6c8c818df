"""InferenceServices through the Kubernetes API."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, ClassVar

from slipway.hooks.http_route import HTTPRouteHook
from slipway.hooks.kubernetes_object import ClusterObjectHook
from slipway_core.errors import ClusterUnavailableError
from slipway_core.rollout.actions import PatchMade
from slipway_core.rollout.dialects.standard.candidate_route import route_name
from slipway_core.rollout.pods.disruption import PodState, pod_states
from slipway_core.rollout.pods.drain import SERVICE_LABEL, ServingPod, serving_pods
from slipway_core.rollout.pods.starting import StartingPod, starting_pods
from slipway_core.rollout.reading import Reading, Resource
from slipway_kubernetes import ObjectKind, kind_of

log = logging.getLogger(__name__)


class KServeHook(ClusterObjectHook):
    """One InferenceService, and the HTTPRoutes that lead to it.

    "Could not read" (`ClusterUnavailableError`) is never reported as "is absent" (`None`).

    :param name: its name.
    :param namespace: its namespace.
    :param kubernetes_conn_id: an Airflow connection of type ``kubernetes``.
    """

    object_kind: ClassVar[ObjectKind] = ObjectKind(
        "serving.kserve.io",
        "v1beta1",
        "inferenceservices",
        "InferenceService",
        invalid_remedy="correct the release file's `rollout`",
    )

    def __init__(self, name: str, namespace: str, kubernetes_conn_id: str = "kubernetes_default") -> None:
        super().__init__(name, namespace, kubernetes_conn_id)
        self._unchanging: dict[tuple[Resource, str, str], Mapping[str, Any]] = {}

    def get(self) -> dict[str, Any] | None:
        """Return the object as the API gives it, or None where there is no such InferenceService."""
        return self._read()

    def create(self, manifest: Mapping[str, Any]) -> bool:
        """Create the InferenceService; False: there is one of this name already."""
        return self._create(manifest) is not None

    def patch(self, body: Mapping[str, Any], limit_s: float | None = None) -> bool:
        """Apply a merge patch; False: the object has changed since it was read (409), or is gone: look again.

        :param body: a mapping with ``metadata.resourceVersion``.
        :param limit_s: when to give the answer up; None: when KServe's webhooks must have answered.
        """
        return self._patch(body, limit_s) is not None

    def delete(self, uid: str, resource_version: str) -> bool:
        """Delete the very object that was read; False: it has changed since (409), so look again."""
        return self._delete(uid, resource_version)

    def read(self, reading: Reading, uid: str = "") -> list[Mapping[str, Any]]:
        """Return the objects that a dialect reads besides the InferenceService, as the API gives them.

        One that does not exist is left out.

        :param uid: the InferenceService's; another one of its name would have objects of the same names.
        :raises ClusterUnavailableError: they cannot be read, which not everybody may.
        """
        kind = kind_of(reading.resource)
        if reading.names is None:
            return list(self.objects.list(kind, self.namespace, label_selector=reading.label_selector).items)
        found = []
        for name in reading.names:
            known = (reading.resource, uid, name)
            one = self._unchanging.get(known) or self.objects.read(kind, self.namespace, name)
            if one is None:
                continue
            if reading.never_changes:
                self._unchanging[known] = one
            found.append(one)
        return found

    def pods(self) -> tuple[ServingPod, ...] | None:
        """Return the pods that KServe, or Knative for it, has made for the InferenceService.

        :returns: None where they cannot be read.
        """
        try:
            return serving_pods(self.objects.pods(self.namespace, f"{SERVICE_LABEL}={self.name}"))
        except ClusterUnavailableError as error:
            log.info("%s", error.in_short())
            return None

    def starting_pods(self) -> tuple[StartingPod, ...] | None:
        """Return how far the InferenceService's pods are.

        :returns: None where they cannot be read: what waits for them goes on without.
        """
        try:
            return starting_pods(self.objects.pods(self.namespace, f"{SERVICE_LABEL}={self.name}"))
        except ClusterUnavailableError as error:
            log.info("%s", error.in_short())
            return None

    def pod_states(self, revision: str) -> tuple[PodState, ...]:
        """Return what the cluster says of the pods of a revision.

        :raises ClusterUnavailableError: they cannot be read.
        """
        return pod_states(self.objects.pods(self.namespace, f"{SERVICE_LABEL}={self.name}"), revision)

    def end_pod(self, pod: ServingPod, grace_s: int) -> bool:
        """End a pod, and with it what is open on it; False: it is gone.

        :raises ClusterUnavailableError: the API does not answer, or does not permit it.
        """
        return self.objects.end_pod(self.namespace, pod.name, pod.uid, grace_s)

    def patch_made(self, action: PatchMade) -> bool:
        """Write into what KServe has made; False: an object has changed since it was read, so look again."""
        log.warning("%s/%s: %s", self.namespace, self.name, action.reason)
        kind = kind_of(action.resource)
        return all(
            self.objects.patch(kind, self.namespace, one.name, one.body) is not None for one in action.patches
        )

    def expose(self, manifest: Mapping[str, Any]) -> bool:
        """Has the candidate's own HTTPRoute in the cluster; False: somebody wrote it in between, look again.

        :raises ForeignChangeError: somebody else has a route of its name.
        """
        return self._route(route_name(self.name)).put(manifest, self.name)

    def conceal(self) -> None:
        """Take the candidate's own HTTPRoute away, if there is one."""
        self._route(route_name(self.name)).remove(self.name)

    def config_map(self, namespace: str, name: str) -> dict[str, str] | None:
        """Return the data of a ConfigMap of the cluster's; None where it cannot be seen, which not everybody may."""
        return self.objects.read_config_map(namespace, name)

    def _route(self, name: str) -> HTTPRouteHook:
        return HTTPRouteHook(name, self.namespace, self.kubernetes_conn_id).sharing_client_of(self)
