"""One release of a model at a time: a conditional write is the lock, and a run that has ended cannot keep it."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass

from slipway.hooks.store import ModelStoreHook


@dataclass(frozen=True)
class LockOwner:
    """The run that holds a model: a release, or a rollback by hand."""

    release_id: str
    version: int
    dag_id: str = "model_release"


class ReleaseLock:
    """The object ``records/MODEL/active.json``.

    :param is_running: whether an owner's run is still under way; one that is not has died without concluding,
        and its lock is taken over.
    """

    def __init__(self, store: ModelStoreHook, model: str, is_running: Callable[[LockOwner], bool]) -> None:
        self._store = store
        self._key = f"records/{model}/active.json"
        self._is_running = is_running

    def acquire(self, owner: LockOwner) -> LockOwner:
        """Takes the lock if it is free, is ours already or was left by a run that has ended.

        :return: who holds the lock now: `owner` itself, or the release that is in the way.
        """
        body = json.dumps(asdict(owner)).encode()
        while not self._store.write_once(self._key, body):
            found = self._store.read_with_etag(self._key)
            if found is None:
                continue  # released between our write and our read
            holder = LockOwner(**json.loads(found[0]))
            if holder == owner:
                return owner
            if self._is_running(holder):
                return holder
            if self._store.replace(self._key, body, found[1]):
                return owner
        return owner

    def release(self, owner: LockOwner) -> None:
        """Gives the lock back; one that is another's by now stays."""
        found = self._store.read(self._key)
        if found is not None and LockOwner(**json.loads(found)) == owner:
            self._store.delete(self._key)
