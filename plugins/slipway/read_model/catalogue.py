"""All models as pages show them: the documents in memory, brought up to date by few requests.

A refresh asks for: a listing of `views/models/`, of `live/`, of the folders of `records/`, and of the freezes of every
model; the documents whose entity tag is another; and, for each release under way, the tail of its record.

A document is behind where its writer died or could not reach the store. That is noticed at a bounded cost: a refresh
looks at some models by turns (`AUDITED`), and the page of a model looks at that one (`audit`). A model without a
document, or with one that cannot be read, is made again from its records, one model at a time, beside the refreshes.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

from slipway.concurrency import map_concurrently
from slipway.hooks.s3_store import ModelStoreHook
from slipway.read_model.audit import Audits
from slipway.read_model.live_reader import read_live
from slipway.read_model.model_context import read_freezes
from slipway.read_model.repairs import Repairs
from slipway.read_model.writer import ViewWriter, read_view
from slipway.release_record.record_reader import RecordReader
from slipway_core.bucket_layout import (
    LIVE_PREFIX,
    MODEL_VIEWS_PREFIX,
    live_key,
    model_view_key,
    parse_model_view_key,
)
from slipway_core.errors import TransientError, UserError
from slipway_core.read_model.documents import FreezeLine, ModelDocument, Unreadable, VersionLine
from slipway_core.read_model.live import LiveDocument
from slipway_core.read_model.live_in_model import with_live
from slipway_core.read_model.model_fold import context_of, open_release, updated, version_line
from slipway_rules.text_forms import MODEL_NAME_LIMIT, is_dns_label

log = logging.getLogger(__name__)

AUDITED = 5
"""Models that a refresh looks at by turns."""
FOLLOWED = 60
"""Releases under way whose records a refresh reads on."""
_READERS = 8
_PAGES = 20
_MADE_AGAIN = "its document is being rebuilt from its records"


@dataclass(frozen=True)
class Shown:
    """What is known of all models at a moment.

    `freezes` are those of every model, `lives` the live documents of the canaries that are under way.
    """

    models: Mapping[str, ModelDocument | Unreadable]
    freezes: tuple[FreezeLine, ...] = ()
    lives: Mapping[str, LiveDocument] = field(default_factory=dict)


@dataclass
class _Held:
    """A model in memory: its document as it was read with this entity tag, and as the record's tail has it since."""

    etag: str
    document: ModelDocument | Unreadable


@dataclass
class _Live:
    etag: str
    document: LiveDocument | None


