"""The documents that pages show: of a model, and of a canary that is watched."""

from __future__ import annotations

import json
from datetime import UTC, datetime

from benchmarks.dashboard.store import model_name, seeded
from benchmarks.fuzz.documents import json_bytes, mutated_json
from benchmarks.fuzz.target import BrokenPromiseError, Target
from slipway_core.bucket_layout import live_key, model_view_key
from slipway_core.read_model.documents import ModelDocument
from slipway_core.read_model.live import LiveDocument
from slipway_core.read_model.live_in_model import with_live
from slipway_core.read_model.model_fold import context_of, updated

_NOW = datetime(2026, 11, 22, tzinfo=UTC)
_MODEL = model_name(0)
_OBJECTS, _ = seeded(1, 6, _NOW)
_VIEW = _OBJECTS[model_view_key(_MODEL)]
_WATCHED = LiveDocument.from_bytes(_OBJECTS[live_key(_MODEL)], "the seed")
_LIVE = _WATCHED.model_copy(update={"windows": _WATCHED.windows[:3]}).to_bytes()
_DOCUMENT = ModelDocument.from_bytes(_VIEW, "the seed")
_VIEWS, _LIVES = (json.loads(_VIEW),), (json.loads(_LIVE),)


def _read_view(content: bytes) -> None:
    """A document that was taken can be brought up to date, written and read again."""
    document = ModelDocument.from_bytes(content, "a document")
    line = _DOCUMENT.versions[0].model_copy(update={"model": document.model})
    if document.model != line.model:
        raise BrokenPromiseError("a line of another model")
    now = updated(
        document, line, open_now=_DOCUMENT.open_release, context=context_of(document), written_at=_NOW
    )
    ModelDocument.from_bytes(now.to_bytes(), "the same")


def _read_live(content: bytes) -> None:
    """A live document that was taken can be written again, and changes no more than the release under way."""
    live = LiveDocument.from_bytes(content, "a document")
    LiveDocument.from_bytes(live.to_bytes(), "the same")
    shown = with_live(_DOCUMENT, live, _NOW)
    if shown.model_copy(update={"open_release": None}) != _DOCUMENT.model_copy(update={"open_release": None}):
        raise BrokenPromiseError("more than the release under way was changed")
    ModelDocument.from_bytes(shown.to_bytes(), "what is shown")


TARGETS = (
    Target(
        "model_document",
        lambda: [json_bytes(tree) for tree in _VIEWS],
        lambda rng, _: mutated_json(rng, _VIEWS),
        _read_view,
    ),
    Target(
        "live_document",
        lambda: [json_bytes(tree) for tree in _LIVES],
        lambda rng, _: mutated_json(rng, _LIVES),
        _read_live,
    ),
)
