"""Read, create, patch and delete objects as plain mappings, with one translation of errors and one set of time limits.

"Could not read" (`ClusterUnavailableError`) is never reported as "is absent" (`None`). What meets a conflict is not
sent again here: whoever asked must observe again.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from email.utils import parsedate_to_datetime
from typing import Any

from kubernetes.client import (
    ApiClient,
    ApiException,
    AuthorizationV1Api,
    CoreV1Api,
    CustomObjectsApi,
    V1DeleteOptions,
    V1Preconditions,
    VersionApi,
)
from urllib3.exceptions import HTTPError

from slipway_core.errors import ClusterUnavailableError, SpecError
from slipway_kubernetes.kind import ObjectKind

# To connect, and to answer. A list may be long; a write may pass admission webhooks, which have ten seconds themselves.
CONNECT_LIMIT_S = 3.0
READ_TIMEOUT_S = (CONNECT_LIMIT_S, 5.0)
LIST_TIMEOUT_S = (CONNECT_LIMIT_S, 10.0)
WRITE_TIMEOUT_S = (CONNECT_LIMIT_S, 15.0)
_BODY_LIMIT = 500


@dataclass(frozen=True)
class Listing:
    """Objects as the API returned them, and what its clock said (None: nothing)."""

    items: list[Mapping[str, Any]]
    server_time: datetime | None


class KubernetesObjects:
    """The objects of one cluster.

    :param api: a client whose connections do not ask again by themselves, see `asking_again`.
    :param refused_remedy: what to check where the API answers with an error.
    :param away_remedy: what to check where it does not answer.
    :param field_manager: under which name the API server keeps what was changed, in `metadata.managedFields`.
    """

    def __init__(
        self, api: ApiClient, *, refused_remedy: str, away_remedy: str, field_manager: str = "slipway"
    ) -> None:
        self._custom = CustomObjectsApi(api)
        self._core = CoreV1Api(api)
        self._authorization = AuthorizationV1Api(api)
        self._version = VersionApi(api)
        self._refused_remedy = refused_remedy
        self._away_remedy = away_remedy
        self._field_manager = field_manager

    def read(self, kind: ObjectKind, namespace: str, name: str) -> dict[str, Any] | None:
        """Return the object as the API gives it; None: there is none of this name."""
        with self._translated("reading", kind, namespace, name):
            try:
                return _object(
                    self._custom.get_namespaced_custom_object(
                        *_collection(kind, namespace), name, _request_timeout=READ_TIMEOUT_S
                    )
                )
            except ApiException as error:
                _raise_unless(error, 404)
                return None

    def list(self, kind: ObjectKind, namespace: str | None, *, label_selector: str = "") -> Listing:
        """Return the objects of a namespace; None: of all of them. A list that is not whole is an error."""
        options: dict[str, Any] = {"_request_timeout": LIST_TIMEOUT_S}
        if label_selector:
            options["label_selector"] = label_selector
        with self._translated(f"listing {kind.plural}"):
            if namespace is None:
                found, _, headers = self._custom.list_cluster_custom_object_with_http_info(
                    kind.group, kind.version, kind.plural, **options
                )
            else:
                found, _, headers = self._custom.list_namespaced_custom_object_with_http_info(
                    *_collection(kind, namespace), **options
                )
            return Listing(_items(found), _date(headers))

    def create(self, kind: ObjectKind, namespace: str, manifest: Mapping[str, Any]) -> dict[str, Any] | None:
        """Create an object and return it as stored; None: there is one of this name already."""
        name = str(manifest["metadata"]["name"])
        with self._translated("creating", kind, namespace, name, is_new=True):
            try:
                return _object(
                    self._custom.create_namespaced_custom_object(
                        *_collection(kind, namespace), dict(manifest), _request_timeout=WRITE_TIMEOUT_S
                    )
                )
            except ApiException as error:
                _raise_unless(error, 409)
                return None

    def patch(
        self,
        kind: ObjectKind,
        namespace: str,
        name: str,
        body: Mapping[str, Any],
        *,
        limit_s: float | None = None,
    ) -> dict[str, Any] | None:
        """Apply a merge patch and return the object as stored; None: it has changed since it was read, or is gone.

        :param limit_s: when to give up on the answer; then it is unknown whether it was applied. None: when a webhook
            must have answered.
        :param body: a mapping with ``metadata.resourceVersion``. A mapping and not a list: for a list too the client
            would send the content type of a merge patch.
        """
        with self._translated("patching", kind, namespace, name):
            try:
                return _object(
                    self._custom.patch_namespaced_custom_object(
                        *_collection(kind, namespace),
                        name,
                        dict(body),
                        field_manager=self._field_manager,
                        _request_timeout=WRITE_TIMEOUT_S if limit_s is None else (CONNECT_LIMIT_S, limit_s),
                    )
                )
            except ApiException as error:
                _raise_unless(error, 404, 409)
                return None

    def delete(self, kind: ObjectKind, namespace: str, name: str, uid: str, resource_version: str) -> bool:
        """Delete the very object that was read; False: it has changed since (409), so observe again."""
        preconditions = V1Preconditions(uid=uid, resource_version=resource_version)
        with self._translated("deleting", kind, namespace, name):
            try:
                self._custom.delete_namespaced_custom_object(
                    *_collection(kind, namespace),
                    name,
                    body=V1DeleteOptions(preconditions=preconditions),
                    _request_timeout=WRITE_TIMEOUT_S,
                )
            except ApiException as error:
                if error.status != 404:
                    _raise_unless(error, 409)
                    return False
        return True

    def read_config_map(self, namespace: str, name: str) -> dict[str, str] | None:
        """Return a ConfigMap's data; None: it cannot be seen, which not everybody may."""
        with self._translated(f"reading the ConfigMap {namespace}/{name}"):
            try:
                found = self._core.read_namespaced_config_map(
                    name, namespace, _request_timeout=READ_TIMEOUT_S
                )
            except ApiException as error:
                _raise_unless(error, 403, 404)
                return None
        return dict(found.data or {})

    def service_selector(self, namespace: str, name: str) -> dict[str, str] | None:
        """Return the labels by which a Service selects its pods; None: there is no such Service."""
        with self._translated(f"reading the Service {namespace}/{name}"):
            try:
                found = self._core.read_namespaced_service(name, namespace, _request_timeout=READ_TIMEOUT_S)
            except ApiException as error:
                _raise_unless(error, 404)
                return None
            if found.spec is None:
                raise ValueError("an answer that isn't a Service")
            return dict(found.spec.selector or {})

    def label_pod(self, namespace: str, name: str, labels: Mapping[str, str]) -> bool:
        """Set labels of a pod; False: there is no such pod."""
        with self._translated(f"labelling the pod {namespace}/{name}"):
            try:
                self._core.patch_namespaced_pod(
                    name, namespace, {"metadata": {"labels": dict(labels)}}, _request_timeout=WRITE_TIMEOUT_S
                )
            except ApiException as error:
                _raise_unless(error, 404)
                return False
            return True

    def pods(self, namespace: str, label_selector: str) -> tuple[dict[str, Any], ...]:
        """Return pods as the API gives them. A list that is not whole is an error."""
        with self._translated(f"listing pods in {namespace}"):
            found = self._core.list_namespaced_pod(
                namespace,
                label_selector=label_selector,
                _request_timeout=LIST_TIMEOUT_S,
                _preload_content=False,
            )
            return tuple(_object(one) for one in _items(json.loads(found.data)))

    def end_pod(self, namespace: str, name: str, uid: str, grace_s: int) -> bool:
        """Delete the very pod that was seen; False: it is gone, or another has its name."""
        options = V1DeleteOptions(preconditions=V1Preconditions(uid=uid), grace_period_seconds=grace_s)
        with self._translated(f"ending the pod {namespace}/{name}"):
            try:
                self._core.delete_namespaced_pod(
                    name, namespace, body=options, _request_timeout=WRITE_TIMEOUT_S, _preload_content=False
                )
            except ApiException as error:
                _raise_unless(error, 404, 409)
                return False
            return True

    def may(self, verb: str, plural: str, namespace: str, *, group: str = "", subresource: str = "") -> bool:
        """Return whether who asks may do this with objects of a group, the core group by default, as the API says."""
        attributes = {"namespace": namespace, "verb": verb, "resource": plural}
        attributes |= {key: text for key, text in (("group", group), ("subresource", subresource)) if text}
        with self._translated(f"asking whether one may {verb} {plural} in {namespace}"):
            found = self._authorization.create_self_subject_access_review(
                {"spec": {"resourceAttributes": attributes}}, _request_timeout=READ_TIMEOUT_S
            )
            return bool(found.status.allowed)

    def reads_secrets(self, namespace: str) -> bool:
        """Try to list the Secrets of a namespace; return whether the API has let it be. What it answers is not read."""
        with self._translated(f"listing secrets in {namespace}"):
            try:
                self._core.list_namespaced_secret(
                    namespace, limit=1, _request_timeout=READ_TIMEOUT_S, _preload_content=False
                )
            except ApiException as error:
                _raise_unless(error, 403)
                return False
            return True

    def server(self) -> tuple[str, datetime | None]:
        """Return the API server's version, and what its clock says (None: nothing)."""
        with self._translated("reading the API server's version"):
            found, _, headers = self._version.get_code_with_http_info(_request_timeout=READ_TIMEOUT_S)
            return str(found.git_version), _date(headers)

    def create_event(self, namespace: str, body: Mapping[str, Any]) -> bool:
        """Write an Event; False: there is one of this name already."""
        with self._translated("writing an event"):
            try:
                self._core.create_namespaced_event(
                    namespace, dict(body), _request_timeout=WRITE_TIMEOUT_S, _preload_content=False
                )
            except ApiException as error:
                _raise_unless(error, 404, 409)
                return False
        return True

    @contextmanager
    def _translated(
        self,
        doing: str,
        kind: ObjectKind | None = None,
        namespace: str = "",
        name: str = "",
        *,
        is_new: bool = False,
    ) -> Iterator[None]:
        what = doing if kind is None else f"{doing} the {kind.kind} {namespace}/{name}"
        try:
            yield
        except ApiException as error:
            if kind is not None and kind.invalid_remedy and _finds_it_invalid(error, is_new=is_new):
                raise SpecError(
                    f"{what}: the API server finds it invalid",
                    expected="an object that fits its schema",
                    found=str(error.body)[:_BODY_LIMIT],
                    remedy=kind.invalid_remedy,
                ) from error
            raise ClusterUnavailableError(
                f"{what} failed",
                expected="an answer of the Kubernetes API",
                found=f"HTTP {error.status} {error.reason}{_server_message(error)}",
                remedy=self._refused_remedy,
            ) from error
        except (HTTPError, OSError, ValueError) as error:
            raise ClusterUnavailableError(
                f"{what} failed",
                expected="an answer of the Kubernetes API",
                found=f"{type(error).__name__}: {error}",
                remedy=self._away_remedy,
            ) from error