class Catalogue:
    """The documents of all models.

    :param store: with a limit to each answer.
    :param clock: the present time, UTC.
    """

    def __init__(
        self, store: ModelStoreHook, *, clock: Callable[[], datetime] = lambda: datetime.now(UTC)
    ) -> None:
        self._store = store
        self._clock = clock
        self._writer = ViewWriter(store, clock=clock, must_write=False)
        self._lock = threading.RLock()
        self._held: dict[str, _Held] = {}
        self._live: dict[str, _Live] = {}
        self._tails: dict[tuple[str, int], RecordReader] = {}
        self._turn, self._is_first = "", True
        self._audits = Audits(store)
        self._repairs = Repairs(self._repair)

    def refresh(self) -> Shown:
        """Bring everything up to date and return it; one call at a time.

        :raises SlipwayError: the store does not answer; what was known stays.
        """
        views = {
            model: entry.etag
            for entry in self._store.entries(MODEL_VIEWS_PREFIX)
            if (model := parse_model_view_key(entry.key)) is not None
        }
        recorded = self._recorded_models()
        self._read_changed(views)
        for model in recorded - set(views):
            self._make_again(model, "")
        for model in set(self._held) - set(views) - recorded:
            self._held.pop(model, None)
        self._read_live()
        if not self._is_first:  # whoever waits for the first one is shown the documents as they are
            self._follow()
            for model in self._next_models():
                self._audit(model)
        self._is_first = False
        return Shown(
            {model: self._shown(held.document) for model, held in sorted(self._held.items())},
            self._freezes(),
            {model: one.document for model, one in self._live.items() if one.document is not None},
        )

    def look_at(self, model: str) -> ModelDocument | Unreadable | None:
        """Return a model's document after a look whether it is behind; None: nothing is known about the model.

        :raises SlipwayError: the store does not answer.
        """
        if not is_dns_label(model, MODEL_NAME_LIMIT):
            return None
        facts = self._store.stat(model_view_key(model))
        held = self._held.get(model)
        if facts is not None and (held is None or held.etag != facts.etag):
            self._read_view(model)
        elif held is None and not self._repair(model, set()):
            return None
        self._audit(model)
        if model in self._open():
            self._live[model] = _Live("", read_live(self._store, model))
        held = self._held.get(model)
        return None if held is None else self._shown(held.document)

    def document(self, model: str) -> ModelDocument | None:
        """Return the document that is held; None where there is none, or none that can be shown."""
        held = self._held.get(model)
        return None if held is None or isinstance(held.document, Unreadable) else held.document

    def line(self, model: str, version: int) -> VersionLine | None:
        """Return a version's line in the document that is held; None where there is none."""
        document = self.document(model)
        return None if document is None else document.line(version)

    # --- what a refresh reads ---

    def _recorded_models(self) -> set[str]:
        folders = self._store.listing("records/", delimiter="/", pages=_PAGES).folders
        names = (folder.removeprefix("records/").rstrip("/") for folder in folders)
        return {name for name in names if is_dns_label(name, MODEL_NAME_LIMIT)}

    def _read_changed(self, views: Mapping[str, str]) -> None:
        changed = [
            model
            for model, etag in views.items()
            if model not in self._held or self._held[model].etag != etag
        ]

        map_concurrently(self._read_view, changed, _READERS)

    def _read_view(self, model: str) -> None:
        stored = read_view(self._store, model)
        if stored.document is not None:
            self._take(model, stored.etag or "", stored.document)
        elif stored.etag is not None:
            self._make_again(model, stored.etag)

    def _make_again(self, model: str, etag: str) -> None:
        """Have a document made again; what is known of the model is shown meanwhile."""
        is_made_again = self._repairs.want(model)
        with self._lock:
            held = self._held.get(model)
            if held is not None:
                held.etag = etag
            elif is_made_again:
                self._held[model] = _Held(etag, Unreadable(model, _MADE_AGAIN))

    def _take(self, model: str, etag: str, document: ModelDocument) -> None:
        """Hold a document that was read, with what is known already of records beyond it."""
        with self._lock:
            held = self._held.get(model)
            before = None if held is None or isinstance(held.document, Unreadable) else held.document
            for line in () if before is None else before.versions:
                known = document.line(line.version)
                if before is not None and (known is None or known.last_seq < line.last_seq):
                    document = updated(
                        document,
                        line,
                        open_now=before.open_release,
                        context=context_of(document),
                        written_at=document.written_at,
                    )
            self._held[model] = _Held(etag, document)

    def _read_live(self) -> None:
        entries = {entry.key: entry.etag for entry in self._store.entries(LIVE_PREFIX)}
        wanted = {model: etag for model in self._open() if (etag := entries.get(live_key(model))) is not None}
        for model in set(self._live) - set(wanted):
            self._live.pop(model, None)

        def read(model: str) -> None:
            self._live[model] = _Live(wanted[model], read_live(self._store, model))

        changed = [
            model for model in wanted if model not in self._live or self._live[model].etag != wanted[model]
        ]
        map_concurrently(read, changed, _READERS)

    def _open(self) -> dict[str, ModelDocument]:
        return {
            model: held.document
            for model, held in list(self._held.items())
            if isinstance(held.document, ModelDocument) and held.document.open_release is not None
        }

    def _follow(self) -> None:
        """Read on in the records of the releases that are under way."""
        under_way = [
            (model, document.open_release.version)
            for model, document in list(self._open().items())[:FOLLOWED]
            if document.open_release is not None
        ]
        for known in set(self._tails) - set(under_way):
            self._tails.pop(known, None)
        map_concurrently(lambda one: self._read_on(*one), under_way, _READERS)

    def _read_on(self, model: str, version: int) -> None:
        """Bring a version of a held document up to date by its record; one that has nothing new costs one listing."""
        # Whoever has taken a reader out is the only one to use it.
        reader = self._tails.pop((model, version), None) or RecordReader(self._store, model, version)
        known = self.line(model, version)
        try:
            events = reader.events()
            if not events or (known is not None and events[-1].seq == known.last_seq):
                self._tails[(model, version)] = reader
                return
            line, stands = version_line(events), open_release(events)
        except TransientError:
            raise
        except UserError as error:
            log.warning("the record of %s %s cannot be followed: %s", model, version, error)
            return
        with self._lock:
            held = self._held.get(model)
            if held is None or isinstance(held.document, Unreadable):
                return
            if stands is not None:
                self._tails[(model, version)] = reader
            elif known is not None and known.outcome == "open":
                # The release's last task writes the document; where it could not, this does.
                self._repairs.want(model, version)
            held.document = updated(
                held.document,
                line,
                open_now=stands,
                context=context_of(held.document),
                written_at=self._clock(),
            )

    def _freezes(self) -> tuple[FreezeLine, ...]:
        try:
            return read_freezes(self._store, None, self._clock())
        except TransientError:
            raise
        except UserError as error:
            log.warning("the freezes of every model cannot be shown: %s", error)
            return ()

    # --- what is behind ---

    def _next_models(self) -> list[str]:
        names = sorted(self._held)
        after = [name for name in names if name > self._turn]
        chosen = (after + names)[: min(AUDITED, len(names))]
        if chosen:
            self._turn = chosen[-1]
        return chosen

    def _audit(self, model: str) -> None:
        """Read on in the records that have more than the model's document says."""
        held = self._held.get(model)
        if held is None or not isinstance(held.document, ModelDocument):
            return
        for version in self._audits.behind(held.document):
            self._read_on(model, version)
            self._repairs.want(model, version)

    def _repair(self, model: str, versions: set[int]) -> bool:
        """Write a model's document anew; return whether there is anything to show of the model."""
        try:
            document = self._writer.bring_up_to_date(model, versions)
        except UserError as error:
            log.warning("the document of %s could not be rebuilt: %s", model, error)
            self._held[model] = _Held("", Unreadable(model, error.in_short()))
            return True
        if document is None:
            self._held.pop(model, None)
            return False
        self._take(model, self._held[model].etag if model in self._held else "", document)
        return True

    def _shown(self, document: ModelDocument | Unreadable) -> ModelDocument | Unreadable:
        if isinstance(document, Unreadable):
            return document
        live = self._live.get(document.model)
        return with_live(document, None if live is None else live.document, self._clock())
