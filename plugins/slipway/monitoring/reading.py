"""What there is to count, read: from the read model that pages use, or once from the object store."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from datetime import UTC, datetime

from include.model_release.errors import SlipwayError
from include.model_release.monitoring.samples import Seen
from include.model_release.read_model.documents import ModelDocument, Unreadable
from include.model_release.read_model.live import LiveDocument
from slipway.concurrency import each
from slipway.hooks.s3_store import ModelStoreHook
from slipway.read_model.catalogue import Catalogue
from slipway.read_model.live_reader import read_live
from slipway.read_model.reader import ReadModel

log = logging.getLogger(__name__)

_READERS = 8


def seen_by(read_model: ReadModel) -> Seen:
    """Return what a read model knows; what is old says so by its time.

    :raises SlipwayError: nothing is known yet, and the store does not answer.
    """
    known = read_model.known_models()
    shown = known.value
    # A store that does not answer now is not asked once more for each canary.
    live = {} if known.problem else _live(shown.models, read_model.live)
    return Seen(shown.models, known.read_at, live, shown.freezes)


def seen_in(store: ModelStoreHook) -> Seen:
    """Return what lies in the store, read once.

    :param store: with a limit to each answer.
    :raises SlipwayError: the store does not answer.
    """
    read_at = datetime.now(UTC)
    shown = Catalogue(store).refresh()
    return Seen(
        shown.models, read_at, _live(shown.models, lambda model: read_live(store, model)), shown.freezes
    )


def _live(
    models: Mapping[str, ModelDocument | Unreadable], read: Callable[[str], LiveDocument | None]
) -> dict[str, LiveDocument]:
    """Return what the watches of canaries wrote; after a failure nobody else's is asked for."""
    failed = threading.Event()

    def read_unless_failed(model: str) -> LiveDocument | None:
        if failed.is_set():
            return None
        try:
            return read(model)
        except SlipwayError as error:
            failed.set()
            log.info("what the watches of canaries wrote is not counted: %s", error.in_short())
            return None

    under_way = [
        name
        for name, one in models.items()
        if isinstance(one, ModelDocument) and one.open_release is not None
    ]
    found = each(read_unless_failed, under_way, _READERS)
    return {name: one for name, one in zip(under_way, found, strict=True) if one is not None}
