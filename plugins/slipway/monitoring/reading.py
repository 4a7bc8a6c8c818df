"""What there is to count, read: from the read model that pages use, or once from the object store."""

from __future__ import annotations

from datetime import UTC, datetime

from slipway.hooks.s3_store import ModelStoreHook
from slipway.read_model.catalogue import Catalogue, Shown
from slipway.read_model.reader import ReadModel
from slipway_core.monitoring.samples import Seen


def seen_by(read_model: ReadModel) -> Seen:
    """Return what a read model knows; what is old says so by its time.

    :raises SlipwayError: nothing is known yet, and the store does not answer.
    """
    known = read_model.known_models()
    return _seen(known.value, known.read_at)


def seen_in(store: ModelStoreHook) -> Seen:
    """Return what lies in the store, read once.

    :param store: with a limit to each answer.
    :raises SlipwayError: the store does not answer.
    """
    read_at = datetime.now(UTC)
    return _seen(Catalogue(store).refresh(), read_at)


def _seen(shown: Shown, read_at: datetime) -> Seen:
    return Seen(shown.models, read_at, shown.lives, shown.freezes)
