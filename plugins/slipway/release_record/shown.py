"""What is in front of a person who decides: a version's newest event, the pages of its releases, a page they name."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Iterable

from slipway.hooks.s3_store import ModelStoreHook
from slipway.release_record.lock import ReleaseLock
from slipway.release_record.record_reader import RecordReader
from slipway_core.bucket_layout import evidence_prefix, split_s3_uri
from slipway_core.errors import InputMissingError, SlipwayError, UserError
from slipway_core.record.events import Event
from slipway_core.record.shown import SHOWN_LIMIT, Shown

log = logging.getLogger(__name__)

# Of a release's evidence what a person reads, in the order of the stages.
_PAGES = ("smoke_test.html", "validation.html", "benchmark.html", "mirror.html", "canary.html")
# The newest release of a version, and the one before: a rollback by hand counts as one.
_RELEASES = 2
_MODELS = SHOWN_LIMIT - 1
_LARGEST_BYTES = 64 << 20


def shown_of(store: ModelStoreHook, events: Iterable[Event]) -> tuple[Shown, ...]:
    """Return what the store has for a person to read about a version.

    That is its newest event, which identifies the whole record, and the pages of its newest releases.

    :param events: the version's record.
    """
    ordered = list(events)
    if not ordered:
        return ()
    last = ordered[-1]
    runs = dict.fromkeys(event.release_id for event in reversed(ordered) if event.kind == "release_started")
    keys = [last.key]
    for run in list(runs)[:_RELEASES]:
        prefix = evidence_prefix(last.model, last.version, run)
        there = {entry.key for entry in store.entries(prefix, most=1000)}
        keys += [f"{prefix}{page}" for page in _PAGES if f"{prefix}{page}" in there]
    return tuple(shown_object(store, key) for key in keys)


def shown_under_way(store: ModelStoreHook, models: Iterable[str]) -> tuple[Shown, ...]:
    """Return the newest event of each release that is under way. What cannot be read is left out: nobody waits for it.

    :param models: whose releases.
    """
    found: list[Shown] = []
    for model in list(models)[:_MODELS]:
        try:
            holder = ReleaseLock(store, model, lambda _: True).holder()
            events = [] if holder is None else RecordReader(store, model, holder.version).events()
            found += [shown_object(store, event.key) for event in events[-1:]]
        except SlipwayError as error:
            log.warning("which release of %s is under way could not be read: %s", model, error)
    return tuple(found)


def shown_by_name(store: ModelStoreHook, address: object) -> tuple[Shown, ...]:
    """Return the page that a person names as the one looked at; nothing where none is named.

    :param address: `s3://BUCKET/KEY`, or a key of the bucket.
    :raises UserError: it is in another bucket.
    :raises InputMissingError: nothing lies there.
    """
    if not address:
        return ()
    text = str(address)
    if "://" not in text:
        return (shown_object(store, text),)
    try:
        bucket, key = split_s3_uri(text)
    except ValueError:
        bucket, key = "", ""
    if bucket != store.bucket or not key:
        raise UserError(
            "the evidence is not in Slipway's bucket",
            expected=f"a key, or s3://{store.bucket}/KEY",
            found=text[:200],
            remedy="name a page of this bucket, or leave the field empty",
        )
    return (shown_object(store, key),)


def shown_object(store: ModelStoreHook, key: str) -> Shown:
    """Return an object's address, and the digest of what lies there now.

    :raises InputMissingError: nothing lies there.
    :raises UserError: it is too large to be a page.
    """
    facts = store.stat(key)
    if facts is None:
        raise InputMissingError(
            f"{store.uri(key)} is missing", expected="the evidence that is named", found="nothing"
        )
    if facts.size_bytes > _LARGEST_BYTES:
        raise UserError(
            f"{store.uri(key)} is too large to be a page",
            expected=f"at most {_LARGEST_BYTES} bytes",
            found=f"{facts.size_bytes} bytes",
            remedy="name the page that shows why, or leave the field empty",
        )
    return Shown(address=store.uri(key), sha256=store.sha256(key)[0])


def shown_content(address: str, content: bytes) -> Shown:
    """Return what a task has just written there for a person to read."""
    return Shown(address=address, sha256=hashlib.sha256(content).hexdigest())
