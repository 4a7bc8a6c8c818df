"""The cluster's objects in memory, with versions and a history that watches follow.

Everything happens on one asyncio loop and no method but `watch` waits, so each call is atomic.
"""

from __future__ import annotations

import asyncio
import secrets
import string
import time
import uuid
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping
from copy import deepcopy
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from include.sandbox.cluster.admission.validation import Admission, admit, check_namespace_name
from include.sandbox.cluster.errors import ApiError, already_exists, bad_request, conflict, expired, not_found
from include.sandbox.cluster.merge import merge_patched
from include.sandbox.cluster.resource_lookup import resource_named, resource_of
from include.sandbox.cluster.resources import NAMESPACES, PODS, KubeObject, Resource
from include.sandbox.cluster.selectors import Matcher, label_matcher
from include.sandbox.cluster.storage.archive import Archive

__all__ = ["ApiError", "ObjectStore", "api_time"]

_SERVER_OWNED = (
    "name",
    "namespace",
    "uid",
    "creationTimestamp",
    "generation",
    "resourceVersion",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
)
_MODIFIED_MEANWHILE = (
    "the object has been modified; please apply your changes to the latest version and try again"
)
Key = tuple[str, str, str]
# The class has a method `list`, behind which the built-in type is hidden.
Objects = list[KubeObject]


@dataclass(frozen=True)
class Change:
    """One step of the history: `event` is ADDED, MODIFIED or DELETED; `before` is None for a new object."""

    version: int
    event: str
    obj: KubeObject
    before: KubeObject | None
    resource: Resource


Changes = list[Change]


def api_time(when: datetime | None = None) -> str:
    """A time as Kubernetes writes it, in UTC and whole seconds: `2026-11-20T10:00:00Z`. Default: now."""
    return (when or datetime.now(UTC)).strftime("%Y-%m-%dT%H:%M:%SZ")


