"""Who keeps the documents of models current: folds what is newer, and writes where nobody else has meanwhile.

A writer reads the document with its entity tag, then the records, then writes with that tag as the condition. So of two
writers of one document the later one has read all that the earlier one wrote, or it reads and writes again. Whatever
the order in which they are interleaved, the document has at last every event that was there when a writer began.
"""

from __future__ import annotations

import json
import logging
import random
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass
from datetime import UTC, datetime

from slipway.hooks.s3_store import ModelStoreHook
from slipway.read_model.model_context import files_are_gone, read_context
from slipway.release_record.history import ModelHistory
from slipway.release_record.record_reader import RecordReader
from slipway_core.bucket_layout import model_view_key
from slipway_core.errors import (
    InputMissingError,
    SlipwayError,
    StoreUnavailableError,
    TransientError,
    UserError,
)
from slipway_core.read_model.documents import ModelDocument, OpenRelease, VersionLine
from slipway_core.read_model.model_fold import (
    model_document,
    open_release,
    unreadable_line,
    updated,
    version_line,
)
from slipway_core.read_model.stored import FORMAT

log = logging.getLogger(__name__)

# Each attempt that fails is another writer's success.
_ATTEMPTS = 20
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.02, 0.5


@dataclass(frozen=True)
class StoredView:
    """A model's document as it lies in the store: `etag` is None where there is no object.

    `document` is None where it cannot be read; `is_newer` says that a later version of Slipway wrote it.
    """

    document: ModelDocument | None
    etag: str | None
    is_newer: bool = False


class ViewWriter:
    """Writes the documents of models.

    :param clock: the present time, UTC.
    :param must_write: without it a document that cannot be written is only returned: for who may read and no more.
    """

    def __init__(
        self,
        store: ModelStoreHook,
        *,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
        must_write: bool = True,
    ) -> None:
        self._store = store
        self._clock = clock
        self._must_write = must_write

    def bring_up_to_date(
        self, model: str, versions: Collection[int] = (), *, whole: bool = False
    ) -> ModelDocument | None:
        """Fold the records of some versions into the model's document, and write it if that changes it.

        A document that is missing or cannot be read is made again from every record. One that a later version of
        Slipway wrote stays; what is returned is then made from the records, for the caller alone.

        :param versions: whose records may have changed; what lies beside the records is looked at in any case.
        :param whole: every record is read, whatever the document says.
        :returns: the document as it is now; None: nothing is recorded of the model.
        :raises StoreUnavailableError: the store does not answer, or somebody writes all the while.
        """
        for attempt in range(_ATTEMPTS):
            stored = self.read(model)
            before = None if whole else stored.document
            document = self._changed(model, before, versions)
            if document is None or stored.is_newer:
                return document
            if stored.document is not None and _is_the_same(document, stored.document):
                return stored.document
            try:
                if self._write(model, document, stored.etag):
                    return document
            except SlipwayError as error:
                if self._must_write:
                    raise
                log.warning("the document of %s is shown but was not written: %s", model, error)
                return document
            time.sleep(random.uniform(0.5, 1.0) * min(_FIRST_PAUSE_S * 2**attempt, _LONGEST_PAUSE_S))
        raise StoreUnavailableError(
            f"{self._store.uri(model_view_key(model))} could not be written",
            expected="a moment without other writers",
            found=f"another document, {_ATTEMPTS} times",
            remedy="find out what else writes there",
        )

    def read(self, model: str) -> StoredView:
        """Return the document that lies in the store.

        :raises StoreUnavailableError: that is unknown.
        """
        return read_view(self._store, model)

    def _changed(
        self, model: str, before: ModelDocument | None, versions: Collection[int]
    ) -> ModelDocument | None:
        now = self._clock()
        if before is None:
            return self._made_again(model, now)
        context = read_context(self._store, model, now)
        document = model_document(
            model, before.versions, open_now=(before.open_release,), context=context, written_at=now
        )
        for version in sorted(versions):
            line, stands = read_line(self._store, model, version)
            if line is not None:
                document = updated(document, line, open_now=stands, context=context, written_at=now)
        return document

    def _made_again(self, model: str, now: datetime) -> ModelDocument | None:
        recorded = ModelHistory(model, self._store.listing, log.warning).recorded()
        read = [read_line(self._store, model, version) for version in recorded]
        lines = [line for line, _ in read if line is not None]
        if not lines:
            return None
        context = read_context(self._store, model, now)
        return model_document(
            model, lines, open_now=[stands for _, stands in read], context=context, written_at=now
        )

    def _write(self, model: str, document: ModelDocument, etag: str | None) -> bool:
        key, body = model_view_key(model), document.to_bytes()
        if etag is None:
            return self._store.write_once(key, body)
        return self._store.replace(key, body, etag)


def read_view(store: ModelStoreHook, model: str) -> StoredView:
    """Return a model's document as it lies in the store.

    :raises StoreUnavailableError: that is unknown.
    """
    key = model_view_key(model)
    try:
        read = store.read_with_etag(key, most_bytes=ModelDocument.limit_bytes)
    except UserError as error:
        log.warning("a document of the read model is being rebuilt: %s", error)
        facts = store.stat(key)
        return StoredView(None, None if facts is None else facts.etag)
    if read is None:
        return StoredView(None, None)
    content, etag = read
    try:
        document = ModelDocument.from_bytes(content, store.uri(key))
        if document.model == model:
            return StoredView(document, etag)
        found = f"it is about {document.model}"
    except UserError as error:
        found = str(error)
    is_newer = _format_of(content) > FORMAT
    log.warning(
        "a document of the read model is %s: %s", "of a later version" if is_newer else "made again", found
    )
    return StoredView(None, etag, is_newer)


def read_line(
    store: ModelStoreHook, model: str, version: int
) -> tuple[VersionLine | None, OpenRelease | None]:
    """Return a version's line from its record, and where its release stands; nothing where it has no record.

    :raises TransientError: the store does not answer.
    """
    try:
        events = RecordReader(store, model, version).events()
        if not events:
            return None, None
        line = version_line(events, files_gone=files_are_gone(store, model, version))
        return line, open_release(events)
    except (TransientError, InputMissingError):
        raise
    except UserError as error:
        log.warning("the record of %s %s cannot be shown: %s", model, version, error)
        return unreadable_line(model, version, error.in_short()), None


def _is_the_same(document: ModelDocument, stored: ModelDocument) -> bool:
    return document == stored.model_copy(update={"written_at": document.written_at})


def _format_of(content: bytes) -> int:
    """Return the number of the format that a document claims; 0 where it claims none."""
    try:
        claimed = json.loads(content)
    except (ValueError, RecursionError):
        return 0
    found = claimed.get("format") if isinstance(claimed, dict) else None
    return found if isinstance(found, int) and not isinstance(found, bool) else 0
