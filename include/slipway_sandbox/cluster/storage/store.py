"""The cluster's objects in memory, with versions and a history that watches follow.

Everything happens on one asyncio loop and no method but `watch` waits, so each call is atomic.
"""

from __future__ import annotations

import secrets
import string
import uuid
from collections.abc import AsyncIterator, Callable, Mapping
from copy import deepcopy
from datetime import UTC, datetime, timedelta
from typing import Any

from slipway_sandbox.cluster.admission.metadata_rules import check_namespace_name
from slipway_sandbox.cluster.admission.validation import Admission, admit
from slipway_sandbox.cluster.errors import already_exists, bad_request, not_found, precondition_failed
from slipway_sandbox.cluster.merge import merge_patched
from slipway_sandbox.cluster.resource_lookup import resource_named, resource_of
from slipway_sandbox.cluster.resources import NAMESPACES, PODS, KubeObject, Resource
from slipway_sandbox.cluster.selectors import Matcher, label_matcher
from slipway_sandbox.cluster.storage.archive import Archive
from slipway_sandbox.cluster.storage.history import Change, History
from slipway_sandbox.cluster.storage.object_update import check_identity, essence, updated
from slipway_sandbox.cluster.storage.times import api_time

Key = tuple[str, str, str]
# The class has a method `list`, behind which the built-in type is hidden.
Objects = list[KubeObject]


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
        self._history = History(history_limit)
        self._archive = archive
        self._admit = admission
        self._open_namespaces = namespaces is None
        if archive is not None:
            for resource, obj in archive.load():
                self._objects[self._key(resource, obj["metadata"].get("namespace", ""), obj)] = obj
        for name in namespaces or ("default",):
            self._ensure_namespace(name)

    @property
    def resource_version(self) -> str:
        """The version of the whole collection, as lists carry it."""
        return str(self._history.version)

    def create(self, obj: Mapping[str, Any], *, dry_run: bool = False) -> KubeObject:
        """Store a new object (its kind read from `apiVersion` and `kind`) and return it as stored.

        Raises ApiError 400, 403, 404 (namespace), 409 AlreadyExists or 422.
        """
        return self.create_admitted(obj, dry_run=dry_run).obj

    def create_admitted(self, obj: Mapping[str, Any], *, dry_run: bool = False) -> Admission:
        """As `create`, and say which unknown fields were dropped."""
        resource, new = resource_of(obj), deepcopy(dict(obj))
        metadata = new.setdefault("metadata", {})
        if not isinstance(metadata, dict):
            raise bad_request(f"metadata: expected an object; found {type(metadata).__name__}")
        # A dry run stops before the storage, which is what refuses it.
        if metadata.pop("resourceVersion", None) and not dry_run:
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
        created["metadata"] |= {"uid": str(uuid.uuid4()), "creationTimestamp": api_time()}
        if resource.has_generation:
            created["metadata"]["generation"] = 1
        if not dry_run:
            self._commit(resource, "ADDED", None, created)
        return Admission(deepcopy(created), admission.unknown_fields)

    def get(self, kind: str, namespace: str | None, name: str) -> KubeObject:
        """Return the object.

        :raises ApiError: 404, there is no such object.
        """
        return deepcopy(self._current(resource_named(kind), namespace, name))

    def list(self, kind: str, namespace: str | None = None, label_selector: str | None = None) -> Objects:
        """Return the objects of a kind, in one namespace or (None) in all, sorted by namespace and name.

        :raises ApiError: 400, for a selector that does not parse.
        """
        return self.select(resource_named(kind), namespace, label_matcher(label_selector))

    def select(self, resource: Resource, namespace: str | None, matches: Matcher) -> Objects:
        """Return the objects of a kind that `matches` accepts, sorted by namespace and name."""
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
        """Lay a merge patch over an object; with `subresource="status"` only the status changes, else all
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
        """As `merge_patch`, and say which unknown fields were dropped."""
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
        """Put `obj` in the place of the stored one; a `metadata.resourceVersion` in it must be the present
        one.

        Raises ApiError 400, 403, 404, 409, 422.
        """
        return self._update(
            resource_named(kind), namespace, name, deepcopy(dict(obj)), subresource, dry_run=dry_run
        )

    def update_status(
        self, kind: str, namespace: str | None, name: str, status: Mapping[str, Any]
    ) -> KubeObject:
        """Replace the status, as a controller that owns it does.

        :raises ApiError: 404, there is no such object.
        """
        return self.mutate(kind, namespace, name, lambda obj: obj.update(status=deepcopy(dict(status))))

    def mutate(
        self, kind: str, namespace: str | None, name: str, change: Callable[[KubeObject], None]
    ) -> KubeObject:
        """Apply `change` to an object without admission, for what the cluster itself does.

        :raises ApiError: 404, there is no such object.
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
        """Delete an object and return its last state; raises ApiError 404, or 409 for a failed
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
                raise precondition_failed(resource, name, label, wanted, found)
        grace_s = _pod_grace_s(before, grace_period_s) if resource == PODS else 0
        if not grace_s and not metadata.get("finalizers"):
            return self._remove(resource, before)
        if "deletionTimestamp" in metadata and grace_s >= metadata.get("deletionGracePeriodSeconds", 0):
            return deepcopy(before)
        after = deepcopy(before)
        after["metadata"]["deletionTimestamp"] = api_time(datetime.now(UTC) + timedelta(seconds=grace_s))
        after["metadata"]["deletionGracePeriodSeconds"] = grace_s
        if resource.has_generation:
            after["metadata"]["generation"] += 1
        self._commit(resource, "MODIFIED", before, after)
        return deepcopy(after)

    def finalize(self, kind: str, namespace: str | None, name: str, uid: str) -> None:
        """Remove an object that was marked for deletion; nothing happens if it is gone or another has its
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
        """Yield (ADDED | MODIFIED | DELETED, object) forever; first the present objects, or what came after
        `since`.

        An object that begins or ceases to match is ADDED or DELETED. Raises ApiError 410 when the history
        does not reach back to `since`.
        """
        resource = resource_named(kind)
        backlog = [] if since is None else self._history.since(since)
        present = self.select(resource, namespace, matches) if since is None else []
        with self._history.followed() as queue:
            for obj in present:
                yield "ADDED", obj
            for change in backlog:
                queue.put_nowait(change)
            # What was committed while the backlog was being taken comes after it: nothing waits in between.
            while True:
                change = await queue.get()
                event = change.seen_as(resource, namespace, matches)
                if event:
                    yield event, deepcopy(change.obj)

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
        check_identity(resource, before, new)
        admission = self._admit(resource, before, updated(resource, before, new, subresource))
        after = admission.obj
        if resource.has_generation and essence(after) != essence(before):
            after["metadata"]["generation"] = before["metadata"]["generation"] + 1
        if after != before and not dry_run:
            if (
                "deletionTimestamp" in before["metadata"]
                and not after["metadata"].get("finalizers")
                and resource != PODS
            ):
                self._remove(resource, after)
            else:
                self._commit(resource, "MODIFIED", before, after)
        return Admission(deepcopy(after), admission.unknown_fields)

    def _commit(self, resource: Resource, event: str, before: KubeObject | None, after: KubeObject) -> None:
        version = self._history.next_version()
        after["metadata"]["resourceVersion"] = str(version)
        if resource.tells_last_write:
            after["metadata"]["managedFields"] = [_last_write(resource)]
        key = self._key(resource, after["metadata"].get("namespace", ""), after)
        if event == "DELETED":
            self._objects.pop(key, None)
        else:
            self._objects[key] = after
        if self._archive is not None:
            (self._archive.remove if event == "DELETED" else self._archive.save)(resource, after)
        self._history.add(Change(version, event, after, before, resource))

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
    """Return who wrote an object and when, without the fields: there is one manager here."""
    return {
        "manager": "emulated",
        "operation": "Update",
        "apiVersion": resource.api_version,
        "time": api_time(),
        "fieldsType": "FieldsV1",
        "fieldsV1": {},
    }


def _pod_grace_s(pod: KubeObject, asked_s: int | None) -> int:
    status = pod.get("status", {})
    if status.get("phase") in ("Succeeded", "Failed") or "startTime" not in status:
        return 0
    return int(pod["spec"]["terminationGracePeriodSeconds"] if asked_s is None else max(asked_s, 0))
