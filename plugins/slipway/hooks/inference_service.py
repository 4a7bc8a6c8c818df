"""InferenceServices through the Kubernetes API."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

from slipway.hooks.http_route import HTTPRouteHook
from slipway.hooks.kubernetes_object import ClusterObjectHook
from slipway_core.errors import ClusterUnavailableError
from slipway_core.rollout.actions import PatchRoutes, PatchTraffic
from slipway_core.rollout.dialects.knative.features import CONFIG_MAP as KNATIVE_FEATURES
from slipway_core.rollout.dialects.knative.view import knative_service_name
from slipway_core.rollout.dialects.standard.candidate_route import route_name
from slipway_core.rollout.pods.disruption import PodState, pod_states
from slipway_core.rollout.pods.drain import SERVICE_LABEL, ServingPod, serving_pods
from slipway_core.rollout.pods.starting import StartingPod, starting_pods
from slipway_core.rollout.preflight import ClusterConfig, cluster_config
from slipway_kubernetes import ObjectKind

log = logging.getLogger(__name__)

_KNATIVE_SERVICES = ObjectKind("serving.knative.dev", "v1", "services", "Knative Service")
_REVISIONS = ObjectKind("serving.knative.dev", "v1", "revisions", "Revision")
_DEPLOYMENTS = ObjectKind("apps", "v1", "deployments", "Deployment")
_CONFIG_MAP = ("kserve", "inferenceservice-config")


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
        self._revisions: dict[tuple[str, str], dict[str, Any]] = {}

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

    def routes(self) -> list[dict[str, Any]]:
        """Return the HTTPRoutes of the InferenceService in Standard mode, as the API gives them.

        KServe makes two, the service's own and its predictor's; the third is slipway's, of a candidate that can be
        tried. One that does not exist is left out, as all are in a cluster without Gateway API.
        """
        names = (self.name, f"{self.name}-predictor", route_name(self.name))
        found = (self._route(name).get() for name in names)
        return [route for route in found if route is not None]

    def deployments(self) -> list[Mapping[str, Any]] | None:
        """Return the Deployments that KServe has made for the InferenceService in Standard mode.

        :returns: None where they cannot be read: what needs to know waits, and a rollback does not.
        """
        selector = f"{SERVICE_LABEL}={self.name}"
        try:
            return self.objects.list(_DEPLOYMENTS, self.namespace, label_selector=selector).items
        except ClusterUnavailableError as error:
            log.debug("%s", error)
            return None

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

    def patch_routes(self, action: PatchRoutes) -> bool:
        """Write weights into KServe's HTTPRoutes; False: one has changed since it was read, so look again."""
        log.warning("%s/%s: %s", self.namespace, self.name, action.reason)
        return all(self._route(one.name).set_weights(one.body) for one in action.patches)

    def knative_service(self) -> dict[str, Any] | None:
        """Return the Knative Service that KServe has made for the predictor in Knative mode.

        :returns: None where there is none.
        :raises ClusterUnavailableError: it cannot be read, which not everybody may.
        """
        return self.objects.read(_KNATIVE_SERVICES, self.namespace, knative_service_name(self.name))

    def revisions(self, names: Iterable[str], uid: str) -> list[dict[str, Any]]:
        """Return these revisions of the InferenceService; one that is gone is left out.

        What a revision serves never changes, so each is read once.

        :param uid: the InferenceService's; another one of its name would have revisions of the same names.
        :raises ClusterUnavailableError: one cannot be read, which not everybody may.
        """
        found = []
        for name in names:
            if (uid, name) not in self._revisions:
                revision = self.objects.read(_REVISIONS, self.namespace, name)
                if revision is None:
                    continue
                self._revisions[uid, name] = revision
            found.append(self._revisions[uid, name])
        return found

    def patch_traffic(self, action: PatchTraffic) -> bool:
        """Write the traffic of the Knative Service; False: it has changed since it was read, so look again."""
        log.warning("%s/%s: %s", self.namespace, self.name, action.reason)
        return self.objects.patch(_KNATIVE_SERVICES, self.namespace, action.name, action.body) is not None

    def expose(self, manifest: Mapping[str, Any]) -> bool:
        """Has the candidate's own HTTPRoute in the cluster; False: somebody wrote it in between, look again.

        :raises ForeignChangeError: somebody else has a route of its name.
        """
        return self._route(route_name(self.name)).put(manifest, self.name)

    def conceal(self) -> None:
        """Take the candidate's own HTTPRoute away, if there is one."""
        self._route(route_name(self.name)).remove(self.name)

    def cluster_config(self) -> ClusterConfig | None:
        """Return what KServe's ConfigMap says of routes; None where it cannot be seen, which not everybody may."""
        found = self.objects.read_config_map(*_CONFIG_MAP)
        return None if found is None else cluster_config(found)

    def knative_features(self) -> dict[str, str] | None:
        """Return which fields of pods Knative takes here; None where that cannot be seen, which not everybody may."""
        return self.objects.read_config_map(*KNATIVE_FEATURES)

    def _route(self, name: str) -> HTTPRouteHook:
        return HTTPRouteHook(name, self.namespace, self.kubernetes_conn_id).sharing_client_of(self)
