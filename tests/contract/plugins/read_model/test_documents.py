"""The documents of models in the store: written by who changes a record, read by pages, made again when lost."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import pytest
from botocore.exceptions import ClientError

from slipway.hooks.s3_store import ModelStoreHook
from slipway.read_model.catalogue import AUDITED, Catalogue
from slipway.read_model.reader import ReadModel
from slipway.read_model.writer import ViewWriter
from slipway_core.bucket_layout import model_view_key
from slipway_core.errors import InputMissingError, UnknownModelError, UserError
from slipway_core.operations.freezes import freeze
from slipway_core.operations.pins import Pin, pin_key
from slipway_core.read_model.documents import ModelDocument
from slipway_core.record.kinds import EventData, VersionRejected
from tests.support.read_model.asking import asked
from tests.support.read_model.histories import at, begun, promoted, record_of, rolled_back
from tests.support.store.interleaving import Killed, MortalStore, Turns
from tests.support.waiting import wait_until


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
    model = asked(lambda: ReadModel(store).model("digits"))
    assert model.live_version == 1
    assert stored(store).versions == model.versions
    view = asked(lambda: ReadModel(store).release("digits", 2))
    assert view.line.outcome == "rolled_back"
    assert [step.state for step in view.steps if step.weight] == ["failed", "skipped"]
    assert asked(lambda: ReadModel(store).live("digits")) is None


def test_what_is_lost_damaged_or_of_another_format_is_made_again(store: ModelStoreHook) -> None:
    """Whatever lies in the document's place, pages show what the records tell, and a good document lies there soon."""
    seed(store)
    key = model_view_key("digits")
    for content in (
        b"",
        b"{",
        b'{"format": 1, "model": "other", "written_at": "2026-11-20T12:00:00Z"}',
        b" " * (17 << 20),
    ):
        store.write(key, content)
        reader = ReadModel(store)
        assert "digits" in asked(reader.models)
        wait_until(lambda: is_current(store), "a good document lies there")


def test_a_document_of_a_later_version_stays(store: ModelStoreHook) -> None:
    """While two versions of Slipway run beside each other, the older one shows the records and writes nothing there."""
    seed(store)
    later = b'{"format": 2, "model": "digits"}'
    store.write(model_view_key("digits"), later)
    document = ViewWriter(store).bring_up_to_date("digits")
    assert document is not None
    assert document.live_version == 1
    assert store.read(model_view_key("digits")) == later


def test_a_document_that_is_behind_is_noticed_where_somebody_looks(store: ModelStoreHook) -> None:
    """A release that no writer told of, and one that went on, are on the model's page and soon in the document."""
    seed(store)
    ViewWriter(store).bring_up_to_date("digits")
    more = promoted("digits", 3, 1)[6:]
    for event in record_of("digits", 3, more, begins_at=at(130), release_id="digits-3", first_seq=7):
        store.write_once(event.key, event.to_bytes())
    write(store, 4, begun("digits", 4, 3), begins_at=at(150))
    reader = ReadModel(store)
    model = asked(lambda: reader.model("digits"))
    assert (model.live_version, model.versions[0].version) == (3, 4)
    assert model.open_release is not None
    assert model.open_release.version == 4
    wait_until(lambda: stored(store).live_version == 3, "the document is brought up to date")


def test_an_old_version_that_changed_unseen_is_found_by_turns(store: ModelStoreHook) -> None:
    """A rejection of a version that nobody releases any more is found when its turn comes."""
    for version in range(1, 8):
        write(store, version, promoted("digits", version, version - 1 or None), begins_at=at(60 * version))
    ViewWriter(store).bring_up_to_date("digits")
    said = [VersionRejected(reason="too slow", by="ada")]
    for event in record_of("digits", 2, said, begins_at=at(900), first_seq=len(promoted("digits", 2, 1)) + 1):
        store.write_once(event.key, event.to_bytes())
    catalogue = Catalogue(store)

    def is_rejected() -> bool:
        document = catalogue.look_at("digits")
        assert isinstance(document, ModelDocument)
        line = document.line(2)
        return line is not None and line.rejection is not None

    assert any(is_rejected() for _ in range(7))


def test_a_refresh_asks_for_little(store: ModelStoreHook) -> None:
    """When nothing has changed it lists some prefixes, and reads no record and no document."""
    for number in range(12):
        write(store, 1, promoted(f"model-{number}", 1, None), begins_at=at(0), model=f"model-{number}")
        ViewWriter(store).bring_up_to_date(f"model-{number}")
    catalogue = Catalogue(store)
    assert len(catalogue.refresh().models) == 12
    asked: list[str] = []
    store.client.meta.events.register("before-send.s3", lambda request, **_: asked.append(request.url))
    assert len(catalogue.refresh().models) == 12
    reads = [url for url in asked if "list-type" not in url]
    assert reads == []
    # Four listings for all models, and two for each of those whose turn it is.
    assert len(asked) <= 4 + 2 * AUDITED