class ObjectStore:
    """Objects by kind (`pods`, `events`, `inferenceservices`, `namespaces`), namespace and name.

    What is given and what is returned are copies. `archive` keeps objects over restarts; `history_limit` is
    how many changes a watch can go back; `namespaces`, when given, are the only ones in which objects can be
    created. Methods raise ApiError as the API server would answer.
    """

    def __init__(
        self,
        *,
        archive: Archive | None = None,
        history_limit: int = 2000,
        namespaces: tuple[str, ...] | None = None,
        admission: Callable[[Resource, KubeObject | None, KubeObject], Admission] = admit,
    ) -> None:
        self._objects: dict[Key, KubeObject] = {}
        self._history: deque[Change] = deque(maxlen=history_limit)
        self._subscribers: set[asyncio.Queue[Change]] = set()
        self._archive = archive
        self._admit = admission
        # Versions begin at the present time in ms: whatever an earlier process gave out is older than all of
        # ours.
        self._version = self._first_version = time.time_ns() // 1_000_000
        self._open_namespaces = namespaces is None
        if archive is not None:
            for resource, obj in archive.load():
                self._objects[self._key(resource, obj["metadata"].get("namespace", ""), obj)] = obj
        for name in namespaces or ("default",):
            self._ensure_namespace(name)

    @property
    def resource_version(self) -> str:
        """The version of the whole collection, as lists carry it."""
        return str(self._version)

    def create(self, obj: Mapping[str, Any], *, dry_run: bool = False) -> KubeObject:
        """Stores a new object (its kind read from `apiVersion` and `kind`) and returns it as stored.

        Raises ApiError 400, 403, 404 (namespace), 409 AlreadyExists or 422.
        """
        return self.create_admitted(obj, dry_run=dry_run).obj

    def create_admitted(self, obj: Mapping[str, Any], *, dry_run: bool = False) -> Admission:
        """As `create`, and says which unknown fields were dropped."""
        resource, new = resource_of(obj), deepcopy(dict(obj))
        metadata = new.setdefault("metadata", {})
        if not isinstance(metadata, dict):
            raise bad_request(f"metadata: expected an object; found {type(metadata).__name__}")
        if metadata.get("resourceVersion"):
            raise bad_request("resourceVersion should not be set on objects to be created")
        if not metadata.get("name") and isinstance(metadata.get("generateName"), str):
            alphabet = string.ascii_lowercase + string.digits
            metadata["name"] = metadata["generateName"] + "".join(secrets.choice(alphabet) for _ in range(5))
        if resource.namespaced and not metadata.get("namespace"):
            metadata["namespace"] = "default"
        if resource.has_status:
            new.pop("status", None)
        admission = self._admit(resource, None, new)
        created = admission.obj
        self._require_namespace(resource, created["metadata"])
        key = self._key(resource, created["metadata"].get("namespace", ""), created)
        if key in self._objects:
            raise already_exists(resource, created["metadata"]["name"])
        created["metadata"] |= {"uid": str(uuid.uuid4()), "creationTimestamp": api_time(), "generation": 1}
        if not dry_run:
            self._commit(resource, "ADDED", None, created)
        return Admission(deepcopy(created), admission.unknown_fields)

    def get(self, kind: str, namespace: str | None, name: str) -> KubeObject:
        """The object; raises ApiError 404."""
        return deepcopy(self._current(resource_named(kind), namespace, name))

    def list(self, kind: str, namespace: str | None = None, label_selector: str | None = None) -> Objects:
        """The objects of a kind, in one namespace or (None) in all, sorted by namespace and name.

        Raises ApiError 400 for a selector that does not parse.
        """
        return self.select(resource_named(kind), namespace, label_matcher(label_selector))

    def select(self, resource: Resource, namespace: str | None, matches: Matcher) -> Objects:
        """The objects of a kind that `matches` accepts, sorted by namespace and name."""
        return [
            deepcopy(obj)
            for key, obj in sorted(self._objects.items())
            if key[0] == resource.plural and (not namespace or key[1] == namespace) and matches(obj)
        ]

    def merge_patch(
        self,
        kind: str,
        namespace: str | None,
        name: str,
        patch: Mapping[str, Any],
        subresource: str | None = None,
        *,
        dry_run: bool = False,
    ) -> KubeObject:
        """Lays a merge patch over an object; with `subresource="status"` only the status changes, else all
        but it.

        A `metadata.resourceVersion` in the patch must be the present one. Raises ApiError 400, 403, 404, 409,
        422.
        """
        return self.patch_admitted(kind, namespace, name, patch, subresource, dry_run=dry_run).obj

    def patch_admitted(
        self,
        kind: str,
        namespace: str | None,
        name: str,
        patch: Mapping[str, Any],
        subresource: str | None = None,
        *,
        dry_run: bool = False,
    ) -> Admission:
        """As `merge_patch`, and says which unknown fields were dropped."""
        resource = resource_named(kind)
        merged = merge_patched(self._current(resource, namespace, name), patch)
        return self._update(resource, namespace, name, merged, subresource, dry_run=dry_run)

    def replace(
        self,
        kind: str,
        namespace: str | None,
        name: str,
        obj: Mapping[str, Any],
        subresource: str | None = None,
        *,
        dry_run: bool = False,
    ) -> Admission:
        """Puts `obj` in the place of the stored one; a `metadata.resourceVersion` in it must be the present
        one.

        Raises ApiError 400, 403, 404, 409, 422.
        """
        return self._update(
            resource_named(kind), namespace, name, deepcopy(dict(obj)), subresource, dry_run=dry_run
        )

    def update_status(
        self, kind: str, namespace: str | None, name: str, status: Mapping[str, Any]
    ) -> KubeObject:
        """Replaces the status, as a controller that owns it does; raises ApiError 404."""
        return self.mutate(kind, namespace, name, lambda obj: obj.update(status=deepcopy(dict(status))))

    def mutate(
        self, kind: str, namespace: str | None, name: str, change: Callable[[KubeObject], None]
    ) -> KubeObject:
        """Applies `change` to an object without admission, for what the cluster itself does; raises ApiError
        404.
        """
        resource = resource_named(kind)
        before = self._current(resource, namespace, name)
        after = deepcopy(before)
        change(after)
        if after != before:
            self._commit(resource, "MODIFIED", before, after)
        return deepcopy(after)

    def delete(
        self,
        kind: str,
        namespace: str | None,
        name: str,
        *,
        grace_period_s: int | None = None,
        uid: str | None = None,
        resource_version: str | None = None,
    ) -> KubeObject:
        """Deletes an object and returns its last state; raises ApiError 404, or 409 for a failed
        precondition.

        A running pod, and an object with finalizers, is only marked (`deletionTimestamp`); `finalize` removes
        it.
        """
        resource = resource_named(kind)
        before = self._current(resource, namespace, name)
        metadata = before["metadata"]
        for label, wanted, found in (
            ("UID", uid, metadata["uid"]),
            ("ResourceVersion", resource_version, metadata["resourceVersion"]),
        ):
            if wanted and wanted != found:
                why = (
                    f"Precondition failed: {label} in precondition: {wanted}, {label} in object meta: {found}"
                )
                raise conflict(resource, name, why)
        grace_s = _pod_grace_s(before, grace_period_s) if resource == PODS else 0
        if not grace_s and not metadata.get("finalizers"):
            return self._remove(resource, before)
        if "deletionTimestamp" in metadata and grace_s >= metadata.get("deletionGracePeriodSeconds", 0):
            return deepcopy(before)
        after = deepcopy(before)
        after["metadata"]["deletionTimestamp"] = api_time(datetime.now(UTC) + timedelta(seconds=grace_s))
        after["metadata"]["deletionGracePeriodSeconds"] = grace_s
        self._commit(resource, "MODIFIED", before, after)
        return deepcopy(after)

    def finalize(self, kind: str, namespace: str | None, name: str, uid: str) -> None:
        """Removes an object that was marked for deletion; nothing happens if it is gone or another has its
        name.
        """
        obj = self._objects.get((kind, namespace or "", name))
        if obj is not None and obj["metadata"]["uid"] == uid:
            self._remove(resource_named(kind), obj)

    async def watch(
        self,
        kind: str,
        namespace: str | None = None,
        *,
        since: int | None = None,
        matches: Matcher = lambda obj: True,
    ) -> AsyncIterator[tuple[str, KubeObject]]:
        """Yields (ADDED | MODIFIED | DELETED, object) for ever; first the present objects, or what came after
        `since`.

        An object that begins or ceases to match is ADDED or DELETED. Raises ApiError 410 when the history
        does not reach back to `since`.
        """
        resource = resource_named(kind)
        queue: asyncio.Queue[Change] = asyncio.Queue()
        backlog = self._backlog(since)
        present = self.select(resource, namespace, matches) if since is None else []
        self._subscribers.add(queue)
        try:
            for obj in present:
                yield "ADDED", obj
            for change in backlog:
                queue.put_nowait(change)
            # What was committed while the backlog was being taken comes after it: nothing waits in between.
            while True:
                change = await queue.get()
                event = _seen_as(change, resource, namespace, matches)
                if event:
                    yield event, deepcopy(change.obj)
        finally:
            self._subscribers.discard(queue)

    def _backlog(self, since: int | None) -> Changes:
        if since is None:
            return []
        full = self._history.maxlen == len(self._history)
        oldest = self._history[0].version - 1 if full and self._history else self._first_version
        # A version from the future was given out by another store: the client must list again, as for one too
        # old.
        if since < oldest or since > self._version:
            raise expired(since, oldest)
        return [change for change in self._history if change.version > since]

    def _update(
        self,
        resource: Resource,
        namespace: str | None,
        name: str,
        new: KubeObject,
        subresource: str | None,
        *,
        dry_run: bool,
    ) -> Admission:
        before = self._current(resource, namespace, name)
        self._check_identity(resource, before, new)
        after = new
        if subresource == "status":
            after = {**deepcopy(before), "status": new.get("status", {})}
        elif resource.has_status:
            after = {key: value for key, value in new.items() if key != "status"}
            if "status" in before:
                after["status"] = deepcopy(before["status"])
        own = {key: before["metadata"][key] for key in _SERVER_OWNED if key in before["metadata"]}
        given = {key: value for key, value in after["metadata"].items() if key not in _SERVER_OWNED}
        after["metadata"] = {**given, **own}
        admission = self._admit(resource, before, after)
        after = admission.obj
        if _essence(after) != _essence(before):
            after["metadata"]["generation"] = before["metadata"]["generation"] + 1
        if after != before and not dry_run:
            if "deletionTimestamp" in own and not after["metadata"].get("finalizers") and resource != PODS:
                self._remove(resource, after)
            else:
                self._commit(resource, "MODIFIED", before, after)
        return Admission(deepcopy(after), admission.unknown_fields)

    def _check_identity(self, resource: Resource, before: KubeObject, new: KubeObject) -> None:
        """Raises ApiError when `new` is about another object, or about a state that is no longer."""
        own, given = before["metadata"], new.get("metadata")
        if not isinstance(given, dict):
            raise bad_request("metadata: expected an object")
        if resource_of(new) != resource:
            raise bad_request(f"the object is not a {resource.kind}")
        for field in ("name", "namespace"):
            if given.get(field) and given[field] != own.get(field):
                raise bad_request(
                    f"the {field} of the object ({given[field]}) does not match "
                    f"the {field} on the URL ({own.get(field)})"
                )
        if given.get("resourceVersion") and given["resourceVersion"] != own["resourceVersion"]:
            raise conflict(resource, own["name"], _MODIFIED_MEANWHILE)
        if given.get("uid") and given["uid"] != own["uid"]:
            why = (
                f"Precondition failed: UID in precondition: {given['uid']}, UID in object meta: {own['uid']}"
            )
            raise conflict(resource, own["name"], why)

    def _commit(self, resource: Resource, event: str, before: KubeObject | None, after: KubeObject) -> None:
        self._version += 1
        after["metadata"]["resourceVersion"] = str(self._version)
        if resource.tells_last_write:
            after["metadata"]["managedFields"] = [_last_write(resource)]
        key = self._key(resource, after["metadata"].get("namespace", ""), after)
        if event == "DELETED":
            self._objects.pop(key, None)
        else:
            self._objects[key] = after
        if self._archive is not None:
            (self._archive.remove if event == "DELETED" else self._archive.save)(resource, after)
        change = Change(self._version, event, after, before, resource)
        self._history.append(change)
        for queue in self._subscribers:
            queue.put_nowait(change)

    def _remove(self, resource: Resource, obj: KubeObject) -> KubeObject:
        last = deepcopy(obj)
        self._commit(resource, "DELETED", obj, last)
        return deepcopy(last)

    def _current(self, resource: Resource, namespace: str | None, name: str) -> KubeObject:
        key = (resource.plural, (namespace or "") if resource.namespaced else "", name)
        if key in self._objects:
            return self._objects[key]
        raise not_found(resource, name)

    def _require_namespace(self, resource: Resource, metadata: Mapping[str, Any]) -> None:
        if not resource.namespaced:
            return
        name = metadata["namespace"]
        check_namespace_name(name)
        if ("namespaces", "", name) not in self._objects:
            if not self._open_namespaces:
                raise not_found(NAMESPACES, name)
            self._ensure_namespace(name)

    def _ensure_namespace(self, name: str) -> None:
        if ("namespaces", "", name) not in self._objects:
            self.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})

    @staticmethod
    def _key(resource: Resource, namespace: str, obj: KubeObject) -> Key:
        return (resource.plural, namespace if resource.namespaced else "", obj["metadata"]["name"])


