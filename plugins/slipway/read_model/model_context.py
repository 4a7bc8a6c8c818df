"""What lies beside a model's records in the store, and belongs to its document: pins, freezes, findings, tombstones."""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import datetime
from typing import TypeVar

from slipway.concurrency import map_concurrently
from slipway.hooks.s3_listing import StoredObject
from slipway.hooks.s3_store import ModelStoreHook
from slipway.release_record.holds import HoldReader
from slipway_core.bucket_layout import repository_paths
from slipway_core.errors import TransientError, UserError
from slipway_core.operations.layout import findings_prefix, pin_prefix
from slipway_core.operations.pins import pinned_versions
from slipway_core.operations.revalidation.findings import Finding
from slipway_core.publishing.tombstone import tombstone_key
from slipway_core.read_model.documents import CONTEXT_LINES, FindingLine, FreezeLine
from slipway_core.read_model.model_fold import ModelContext
from slipway_core.read_model.stored import cut

log = logging.getLogger(__name__)

_READERS = 8
Found = TypeVar("Found")


def read_context(store: ModelStoreHook, model: str, now: datetime) -> ModelContext:
    """Return what lies beside a model's records, by three listings. What cannot be right is left out, and logged.

    :raises TransientError: the store does not answer.
    """
    return ModelContext(
        pinned=_or(frozenset(), lambda: _pinned(store, model)),
        freezes=_or((), lambda: read_freezes(store, model, now)),
        findings=_or((), lambda: _findings(store, model)),
    )


def read_freezes(store: ModelStoreHook, model: str | None, now: datetime) -> tuple[FreezeLine, ...]:
    """Return the freezes of a model, or (None) of every model, that have neither ended nor been lifted.

    :raises SlipwayError: they cannot be read.
    """
    return tuple(
        FreezeLine(by=cut(one.by), at=one.at, until=one.until, reason=cut(one.reason), key=cut(one.key))
        for one in HoldReader(store, model or "", ()).freezes(model, now)
    )


def files_are_gone(store: ModelStoreHook, model: str, version: int) -> bool:
    """Return whether retention has deleted a version's files: its tombstone is there."""
    return store.exists(tombstone_key(repository_paths(model, version)))


def _pinned(store: ModelStoreHook, model: str) -> frozenset[int]:
    return frozenset(pinned_versions(model, (one.key for one in store.entries(pin_prefix(model)))))


def _findings(store: ModelStoreHook, model: str) -> tuple[FindingLine, ...]:
    """Return the open findings; of very many only the newest are read."""
    entries = sorted(store.entries(findings_prefix(model)), key=lambda one: one.written_at)[-CONTEXT_LINES:]

    def read(entry: StoredObject) -> Finding | None:
        try:
            content = store.read(entry.key, most_bytes=Finding.limit_bytes)
            return None if content is None else Finding.from_bytes(content, entry.key)
        except UserError as error:
            log.warning("a finding is not shown: %s", error)
            return None

    return tuple(
        FindingLine(
            name=cut(one.name),
            check=cut(one.check),
            version=one.version,
            summary=cut(one.summary),
            opened_at=one.opened_at,
        )
        for one in map_concurrently(read, entries, _READERS)
        if one is not None and one.is_open and one.model == model
    )


def _or(otherwise: Found, read: Callable[[], Found]) -> Found:
    try:
        return read()
    except TransientError:
        raise
    except UserError as error:
        log.warning("a part of the read model is unknown: %s", error)
        return otherwise
