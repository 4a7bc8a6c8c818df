"""What the live document of a canary adds to the document of its model."""

from __future__ import annotations

from datetime import datetime, timedelta

from slipway_core.read_model.documents import ModelDocument
from slipway_core.read_model.live import LiveDocument

# For so long after it was written a document tells of a pause: a watch writes it once a window.
_CURRENT_FOR = timedelta(minutes=5)


def with_live(document: ModelDocument, live: LiveDocument | None, now: datetime) -> ModelDocument:
    """Return a model's document with what the watch of its canary has reported since the record's last event.

    A document of another release says nothing about this one.
    """
    stands = document.open_release
    if stands is None or live is None:
        return document
    if (live.model, live.version, live.release_id) != (document.model, stands.version, stands.release_id):
        return document
    changes: dict[str, object] = {}
    if now - live.written_at < _CURRENT_FOR and stands.stage in ("canary", "hold"):
        changes |= {"paused": live.paused, "paused_since": live.paused_since}
    if stands.updated_at is None or live.written_at > stands.updated_at:
        changes |= {
            "step": live.step,
            "weight_intended": live.weight_intended,
            "weight_observed": stands.weight_observed
            if live.weight_observed is None
            else live.weight_observed,
            "verdict": live.verdict,
            "updated_at": live.written_at,
        }
    return document.model_copy(update={"open_release": stands.model_copy(update=changes)})