def _last_write(resource: Resource) -> KubeObject:
    """Who wrote an object and when, without saying which fields: there is one manager here."""
    return {
        "manager": "emulated",
        "operation": "Update",
        "apiVersion": resource.api_version,
        "time": api_time(),
        "fieldsType": "FieldsV1",
        "fieldsV1": {},
    }


def _essence(obj: KubeObject) -> KubeObject:
    """What an object is for: a change of it is a new generation."""
    return {key: value for key, value in obj.items() if key not in ("metadata", "status")}


def _pod_grace_s(pod: KubeObject, asked_s: int | None) -> int:
    status = pod.get("status", {})
    if status.get("phase") in ("Succeeded", "Failed") or "startTime" not in status:
        return 0
    return int(pod["spec"]["terminationGracePeriodSeconds"] if asked_s is None else max(asked_s, 0))


def _seen_as(change: Change, resource: Resource, namespace: str | None, matches: Matcher) -> str | None:
    """What a watcher with this view is told about a change; None when it does not concern it."""
    if change.resource != resource:
        return None
    if namespace and change.obj["metadata"].get("namespace") != namespace:
        return None
    now = change.event != "DELETED" and matches(change.obj)
    earlier = change.before is not None and matches(change.before)
    if now:
        return "MODIFIED" if earlier else "ADDED"
    return "DELETED" if earlier else None
