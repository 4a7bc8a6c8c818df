"""One object of the Kubernetes API, by the official client: what hooks for a kind of object have in common."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from typing import Any, ClassVar, Self

from airflow.providers.cncf.kubernetes.hooks.kubernetes import KubernetesHook
from airflow.sdk import BaseHook
from kubernetes.client import ApiException, CustomObjectsApi, V1DeleteOptions, V1Preconditions
from urllib3.exceptions import HTTPError

from include.model_release.errors import ClusterUnavailableError, SpecError

# To connect, and to answer. A write may pass admission webhooks, which have ten seconds themselves.
REQUEST_TIMEOUT_S = (3.0, 5.0)
WRITE_TIMEOUT_S = (3.0, 15.0)


class ClusterObjectHook(BaseHook):
    """One object of a kind that lies under ``/apis``; what is read and sent are plain mappings.

    "Could not read" (`ClusterUnavailableError`) is never reported as "is absent" (`None`).

    :param name: its name.
    :param namespace: its namespace.
    :param kubernetes_conn_id: an Airflow connection of type ``kubernetes``.
    """

    group: ClassVar[str]
    api_version: ClassVar[str]
    plural: ClassVar[str]
    kind: ClassVar[str]
    # What a person can do about an object that the API server finds invalid.
    invalid_remedy: ClassVar[str]

    def __init__(self, name: str, namespace: str, kubernetes_conn_id: str = "kubernetes_default") -> None:
        super().__init__()
        self.name = name
        self.namespace = namespace
        self.kubernetes_conn_id = kubernetes_conn_id

    @cached_property
    def _client(self) -> CustomObjectsApi:
        client = KubernetesHook(conn_id=self.kubernetes_conn_id).custom_object_client
        # urllib3 would ask an API that hangs four times before it gives up; who asks looks anew by himself.
        client.api_client.rest_client.pool_manager.connection_pool_kw["retries"] = False
        return client

    def sharing_client_of(self, other: ClusterObjectHook) -> Self:
        """This hook, with the client of another one: no connection is looked up any more."""
        self.__dict__["_client"] = other._client
        return self

    @property
    def _collection(self) -> tuple[str, str, str, str]:
        return self.group, self.api_version, self.namespace, self.plural

    def _read(self) -> dict[str, Any] | None:
        """The object as the API gives it, or None where there is none of this name."""
        with self._translated("reading"):
            try:
                return dict(
                    self._client.get_namespaced_custom_object(
                        *self._collection, self.name, _request_timeout=REQUEST_TIMEOUT_S
                    )
                )
            except ApiException as error:
                if error.status == 404:
                    return None
                raise

    def _create(self, manifest: Mapping[str, Any]) -> dict[str, Any] | None:
        """Creates the object and returns it as stored; None: there is one of this name already."""
        with self._translated("creating"):
            try:
                return dict(
                    self._client.create_namespaced_custom_object(
                        *self._collection, dict(manifest), _request_timeout=WRITE_TIMEOUT_S
                    )
                )
            except ApiException as error:
                if error.status == 409:
                    return None
                raise

    def _patch(self, body: Mapping[str, Any]) -> dict[str, Any] | None:
        """Applies a merge patch and returns the object as stored; None: it has changed since it was read, or is gone.

        :param body: a mapping with ``metadata.resourceVersion``. A mapping and not a list: for a list too the
            client would send the content type of a merge patch.
        """
        with self._translated("patching"):
            try:
                return dict(
                    self._client.patch_namespaced_custom_object(
                        *self._collection, self.name, dict(body), _request_timeout=WRITE_TIMEOUT_S
                    )
                )
            except ApiException as error:
                if error.status in (404, 409):
                    return None
                raise

    def _delete(self, uid: str, resource_version: str) -> bool:
        """Deletes the very object that was read; False: it has changed since (409), so look again."""
        preconditions = V1Preconditions(uid=uid, resource_version=resource_version)
        with self._translated("deleting"):
            try:
                self._client.delete_namespaced_custom_object(
                    *self._collection,
                    self.name,
                    body=V1DeleteOptions(preconditions=preconditions),
                    _request_timeout=WRITE_TIMEOUT_S,
                )
            except ApiException as error:
                if error.status == 409:
                    return False
                if error.status != 404:
                    raise
        return True

    @contextmanager
    def _translated(self, doing: str) -> Iterator[None]:
        what = f"{doing} the {self.kind} {self.namespace}/{self.name}"
        try:
            yield
        except ApiException as error:
            if _finds_it_invalid(error):
                raise SpecError(
                    f"{what}: the API server finds it invalid",
                    expected="an object that fits its schema",
                    found=str(error.body)[:500],
                    remedy=self.invalid_remedy,
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
    """Whether the object is at fault: the schema says so with 400 or 422, a webhook with 400 or 403."""
    return error.status in (400, 422) or (error.status == 403 and "admission webhook" in str(error.body))
