"""InferenceServices through the Kubernetes API, by the official client."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from typing import Any

from airflow.providers.cncf.kubernetes.hooks.kubernetes import KubernetesHook
from airflow.sdk import BaseHook
from kubernetes.client import ApiException, CustomObjectsApi, V1DeleteOptions, V1Preconditions
from urllib3.exceptions import HTTPError

from include.model_release.errors import ClusterUnavailableError, SpecError
from include.model_release.preflight import ClusterConfig, cluster_config

_GROUP, _API_VERSION, _PLURAL = "serving.kserve.io", "v1beta1", "inferenceservices"
_CONFIG_MAP = ("inferenceservice-config", "kserve")
_ROUTES = ("gateway.networking.k8s.io", "v1")
_REQUEST_TIMEOUT_S = (5.0, 15.0)


class KServeHook(BaseHook):
    """One InferenceService.

    "Could not read" (`ClusterUnavailableError`) is never reported as "is absent" (`None`).

    :param name: its name.
    :param namespace: its namespace.
    :param kubernetes_conn_id: an Airflow connection of type ``kubernetes``.
    """

    def __init__(self, name: str, namespace: str, kubernetes_conn_id: str = "kubernetes_default") -> None:
        super().__init__()
        self.name = name
        self.namespace = namespace
        self.kubernetes_conn_id = kubernetes_conn_id

    @cached_property
    def _client(self) -> CustomObjectsApi:
        return KubernetesHook(conn_id=self.kubernetes_conn_id).custom_object_client

    @property
    def _collection(self) -> tuple[str, str, str, str]:
        return _GROUP, _API_VERSION, self.namespace, _PLURAL

    def get(self) -> dict[str, Any] | None:
        """The object as the API gives it, or None where there is no such InferenceService."""
        with self._translated("reading"):
            try:
                return dict(
                    self._client.get_namespaced_custom_object(
                        *self._collection,
                        self.name,
                        _request_timeout=_REQUEST_TIMEOUT_S,
                    )
                )
            except ApiException as error:
                if error.status == 404:
                    return None
                raise

    def routes(self) -> list[dict[str, Any]]:
        """The HTTPRoutes that KServe makes for the InferenceService in Standard mode, as the API gives them.

        There are two, the service's own and its predictor's. One that does not exist is left out, as both are in a
        cluster without Gateway API.
        """
        found = (self._route(name) for name in (self.name, f"{self.name}-predictor"))
        return [route for route in found if route is not None]

    def _route(self, name: str) -> dict[str, Any] | None:
        with self._translated("reading the HTTPRoutes of"):
            try:
                return dict(
                    self._client.get_namespaced_custom_object(
                        *_ROUTES,
                        self.namespace,
                        "httproutes",
                        name,
                        _request_timeout=_REQUEST_TIMEOUT_S,
                    )
                )
            except ApiException as error:
                if error.status == 404:
                    return None
                raise

    def cluster_config(self) -> ClusterConfig | None:
        """What KServe's ConfigMap says of routes; None where it cannot be seen, which not everybody may."""
        client = KubernetesHook(conn_id=self.kubernetes_conn_id).core_v1_client
        with self._translated("reading KServe's ConfigMap for"):
            try:
                found = client.read_namespaced_config_map(*_CONFIG_MAP, _request_timeout=_REQUEST_TIMEOUT_S)
            except ApiException as error:
                if error.status in (403, 404):
                    return None
                raise
        return cluster_config(found.data or {})

    def create(self, manifest: Mapping[str, Any]) -> bool:
        """Creates the InferenceService; False: there is one of this name already."""
        with self._translated("creating"):
            try:
                self._client.create_namespaced_custom_object(
                    *self._collection,
                    dict(manifest),
                    _request_timeout=_REQUEST_TIMEOUT_S,
                )
            except ApiException as error:
                if error.status == 409:
                    return False
                raise
        return True

    def patch(self, body: Mapping[str, Any]) -> bool:
        """Applies a merge patch; False: the object has changed since it was read (409), so look again.

        :param body: a mapping with ``metadata.resourceVersion``. A mapping and not a list: for a list too the
            client would send the content type of a merge patch.
        """
        with self._translated("patching"):
            try:
                self._client.patch_namespaced_custom_object(
                    *self._collection,
                    self.name,
                    dict(body),
                    _request_timeout=_REQUEST_TIMEOUT_S,
                )
            except ApiException as error:
                if error.status == 409:
                    return False
                raise
        return True

    def delete(self, uid: str, resource_version: str) -> bool:
        """Deletes the very object that was read; False: it has changed since (409), so look again."""
        preconditions = V1Preconditions(uid=uid, resource_version=resource_version)
        with self._translated("deleting"):
            try:
                self._client.delete_namespaced_custom_object(
                    *self._collection,
                    self.name,
                    body=V1DeleteOptions(preconditions=preconditions),
                    _request_timeout=_REQUEST_TIMEOUT_S,
                )
            except ApiException as error:
                if error.status == 409:
                    return False
                if error.status != 404:
                    raise
        return True

    @contextmanager
    def _translated(self, doing: str) -> Iterator[None]:
        what = f"{doing} the InferenceService {self.namespace}/{self.name}"
        try:
            yield
        except ApiException as error:
            if _finds_it_invalid(error):
                raise SpecError(
                    f"{what}: the API server finds it invalid",
                    expected="an object that fits KServe's schema",
                    found=str(error.body)[:500],
                    remedy="correct the release file's `rollout`",
                ) from error
            raise ClusterUnavailableError(
                f"{what} failed",
                expected="an answer of the Kubernetes API",
                found=f"HTTP {error.status} {error.reason}",
                remedy=f"check the rights and the address of the connection {self.kubernetes_conn_id!r}",
            ) from error
        except HTTPError as error:
            raise ClusterUnavailableError(
                f"{what} failed",
                expected="an answer of the Kubernetes API",
                found=f"{type(error).__name__}: {error}",
                remedy=f"check the API server and the connection {self.kubernetes_conn_id!r}",
            ) from error


def _finds_it_invalid(error: ApiException) -> bool:
    """Whether the object is at fault: the schema says so with 422, KServe's webhook with 400 or 403."""
    return error.status in (400, 422) or (error.status == 403 and "admission webhook" in str(error.body))
