"""Events: what the cluster reports about its objects."""

from __future__ import annotations

import logging
import secrets
from collections import deque
from collections.abc import Mapping
from typing import Any, Protocol

from slipway_sandbox.cluster.errors import ApiError
from slipway_sandbox.cluster.resources import KubeObject
from slipway_sandbox.cluster.storage.times import api_time

log = logging.getLogger(__name__)

_KEPT = 1000


class EventStore(Protocol):
    """What writing events needs of the cluster's store."""

    def create(self, obj: Mapping[str, Any]) -> KubeObject:
        """Store a new object; raises `ApiError`."""

    def delete(self, kind: str, namespace: str | None, name: str) -> KubeObject:
        """Delete an object; raises `ApiError`."""


class EventRecorder:
    """Writes events in the name of `component`, and forgets the oldest of its own beyond a thousand."""

    def __init__(self, store: EventStore, component: str) -> None:
        self._store = store
        self._component = component
        self._written: deque[tuple[str, str]] = deque()

    def normal(self, about: KubeObject, reason: str, message: str, *, container: str = "") -> None:
        """Record that something went as it should."""
        self._record("Normal", about, reason, message, container)

    def warning(self, about: KubeObject, reason: str, message: str, *, container: str = "") -> None:
        """Record that something went wrong."""
        self._record("Warning", about, reason, message, container)

    def _record(self, level: str, about: KubeObject, reason: str, message: str, container: str) -> None:
        metadata, now = about["metadata"], api_time()
        name = f"{metadata['name'][:230]}.{secrets.token_hex(8)}"
        involved = {
            "apiVersion": about["apiVersion"],
            "kind": about["kind"],
            "name": metadata["name"],
            "namespace": metadata["namespace"],
            "uid": metadata["uid"],
            "resourceVersion": metadata["resourceVersion"],
        }
        if container:
            involved["fieldPath"] = f"spec.containers{{{container}}}"
        event = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": name, "namespace": metadata["namespace"]},
            "involvedObject": involved,
            "type": level,
            "reason": reason,
            "message": message,
            "source": {"component": self._component},
            "reportingComponent": self._component,
            "reportingInstance": "",
            "firstTimestamp": now,
            "lastTimestamp": now,
            "count": 1,
        }
        self._store.create(event)
        self._written.append((metadata["namespace"], name))
        if len(self._written) > _KEPT:
            self._forget_oldest()

    def _forget_oldest(self) -> None:
        namespace, name = self._written.popleft()
        try:
            self._store.delete("events", namespace, name)
        except ApiError as error:
            log.debug("An old event was gone already: %s", error)
