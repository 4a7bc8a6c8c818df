"""Reads what people did: of records that changed since a moment, of freezes, and of what lies below `operations/`."""

from __future__ import annotations

import logging
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from threading import Lock

from slipway.concurrency import map_concurrently
from slipway.hooks.s3_listing import StoredObject
from slipway.hooks.s3_store import ModelStoreHook
from slipway.release_record.record_reader import EVENT_LIMIT_BYTES
from slipway_core.errors import TransientError, UserError
from slipway_core.operations.audit import AuditEntry, GcApproval
from slipway_core.operations.freezes import (
    FREEZE_LIMIT_BYTES,
    first_key_after,
    freezes_prefix,
    lifted_key,
    parse_freeze,
    parse_freeze_name,
    parse_lifted,
)
from slipway_core.operations.layout import GC_APPROVAL_KEY, findings_prefix
from slipway_core.operations.revalidation.findings import Finding
from slipway_core.read_model.documents import ModelDocument, Unreadable, VersionLine
from slipway_core.read_model.person_acts import (
    RECORD_KINDS,
    PersonAct,
    act_of_audit,
    act_of_gc_approval,
    acts_of_event,
    acts_of_finding,
    acts_of_freeze,
)
from slipway_core.record.events import Event, RecordError, parse_event_key
from slipway_core.written_numbers import counted

log = logging.getLogger(__name__)

RECORDS_LIMIT = 300
"""Records that a request reads, those that changed last."""
NAMES_LIMIT = 20_000
"""Names of one record, or below one folder, that are listed."""
TIME_LIMIT_S = 10.0
"""After this no further record is begun."""
_FREEZES_LIMIT = 400
_KEPT = 10_000
_READERS = 8
_AUDIT_PREFIX = "operations/audit/"

Acts = tuple[PersonAct, ...]


@dataclass(frozen=True)
class AuditQuery:
    """Of what time (UTC, both ends count), and of which model and person; "": of all."""

    begins: datetime
    ends: datetime
    model: str = ""
    person: str = ""

    def has(self, act: PersonAct) -> bool:
        """Tell whether an act is asked for."""
        return (
            self.begins <= act.at <= self.ends
            and (not self.model or act.model in ("", self.model))
            and (not self.person or self.person.casefold() in (act.by.casefold(), act.agreed_by.casefold()))
        )


@dataclass(frozen=True)
class Audit:
    """The acts that were asked for, newest first. `left_out` says in words what was not looked at; "": nothing."""

    acts: Acts
    left_out: str = ""


