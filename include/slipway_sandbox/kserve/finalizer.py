"""The finalizer that KServe's controller holds every InferenceService by.

It is added a moment after the object was made, which makes a new resourceVersion: who patches by the version that the
create answered meets a conflict. A deleted object is there, marked, until the controller takes the finalizer off.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from slipway_sandbox.cluster.errors import ApiError
from slipway_sandbox.kserve.settings import Store

FINALIZER = "inferenceservice.finalizers"
_KIND = "inferenceservices"
# Seen on a real cluster between the deletion and the end: 0.1 to 0.3 s.
RELEASE_LAG_S = 0.1


class Finalizers:
    """Adds the finalizer to every InferenceService of `store`, and takes it off those that are deleted."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._releasing: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        """Follow the InferenceServices until cancelled."""
        try:
            async for event, service in self._store.watch(_KIND):
                if event == "DELETED":
                    continue
                held = FINALIZER in (service["metadata"].get("finalizers") or ())
                marked = "deletionTimestamp" in service["metadata"]
                if marked and held:
                    self._begin_release(service)
                elif not marked and not held:
                    self._write(service, [*(service["metadata"].get("finalizers") or ()), FINALIZER])
        finally:
            for task in self._releasing:
                task.cancel()

    def _begin_release(self, service: Mapping[str, Any]) -> None:
        task = asyncio.get_running_loop().create_task(self._release(service))
        self._releasing.add(task)
        task.add_done_callback(self._releasing.discard)

    async def _release(self, service: Mapping[str, Any]) -> None:
        await asyncio.sleep(RELEASE_LAG_S)
        others = [one for one in service["metadata"]["finalizers"] if one != FINALIZER]
        self._write(service, others)

    def _write(self, service: Mapping[str, Any], finalizers: list[str]) -> None:
        """Write the list; who changed the object meanwhile wakes the watch again."""
        metadata = service["metadata"]
        patch = {
            "finalizers": finalizers,
            "uid": metadata["uid"],
            "resourceVersion": metadata["resourceVersion"],
        }
        try:
            self._store.merge_patch(_KIND, metadata["namespace"], metadata["name"], {"metadata": patch})
        except ApiError:
            return
