"""Whether a model's document is behind its records, found by few listings.

Looked at are the folders of the records, and what lies after the last known event of each version that may have moved:
the newest two, the live one, the one before it, the one whose release is under way, and one of the others by turns.
"""

from __future__ import annotations

import logging

from slipway.hooks.s3_store import ModelStoreHook
from slipway.release_record.history import ModelHistory
from slipway_core.errors import UserError
from slipway_core.read_model.documents import ModelDocument
from slipway_core.record.events import RecordError, parse_event_key

log = logging.getLogger(__name__)

_NEW_AT_ONCE = 20


class Audits:
    """Remembers whose turn it is."""

    def __init__(self, store: ModelStoreHook) -> None:
        self._store = store
        self._turns: dict[str, int] = {}

    def behind(self, document: ModelDocument) -> list[int]:
        """Return versions of which the document does not tell everything; of very many new ones some.

        :raises TransientError: the store does not answer.
        """
        model = document.model
        known = {line.version: line.last_seq for line in document.versions}
        oldest = min(known, default=0)
        try:
            recorded = ModelHistory(model, self._store.listing, log.warning).recorded()
        except UserError as error:
            log.warning("the versions of %s cannot be listed: %s", model, error)
            return []
        new = [version for version in recorded if version not in known and version > oldest][:_NEW_AT_ONCE]
        likely = self._may_have_moved(document)
        return [*new, *(version for version in likely if self._has_more(model, version, known[version]))]

    def _may_have_moved(self, document: ModelDocument) -> list[int]:
        versions = [line.version for line in document.versions]
        open_now = None if document.open_release is None else document.open_release.version
        likely = {document.live_version, document.previous_version, open_now, *versions[:2]} & {*versions}
        others = sorted(version for version in versions if version not in likely)
        if others:
            before = self._turns.get(document.model, 0)
            turn = self._turns[document.model] = next((one for one in others if one > before), others[0])
            likely.add(turn)
        return sorted(version for version in likely if version is not None)

    def _has_more(self, model: str, version: int, last_seq: int) -> bool:
        """Return whether the record has an event after the last one that is known."""
        prefix = f"records/{model}/{version}/"
        found = self._store.entries(prefix, after=f"{prefix}{last_seq:06d}~", most=1)
        try:
            return any(parse_event_key(entry.key) for entry in found)
        except RecordError:
            return False  # segments and strays sort after the events
