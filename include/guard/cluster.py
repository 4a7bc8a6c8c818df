"""What the guard asks of the Kubernetes API, through the official client: three lists, two patches, one event."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from email.utils import parsedate_to_datetime
from typing import Any

from kubernetes import config
from kubernetes.client import ApiClient, ApiException, Configuration, CoreV1Api, CustomObjectsApi
from urllib3.exceptions import HTTPError

from include.guard.log import say
from include.model_release.errors import ClusterUnavailableError, SpecError
from include.model_release.rollout import lease
from include.model_release.rollout.fields import deployment_mode

_SERVICES = ("serving.kserve.io", "v1beta1", "inferenceservices")
_ROUTES = ("gateway.networking.k8s.io", "v1", "httproutes")
_LEASES = (lease.GROUP, lease.API_VERSION, lease.PLURAL)
# To connect, and to answer: a guard that waits long for one answer does not watch.
_TIMEOUT_S = (3.0, 10.0)


@dataclass(frozen=True)
class Snapshot:
    """InferenceServices and our Leases as the API returned them, and what its clock said (None: nothing).

    `routes` are the HTTPRoutes, in which Standard mode shows its traffic; none where no service is in that mode.
    """

    services: tuple[Mapping[str, Any], ...]
    leases: tuple[Mapping[str, Any], ...]
    routes: tuple[Mapping[str, Any], ...] = ()
    server_time: datetime | None = None


class Cluster:
    """The parts of the API that a guard needs, in some namespaces or (none named) in all.

    Methods raise ClusterUnavailableError for whatever keeps the API from doing as asked.
    """

    def __init__(self, api: ApiClient, namespaces: tuple[str, ...] = ()) -> None:
        self._custom = CustomObjectsApi(api)
        self._core = CoreV1Api(api)
        self._namespaces = namespaces

    def snapshot(self) -> Snapshot:
        """Look at everything once. Leases after services: one that a canary has is not missed."""
        services, _ = self._list(_SERVICES)
        leases, server_time = self._list(_LEASES, label_selector=lease.SELECTOR)
        return Snapshot(tuple(services), tuple(leases), self._routes(services), server_time)

    def patch_service(self, namespace: str, name: str, body: Mapping[str, Any]) -> bool:
        """Merge-patch an InferenceService; False: it has changed since it was read, or is gone."""
        return self._patch(_SERVICES, namespace, name, body)

    def patch_lease(self, namespace: str, name: str, body: Mapping[str, Any]) -> bool:
        """Merge-patch a Lease; False: it has changed since it was read, or is gone."""
        return self._patch(_LEASES, namespace, name, body)

    def create_event(self, namespace: str, body: Mapping[str, Any]) -> bool:
        """Write an Event; False: there is one of this name already."""
        with _translated("writing an event"):
            return _done(
                lambda: self._core.create_namespaced_event(
                    namespace, dict(body), _request_timeout=_TIMEOUT_S, _preload_content=False
                )
            )

    def _routes(self, services: list[Mapping[str, Any]]) -> tuple[Mapping[str, Any], ...]:
        """The routes, where they matter. They show whether users are safe; to make them safe takes none."""
        if not any(deployment_mode(service) == "Standard" for service in services):
            return ()
        try:
            return tuple(self._list(_ROUTES)[0])
        except ClusterUnavailableError as error:
            say("routes_not_seen", logging.WARNING, found=str(error))
            return ()

    def _list(
        self, kind: tuple[str, str, str], **selectors: str
    ) -> tuple[list[Mapping[str, Any]], datetime | None]:
        group, version, plural = kind
        options = {**selectors, "_request_timeout": _TIMEOUT_S}
        items: list[Mapping[str, Any]] = []
        server_time = None
        with _translated(f"listing {plural}"):
            for namespace in self._namespaces or (None,):
                if namespace is None:
                    answer = self._custom.list_cluster_custom_object_with_http_info(
                        group, version, plural, **options
                    )
                else:
                    answer = self._custom.list_namespaced_custom_object_with_http_info(
                        group, version, namespace, plural, **options
                    )
                items += answer[0].get("items") or []
                server_time = _date(answer[2])
        return items, server_time

    def _patch(self, kind: tuple[str, str, str], namespace: str, name: str, body: Mapping[str, Any]) -> bool:
        group, version, plural = kind
        with _translated(f"patching {plural} {namespace}/{name}"):
            return _done(
                lambda: self._custom.patch_namespaced_custom_object(
                    group, version, namespace, plural, name, dict(body), _request_timeout=_TIMEOUT_S
                )
            )


def connect(kubeconfig: str | None) -> ApiClient:
    """Return a client with the rights of a kubeconfig, or of the pod that this runs in.

    Raises SpecError where there is no usable one.
    """
    configuration = Configuration()
    # The guard itself tries again, after it has looked anew.
    configuration.retries = False
    try:
        if kubeconfig is None:
            config.load_incluster_config(client_configuration=configuration)
        else:
            config.load_kube_config(config_file=kubeconfig, client_configuration=configuration)
    except Exception as error:  # a file that is no YAML fails with the parser's own errors
        raise SpecError(
            "the guard does not know how to reach the cluster",
            expected="a pod's service account, or --kubeconfig with a readable file",
            found=str(error),
            remedy="run it in the cluster, or name a kubeconfig",
        ) from error
    return ApiClient(configuration)


def _done(ask: Callable[[], Any]) -> bool:
    """Whether the API did as asked; False where the object is in another state by now, or gone."""
    try:
        ask()
    except ApiException as error:
        if error.status in (404, 409):
            return False
        raise
    return True


@contextmanager
def _translated(doing: str) -> Iterator[None]:
    try:
        yield
    except ApiException as error:
        raise ClusterUnavailableError(
            f"{doing} failed",
            expected="an answer of the Kubernetes API",
            found=f"HTTP {error.status} {error.reason}",
            remedy="check the guard's rights and KServe's installation",
        ) from error
    except (HTTPError, OSError, ValueError) as error:
        raise ClusterUnavailableError(
            f"{doing} failed",
            expected="an answer of the Kubernetes API",
            found=f"{type(error).__name__}: {error}",
            remedy="check the API server and the way to it",
        ) from error


def _date(headers: Mapping[str, str]) -> datetime | None:
    """The server's clock, as every HTTP answer carries it."""
    try:
        return parsedate_to_datetime(headers["Date"])
    except (KeyError, ValueError):
        return None
