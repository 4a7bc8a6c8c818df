"""The changes of the cluster's objects in order, and who follows them."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from slipway_sandbox.cluster.errors import expired
from slipway_sandbox.cluster.resources import KubeObject, Resource
from slipway_sandbox.cluster.selectors import Matcher


@dataclass(frozen=True)
class Change:
    """One step of the history: `event` is ADDED, MODIFIED or DELETED; `before` is None for a new object."""

    version: int
    event: str
    obj: KubeObject
    before: KubeObject | None
    resource: Resource

    def seen_as(self, resource: Resource, namespace: str | None, matches: Matcher) -> str | None:
        """Return the event for a watcher with this view; None if the change does not concern it."""
        if self.resource != resource:
            return None
        if namespace and self.obj["metadata"].get("namespace") != namespace:
            return None
        now = self.event != "DELETED" and matches(self.obj)
        earlier = self.before is not None and matches(self.before)
        if now:
            return "MODIFIED" if earlier else "ADDED"
        return "DELETED" if earlier else None


class History:
    """The last `limit` changes; each has a version higher than the one before it."""

    def __init__(self, limit: int) -> None:
        self._changes: deque[Change] = deque(maxlen=limit)
        self._subscribers: set[asyncio.Queue[Change]] = set()
        # Versions begin at the present time in ms: whatever an earlier process gave out is older than all of
        # ours.
        self.version = self._first_version = time.time_ns() // 1_000_000

    def next_version(self) -> int:
        """Give out the version of a change that is about to be added."""
        self.version += 1
        return self.version

    def add(self, change: Change) -> None:
        """Keep a change and send it to all watchers."""
        self._changes.append(change)
        for queue in self._subscribers:
            queue.put_nowait(change)

    def since(self, version: int) -> list[Change]:
        """Return the changes after `version`.

        :raises ApiError: 410, the history does not reach back to `version`.
        """
        full = self._changes.maxlen == len(self._changes)
        oldest = self._changes[0].version - 1 if full and self._changes else self._first_version
        # A version from the future was given out by another store: the client must list again, as for one too
        # old.
        if version < oldest or version > self.version:
            raise expired(version, oldest)
        return [change for change in self._changes if change.version > version]

    @contextmanager
    def followed(self) -> Iterator[asyncio.Queue[Change]]:
        """Give a queue to which every change is added while the `with` lasts."""
        queue: asyncio.Queue[Change] = asyncio.Queue()
        self._subscribers.add(queue)
        try:
            yield queue
        finally:
            self._subscribers.discard(queue)