class AuditReader:
    """Reads a bucket's audit, and keeps what it has read."""

    def __init__(self, store: ModelStoreHook) -> None:
        self._store = store
        self._lock = Lock()
        self._known: OrderedDict[tuple[str, str], Acts] = OrderedDict()

    def read(self, models: Mapping[str, ModelDocument | Unreadable], asked: AuditQuery) -> Audit:
        """Return what people did.

        :param models: the read model's documents.
        :raises StoreUnavailableError: the store does not answer.
        """
        until = time.monotonic() + TIME_LIMIT_S
        lines = _changed_since(models, asked)
        records, late = self._records(lines[:RECORDS_LIMIT], until)
        names = [asked.model] if asked.model else sorted(models)
        others = [*self._freezes([None, *names], asked), *self._below_operations(asked)]
        found = {(act.at, act.source, act.act): act for act in (*records, *others) if asked.has(act)}
        acts = tuple(sorted(found.values(), key=lambda act: (act.at, act.source), reverse=True))
        return Audit(acts, _left_out(len(lines) - RECORDS_LIMIT, late, _unread(models, asked)))

    def _records(self, lines: Iterable[VersionLine], until: float) -> tuple[list[PersonAct], int]:
        """Return the acts of records, and how many records there was no time for."""
        late = 0

        def read(line: VersionLine) -> Acts:
            nonlocal late
            known = ("record", f"{line.model}/{line.version}/{line.last_seq}")
            if time.monotonic() > until and known not in self._known:
                late += 1
                return ()
            return self._keep(known, lambda: tuple(self._of_record(line.model, line.version)))

        return [act for acts in map_concurrently(read, lines, _READERS) for act in acts], late

    def _of_record(self, model: str, version: int) -> Iterator[PersonAct]:
        prefix = f"records/{model}/{version}/"
        for entry in self._store.entries(prefix, most=NAMES_LIMIT):
            try:
                is_wanted = parse_event_key(entry.key)[3] in RECORD_KINDS
                content = self._store.read(entry.key, most_bytes=EVENT_LIMIT_BYTES) if is_wanted else None
                if content is not None:
                    yield from acts_of_event(Event.stored(content, entry.key))
            except RecordError as error:
                log.info("the audit is without %s: %s", entry.key, error)

    def _freezes(self, models: Iterable[str | None], asked: AuditQuery) -> list[PersonAct]:
        """Return who froze and who lifted, of freezes that had not ended when the time asked for begins."""

        def read(model: str | None) -> Acts:
            after = first_key_after(model, asked.begins)
            entries = self._store.entries(freezes_prefix(model), after=after, most=_FREEZES_LIMIT)
            keys = {entry.key for entry in entries}
            freezes = [entry for entry in entries if parse_freeze_name(entry.key, model)]
            return tuple(
                act for entry in freezes for act in self._freeze(entry, lifted_key(entry.key) in keys)
            )

        return [act for acts in map_concurrently(read, models, _READERS) for act in acts]

    def _freeze(self, entry: StoredObject, is_lifted: bool) -> Acts:
        known = (entry.key, f"{entry.etag} {is_lifted}")
        return self._keep(known, lambda: tuple(self._of_freeze(entry.key, is_lifted)))

    def _of_freeze(self, key: str, is_lifted: bool) -> Iterator[PersonAct]:
        content = self._store.read(key, most_bytes=FREEZE_LIMIT_BYTES)
        lifting = self._store.read(lifted_key(key), most_bytes=FREEZE_LIMIT_BYTES) if is_lifted else None
        if content is None:
            return
        lifted = None if lifting is None else parse_lifted(lifting, lifted_key(key))
        yield from acts_of_freeze(parse_freeze(content, key), lifted, lifted_key(key))

    def _below_operations(self, asked: AuditQuery) -> list[PersonAct]:
        audit = f"{_AUDIT_PREFIX}{asked.model}/" if asked.model else _AUDIT_PREFIX
        findings = findings_prefix(asked.model) if asked.model else "operations/findings/"
        # A document is written when, or after, what it says was done.
        wanted = [
            entry
            for prefix in (audit, findings)
            for entry in self._store.entries(prefix, most=NAMES_LIMIT)
            if entry.written_at >= asked.begins
        ]

        def read(entry: StoredObject) -> Acts:
            return self._keep((entry.key, entry.etag), lambda: tuple(self._of_document(entry.key)))

        return [act for acts in map_concurrently(read, wanted, _READERS) for act in acts]

    def _of_document(self, key: str) -> Iterator[PersonAct]:
        content = self._store.read(key, most_bytes=Finding.limit_bytes)
        if content is None:
            return
        if key == GC_APPROVAL_KEY:
            yield act_of_gc_approval(GcApproval.from_bytes(content, key), key)
        elif key.startswith(_AUDIT_PREFIX):
            yield act_of_audit(AuditEntry.from_bytes(content, key), key)
        else:
            yield from acts_of_finding(Finding.from_bytes(content, key), key)

    def _keep(self, known: tuple[str, str], read: Callable[[], Acts]) -> Acts:
        """Return what is known, or read it; what cannot be right says nothing, and the log names it."""
        with self._lock:
            if known in self._known:
                self._known.move_to_end(known)
                return self._known[known]
        try:
            acts = read()
        except TransientError:
            raise
        except UserError as error:
            log.warning("the audit omits something: %s", error)
            acts = ()
        with self._lock:
            self._known[known] = acts
            while len(self._known) > _KEPT:
                self._known.popitem(last=False)
        return acts


def _changed_since(models: Mapping[str, ModelDocument | Unreadable], asked: AuditQuery) -> list[VersionLine]:
    """Return the versions whose records changed since the time asked for began, those that changed last first."""
    lines = [
        line
        for name, found in models.items()
        if isinstance(found, ModelDocument) and asked.model in ("", name)
        for line in found.versions
        if line.last_at is not None and line.last_at >= asked.begins
    ]
    return sorted(lines, key=lambda line: (line.last_at, line.model, line.version), reverse=True)


def _unread(models: Mapping[str, ModelDocument | Unreadable], asked: AuditQuery) -> list[str]:
    return [
        name for name, found in models.items() if isinstance(found, Unreadable) and asked.model in ("", name)
    ]


def _left_out(more: int, late: int, unread: list[str]) -> str:
    sentences = []
    if more > 0:
        sentences.append(
            f"{counted(more, 'more version')} changed in this period: choose a shorter period, or one model."
        )
    if late:
        sentences.append(f"{counted(late, 'record')} could not be read in time: reload the page.")
    if unread:
        sentences.append(f"What was done to {', '.join(unread[:10])} is currently unknown.")
    return " ".join(sentences)