def test_beside_the_records_lie_pins_freezes_findings_and_tombstones(store: ModelStoreHook) -> None:
    """They are in the document; what cannot be read of them hides nothing else."""
    seed(store)
    pin = Pin(by="ada", at=at(0), reason="an audit")
    store.write(pin_key("digits", 1), pin.to_bytes())
    now = datetime.now(UTC)
    key, content = freeze(
        "digits", who="ada", now=now, until=now + timedelta(days=1), reason="holidays", run_id="freeze-1"
    )
    store.write_once(key, content)
    store.write("models/digits/2/deleted.json", b"{}")
    store.write("operations/findings/digits/stray.json", b"{")
    document = ViewWriter(store).bring_up_to_date("digits")
    assert document is not None
    assert [line.version for line in document.versions if line.pinned] == [1]
    assert [line.version for line in document.versions if line.files_gone] == [2]
    assert [(one.by, one.reason) for one in document.freezes] == [("ada", "holidays")]
    store.delete(pin_key("digits", 1))
    after = ViewWriter(store).bring_up_to_date("digits")
    assert after is not None
    assert not any(line.pinned for line in after.versions)


def test_who_may_only_read_shows_what_the_records_tell(store: ModelStoreHook) -> None:
    """An API server without the right to write shows everything all the same."""
    seed(store)
    store.client.meta.events.register("before-call.s3.PutObject", _refuse)
    reader = ReadModel(store)
    assert asked(lambda: reader.model("digits")).live_version == 1
    wait_until(lambda: isinstance(asked(reader.models).get("digits"), ModelDocument), "it is shown")
    assert store.entries("views/") == []


def test_a_model_or_a_version_without_a_record_is_told(store: ModelStoreHook) -> None:
    """Nothing is made up: errors of our own say what is missing."""
    seed(store)
    reader = ReadModel(store)
    for ask in (lambda: reader.model("digit"), lambda: reader.model("../etc"), lambda: reader.live("A b")):
        with pytest.raises(UnknownModelError):
            asked(ask)
    with pytest.raises(InputMissingError):
        asked(lambda: reader.release("digits", 9))
    assert set(asked(reader.models)) == {"digits"}


def test_a_folder_without_versions_is_no_model(store: ModelStoreHook) -> None:
    """A model that has only been frozen is not shown, nor is what somebody has put there."""
    seed(store)
    store.write("records/sleepy/freezes/x.json", b"")
    store.write("records/_all/freezes/y.json", b"")
    store.write("records/stray.json", b"")
    store.write("views/models/no model.json", b"")
    reader = ReadModel(store)
    wait_until(lambda: set(asked(reader.models)) == {"digits"}, "only the model is shown")
    catalogue = Catalogue(store)
    wait_until(lambda: set(catalogue.refresh().models) == {"digits"}, "only the model is held")
    assert all(set(catalogue.refresh().models) == {"digits"} for _ in range(5))


@pytest.mark.parametrize(
    "order", [(0, 1) * 40, (0,) * 6 + (1,) * 60, (0, 0, 1, 1, 1) * 20, (1, 0, 0, 0) * 20]
)
def test_two_writers_at_once_lose_nothing(store: ModelStoreHook, order: tuple[int, ...]) -> None:
    """Each tells of another version, in every order of their requests: the document has both at last."""
    write(store, 1, promoted("digits", 1, None), begins_at=at(0))
    ViewWriter(store).bring_up_to_date("digits")
    write(store, 2, rolled_back("digits", 2, 1), begins_at=at(60))
    write(store, 3, promoted("digits", 3, 1), begins_at=at(120))
    turns = Turns(order, lambda: None)

    def work(me: int) -> None:
        try:
            one = MortalStore(store, turns=turns, me=me)
            ViewWriter(one).bring_up_to_date("digits", [2 + me])
        finally:
            turns.leave(me)

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(work, (0, 1)))
    document = stored(store)
    assert [(line.version, line.outcome) for line in document.versions] == [
        (3, "promoted"),
        (2, "rolled_back"),
        (1, "promoted"),
    ]
    assert (document.live_version, document.previous_version) == (3, 1)


def test_a_writer_that_dies_anywhere_leaves_a_document_that_is_whole(store: ModelStoreHook) -> None:
    """It was written or it was not; the next one goes on from there."""
    seed(store)
    ViewWriter(store).bring_up_to_date("digits")
    write(store, 4, begun("digits", 4, 1), begins_at=at(180))
    for dies_at in range(1, 30):
        one = MortalStore(store, dies_at=dies_at)
        try:
            ViewWriter(one).bring_up_to_date("digits", [4])
        except Killed:
            assert stored(store).versions[0].version in (3, 4)
        else:
            break
    assert stored(store).versions[0].version == 4


def is_current(store: ModelStoreHook) -> bool:
    """Return whether a document of ours lies in the store."""
    try:
        return stored(store).live_version == 1
    except UserError:
        return False


def _refuse(**_: object) -> None:
    raise ClientError({"Error": {"Code": "AccessDenied", "Message": "no"}}, "PutObject")
