"""Let one release of a model run at a time: a conditional write is the lock; a run that has ended cannot keep it."""

from __future__ import annotations

import json
import logging
import random
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass

from slipway.hooks.s3_store import ModelStoreHook
from slipway.workflows import MODEL_RELEASE
from slipway_core.errors import StoreUnavailableError, UserError

log = logging.getLogger(__name__)

# A lock has some hundred bytes; a larger object is not a lock.
LOCK_LIMIT_BYTES = 16 << 10
# How often the lock's owner may change while it is asked for, and the pauses between, which double.
_ATTEMPTS = 8
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.02, 1.0


class LockUnreadableError(UserError):
    """The object that is the model's lock names no run, so nobody can be asked whether its owner is gone."""


@dataclass(frozen=True)
class LockOwner:
    """The run that holds a model: a release, or a rollback by hand."""

    release_id: str
    version: int
    dag_id: str = MODEL_RELEASE

    def to_bytes(self) -> bytes:
        """Return the lock's content."""
        return json.dumps(asdict(self)).encode()

    @classmethod
    def from_bytes(cls, content: bytes) -> LockOwner:
        """Read the lock's content; fields beside the owner's are ignored.

        :raises ValueError: it names no run; the message says what was found.
        """
        try:
            document = json.loads(content)
        except (ValueError, RecursionError) as error:
            raise ValueError(f"not JSON: {_shortened(content)}") from error
        if not isinstance(document, dict):
            raise ValueError(f"not a JSON object: {_shortened(content)}")
        release_id, version = document.get("release_id"), document.get("version")
        dag_id = document.get("dag_id", cls.dag_id)
        if not (isinstance(release_id, str) and release_id and isinstance(dag_id, str) and dag_id):
            raise ValueError(f"release_id or dag_id missing or not text: {_shortened(content)}")
        if isinstance(version, bool) or not isinstance(version, int) or version < 1:
            raise ValueError(f"version missing or not a positive whole number: {_shortened(content)}")
        return cls(release_id, version, dag_id)


def lock_key(model: str) -> str:
    """Return the key of a model's lock."""
    return f"records/{model}/active.json"


class ReleaseLock:
    """The object ``records/MODEL/active.json``.

    Every change is conditional: it is written if there is none (If-None-Match), taken over and deleted if it is still
    what was read (If-Match). A store that takes these conditions and ignores them is refused at admission
    (`slipway.hooks.s3_guarantees`): with it two runs would hold the lock.

    :param is_running: whether an owner's run is still under way; one that is not has died without concluding,
        and its lock is taken over.
    """

    def __init__(self, store: ModelStoreHook, model: str, is_running: Callable[[LockOwner], bool]) -> None:
        self._store = store
        self._model = model
        self._key = lock_key(model)
        self._is_running = is_running

    def acquire(self, owner: LockOwner) -> LockOwner:
        """Take the lock if it is free, is ours already or was left by a run that has ended.

        :returns: who holds the lock now: `owner` itself, or the release that holds it.
        :raises LockUnreadableError: what lies there names no run; it is left as it is.
        :raises StoreUnavailableError: its owner changed again and again while it was asked for.
        """
        for attempt in range(_ATTEMPTS):
            if self._store.write_once(self._key, owner.to_bytes()):
                return owner
            found = self._read()
            if found is not None:
                holder, etag = found
                if holder == owner or self._is_running(holder):
                    return holder
                if self._store.replace(self._key, owner.to_bytes(), etag):
                    log.warning(
                        "took over %s from %s, which has ended", self._store.uri(self._key), holder.release_id
                    )
                    return owner
            # Released or taken over between our requests: others ask at the same moment.
            time.sleep(random.uniform(0.5, 1.0) * min(_FIRST_PAUSE_S * 2**attempt, _LONGEST_PAUSE_S))
        raise StoreUnavailableError(
            f"the lock {self._store.uri(self._key)} could not be taken",
            expected="a free lock, or one that a run holds",
            found=f"it changed {_ATTEMPTS} times during the attempts",
            remedy=f"find out which runs of {self._model!r} keep starting",
        )

    def holder(self) -> LockOwner | None:
        """Return who holds the lock, whether that run has ended or not; None where nobody does.

        :raises LockUnreadableError: what lies there names no run.
        """
        found = self._read()
        return None if found is None else found[0]

    def running_holder(self) -> LockOwner | None:
        """Return who holds the lock while its run is under way; None where nobody does, or a run that has ended.

        :raises LockUnreadableError: what lies there names no run.
        """
        holder = self.holder()
        return holder if holder is not None and self._is_running(holder) else None

    def release(self, owner: LockOwner) -> None:
        """Give the lock back. One that another run has taken stays; one that names no run is named in the log."""
        try:
            found = self._read()
        except LockUnreadableError as error:
            log.warning("the lock is not released: %s", error)
            return
        if found is not None and found[0] == owner:
            self._store.delete_this(self._key, found[1])

    def _read(self) -> tuple[LockOwner, str] | None:
        """Return who holds the lock, and the object's entity tag; None where nobody does.

        An object that names no run is never taken for a free lock, however old it is: S3 writes an object whole, so
        nobody left it half written, and somebody may have written it over the lock of a release that is under way.
        """
        try:
            read = self._store.read_with_etag(self._key, most_bytes=LOCK_LIMIT_BYTES)
        except UserError as error:
            raise self._unreadable(error.found or str(error)) from error
        if read is None:
            return None
        content, etag = read
        try:
            return LockOwner.from_bytes(content), etag
        except ValueError as error:
            raise self._unreadable(str(error)) from error

    def _unreadable(self, found: str) -> LockUnreadableError:
        uri = self._store.uri(self._key)
        return LockUnreadableError(
            f"the lock {uri} names no run, so it is unknown whether its owner has ended",
            expected='{"release_id": "…", "version": 1, "dag_id": "…"}',
            found=found,
            remedy=f"check in Airflow that no release and no rollback of {self._model!r} is under way, then remove it: "
            f"aws s3 rm {uri}",
        )


def _shortened(content: bytes) -> str:
    """Return the beginning of what was found, so that a person can recognise it."""
    return repr(content[:80]) + ("…" if len(content) > 80 else "") if content else "an empty object"
