"""The documents of models in the store: written by who changes a record, read by pages, made again when lost."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from slipway.hooks.s3_store import ModelStoreHook
from slipway.read_model.reader import ReadModel
from slipway.read_model.writer import ViewWriter

from include.model_release.bucket_layout import model_view_key
from include.model_release.read_model.documents import ModelDocument
from include.model_release.record.kinds import EventData
from tests.support.read_model.histories import at, begun, promoted, record_of, rolled_back


def write(
    store: ModelStoreHook,
    version: int,
    said: Sequence[EventData],
    *,
    begins_at: datetime,
    model: str = "digits",
) -> None:
    """Write a record into the store."""
    for event in record_of(model, version, said, begins_at=begins_at):
        assert store.write_once(event.key, event.to_bytes())


def seed(store: ModelStoreHook) -> None:
    """Write records: 1 was promoted, 2 rolled back, 3 is under way."""
    write(store, 1, promoted("digits", 1, None), begins_at=at(0))
    write(store, 2, rolled_back("digits", 2, 1), begins_at=at(60))
    write(store, 3, begun("digits", 3, 1), begins_at=at(120))


def stored(store: ModelStoreHook) -> ModelDocument:
    """Return the document that lies in the store."""
    content = store.read(model_view_key("digits"))
    assert content is not None
    return ModelDocument.from_bytes(content, "the document")


def test_a_document_is_made_from_the_records_and_kept_current(store: ModelStoreHook) -> None:
    """What one version after another adds is what all records together tell."""
    seed(store)
    writer = ViewWriter(store)
    made = writer.bring_up_to_date("digits")
    assert made is not None
    assert (made.live_version, made.previous_version) == (1, None)
    assert made.open_release is not None
    assert made.open_release.version == 3
    assert [line.outcome for line in made.versions] == ["open", "rolled_back", "promoted"]
    assert stored(store) == made
    assert writer.bring_up_to_date("digits", [2]) == made


def test_pages_see_what_the_records_tell_without_a_document(store: ModelStoreHook) -> None:
    """A model whose document is lost is shown from its records, and its document is written again."""
    seed(store)
    model = ReadModel(store).model("digits")
    assert model.live_version == 1
    assert stored(store).versions == model.versions
    view = ReadModel(store).release("digits", 2)
    assert view.line.outcome == "rolled_back"
    assert [step.state for step in view.steps if step.weight] == ["failed", "skipped"]
    assert ReadModel(store).live("digits") is None
