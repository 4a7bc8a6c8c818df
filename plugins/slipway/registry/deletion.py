"""How a version leaves the bucket: `include/slipway_core/publishing/tombstone.py` says why in this order."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from slipway.concurrency import map_concurrently
from slipway.hooks.s3_listing import StoredObject
from slipway.hooks.s3_store import ModelStoreHook
from slipway_core.bucket_layout import RepositoryPaths, repository_paths
from slipway_core.errors import StoreUnavailableError, UserError
from slipway_core.publishing.publication import decision_key
from slipway_core.publishing.tombstone import (
    DELETED_MANIFEST_FILE,
    TOMBSTONE_LIMIT_BYTES,
    Tombstone,
    deleted_error,
    tombstone_key,
)
from slipway_rules.version_manifest import MANIFEST_LIMIT_BYTES

log = logging.getLogger(__name__)

_LOOKS = 3


@dataclass(frozen=True)
class Removed:
    """What a deletion has removed: so many objects, of so many bytes together."""

    objects: int
    size_bytes: int


def require_not_deleted(store: ModelStoreHook, paths: RepositoryPaths) -> None:
    """Return when the version has no tombstone.

    :raises VersionDeletedError: it has one, or something that lies in its place.
    """
    try:
        content = store.read(tombstone_key(paths), most_bytes=TOMBSTONE_LIMIT_BYTES)
    except UserError:
        raise deleted_error(paths, None) from None
    if content is not None:
        raise deleted_error(paths, content)


def what_goes(paths: RepositoryPaths, there: Iterable[StoredObject]) -> list[StoredObject]:
    """Return the objects that a deletion removes: all below the version but its evidence and its tombstone."""
    return [
        entry
        for entry in there
        if not entry.key.startswith(paths.evidence) and entry.key != tombstone_key(paths)
    ]


def delete_version(
    store: ModelStoreHook, tombstone: Tombstone, require_lock: Callable[[], None], *, workers: int = 8
) -> Removed:
    """Delete a version's files, or go on where an earlier deletion was broken off; only under the model's lock.

    The caller has looked, under the same lock, that nobody names the version.

    :param tombstone: what is written where there is none yet; `manifest_sha256` is filled in.
    :param require_lock: raises unless the lock is still the caller's. It is asked right before the tombstone is
        written: a process that was stopped meanwhile may have lost the lock to a release of this very version. After
        the tombstone nobody begins to use the version, and no lock is needed.
    :raises StoreUnavailableError: the store does not answer, or somebody writes there all the while. The version is
        deleted as far as anybody can tell, and the next call goes on.
    """
    paths = repository_paths(tombstone.model, tombstone.version)
    digest = _keep_manifest(store, paths)
    known = tombstone if digest is None else tombstone.model_copy(update={"manifest_sha256": digest})
    require_lock()
    store.write_once(tombstone_key(paths), known.to_bytes())
    objects = size_bytes = 0
    for _ in range(_LOOKS):
        going = what_goes(paths, store.entries(paths.root))
        if not going:
            return Removed(objects, size_bytes)
        keys = [entry.key for entry in going]
        first = [key for key in (paths.manifest, decision_key(paths)) if key in keys]
        for key in first:
            store.delete(key)
        map_concurrently(store.delete, [key for key in keys if key not in first], workers)
        objects, size_bytes = objects + len(keys), size_bytes + sum(entry.size_bytes for entry in going)
    raise StoreUnavailableError(
        f"{store.uri(paths.root)} does not become empty",
        expected="only the evidence and the tombstone",
        found=f"more objects, after deleting all of them {_LOOKS} times",
        remedy="find out what else writes there",
    )


def _keep_manifest(store: ModelStoreHook, paths: RepositoryPaths) -> str | None:
    """Keep a copy of the manifest beside the evidence and return its digest; None where there is no manifest.

    One that is too large to be a manifest is not kept.
    """
    try:
        document = store.read(paths.manifest, most_bytes=MANIFEST_LIMIT_BYTES)
    except UserError as error:
        log.warning("no copy of the manifest is kept: %s", error)
        return None
    if document is None:
        return None
    store.write_once(f"{paths.evidence}{DELETED_MANIFEST_FILE}", document)
    return hashlib.sha256(document).hexdigest()