def _object(answer: Any) -> dict[str, Any]:
    """Return the object in an answer; raise ValueError where it holds none."""
    if not isinstance(answer, Mapping):
        raise ValueError(f"an answer that isn't an object: {str(answer)[:_BODY_LIMIT]}")
    return dict(answer)


def _items(answer: Any) -> list[Mapping[str, Any]]:
    """Return the objects of a list; raise ValueError if the answer is not a list, or holds only its beginning."""
    found = _object(answer)
    items, metadata = found.get("items"), found.get("metadata")
    if not isinstance(items, list):
        raise ValueError(f"a list without items: {str(answer)[:_BODY_LIMIT]}")
    if isinstance(metadata, Mapping) and metadata.get("continue"):
        raise ValueError("the first part of a list, although the whole list was requested")
    return items


def _collection(kind: ObjectKind, namespace: str) -> tuple[str, str, str, str]:
    return kind.group, kind.version, namespace, kind.plural


def _raise_unless(error: ApiException, *statuses: int) -> None:
    """Raise the error unless the answer has one of these statuses."""
    if error.status not in statuses:
        raise error


def _finds_it_invalid(error: ApiException, *, is_new: bool) -> bool:
    """Whether the object is at fault: the schema says so with 400 or 422, a webhook with 400 or 403.

    KServe's webhook panics at a new object that lacks what it looks for, which is a 500. A change that it panics at is
    tried again: among changes are those that lead users back.
    """
    if error.status in (400, 422):
        return True
    body = str(error.body)
    if "admission webhook" not in body:
        return False
    return error.status == 403 or (is_new and error.status == 500 and "denied the request: panic: " in body)


def _server_message(error: ApiException) -> str:
    """Return what the server said, with a colon before it; "" if it said nothing that can be read."""
    try:
        message = json.loads(error.body)["message"]
    except (KeyError, TypeError, ValueError):
        return ""
    return f": {message[:_BODY_LIMIT]}" if isinstance(message, str) and message else ""


def _date(headers: Mapping[str, str]) -> datetime | None:
    """The server's clock, as every HTTP answer carries it."""
    try:
        return parsedate_to_datetime(headers["Date"])
    except (KeyError, ValueError):
        return None
