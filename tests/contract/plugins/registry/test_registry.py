"""ModelRegistry: a version is there whole or not at all, never changes, and is checked when it is read."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable
from typing import Any

import pytest

from slipway.hooks.s3_store import ModelStoreHook
from slipway.registry.registry import ModelRegistry, golden_key
from slipway_core.errors import InputMissingError, StoreUnavailableError, VersionConflictError
from slipway_core.publishing.manifest import FileEntry, Manifest
from tests.support.store.publication import Publication

MODEL_KEY = "models/digits/1/repository/digits/1/model.onnx"
MANIFEST_KEY = "models/digits/1/manifest.json"
Prepare = Callable[..., Publication]


def publish(store: ModelStoreHook, publication: Publication) -> bool:
    """Publish; return whether anything was written."""
    return ModelRegistry(store).publish(publication.manifest, publication.sources, publication.golden)


def content(store: ModelStoreHook, prefix: str = "models/") -> dict[str, bytes | None]:
    """Return every object below the prefix."""
    return {entry.key: store.read(entry.key) for entry in store.entries(prefix)}


def test_published_version_is_whole(store: ModelStoreHook, prepare_version: Prepare) -> None:
    """After publishing, repository, golden set and manifest lie where clients and gates look for them."""
    publication = prepare_version(config=b'name: "digits"')
    assert publish(store, publication) is True
    published = content(store)
    manifest = Manifest.from_bytes(published.pop(MANIFEST_KEY) or b"")
    assert published.pop("models/digits/1/publication.json")
    assert published == {
        "models/digits/1/golden.npz": b"a golden set",
        "models/digits/1/repository/digits/config.pbtxt": b'name: "digits"',
        MODEL_KEY: b"an onnx model",
    }
    registry = ModelRegistry(store)
    assert registry.manifest("digits", 1) == manifest == registry.require("digits", 1)
    assert manifest.attachments == {"golden.npz": FileEntry.of(b"a golden set")}
    assert manifest.model_copy(update={"attachments": {}}) == publication.manifest
    assert content(store, "work/digits/1/publish/") == {}, "nothing is left of the way there"
    assert registry.configs(publication.manifest) == {"digits": {"name": "digits"}}
    assert registry.golden_set(publication.manifest) == b"a golden set"
    assert registry.storage_uri("digits", 1) == f"s3://{store.bucket}/models/digits/1/repository"


def test_unpublished_version_is_none(store: ModelStoreHook) -> None:
    """A version without a manifest is None, and an error that names it where it is needed."""
    assert ModelRegistry(store).manifest("digits", 1) is None
    with pytest.raises(InputMissingError, match=r"version 1 of 'digits' is not published.*manifest\.json"):
        ModelRegistry(store).require("digits", 1)


def test_who_asks_for_a_version_that_is_not_there_reads_which_are(
    store: ModelStoreHook, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Versions with a manifest are named, newest first; a listing that fails hides no error."""
    for version in (2, 10):
        store.write(f"models/digits/{version}/manifest.json", b"{}")
    store.write("models/digits/11/publication.json", b"{}")
    registry = ModelRegistry(store)
    with pytest.raises(InputMissingError, match="found versions 10, 2 of it"):
        registry.require("digits", 7)
    with pytest.raises(InputMissingError, match="found no version of it"):
        registry.require("churn", 7)

    def away(*_: Any, **__: Any) -> Any:
        raise StoreUnavailableError("S3 does not answer")

    monkeypatch.setattr(store, "listing", away)
    with pytest.raises(InputMissingError, match="version 7 of 'digits' is not published"):
        registry.require("digits", 7)


def test_unreadable_registry_is_not_empty(cut_off_store: ModelStoreHook) -> None:
    """A store that does not answer says nothing about what is published."""
    with pytest.raises(StoreUnavailableError):
        ModelRegistry(cut_off_store).manifest("digits", 1)


def test_same_bytes_again_change_nothing(store: ModelStoreHook, prepare_version: Prepare) -> None:
    """Publishing the same bytes a second time writes nothing, and the first manifest stays."""
    publication = prepare_version()
    publish(store, publication)
    before = {entry.key: entry.etag for entry in store.entries("models/")}
    later = publication.manifest.model_copy(update={"tools": {"onnx": "9.9"}})
    repeated = Publication(later, publication.sources, publication.golden)
    assert publish(store, repeated) is False
    assert {entry.key: entry.etag for entry in store.entries("models/")} == before


@pytest.mark.parametrize("changed", [{"model": b"another model"}, {"config": b"name2"}, {"weight_files": 1}])
def test_other_bytes_are_refused(
    store: ModelStoreHook, prepare_version: Prepare, changed: dict[str, Any]
) -> None:
    """Other bytes under a published number are refused, and not a byte of the published version changes."""
    publish(store, prepare_version())
    before = content(store)
    with pytest.raises(VersionConflictError, match="digits version 1 is already published"):
        publish(store, prepare_version(**changed))
    assert content(store) == before


def test_loser_of_a_race_is_told_the_truth(
    store: ModelStoreHook, prepare_version: Prepare, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who finds the manifest written by another a moment before gets a no-op for the same bytes, else a refusal."""
    winner = prepare_version()
    late = ModelStoreHook(store.bucket)
    monkeypatch.setattr(late, "read", answer_first_with_none(late.read))
    publish(store, winner)
    assert publish(late, winner) is False
    monkeypatch.undo()


def answer_first_with_none(read: Callable[..., bytes | None]) -> Callable[..., bytes | None]:
    """Return a `read` whose first answer is from before the object was there."""
    answers = itertools.count()
    return lambda key, **how: None if next(answers) == 0 else read(key, **how)


def test_source_that_is_not_what_was_measured_is_not_sealed(
    store: ModelStoreHook, prepare_version: Prepare
) -> None:
    """A file that changed between measuring and copying is noticed before the manifest is written."""
    publication = prepare_version()
    store.write("work/digits/1/convert/model.onnx", b"written over")
    with pytest.raises(VersionConflictError, match=r"work/digits/1/convert/model\.onnx.*12 bytes"):
        publish(store, publication)
    store.write("work/digits/1/convert/model.onnx", b"as long, why!")
    with pytest.raises(VersionConflictError, match=r"work/digits/1/convert/model\.onnx.*SHA-256"):
        publish(store, publication)
    assert content(store, "models/") == {}, "nothing was decided"
    store.write("work/digits/1/convert/model.onnx", b"an onnx model")
    assert publish(store, publication) is True


def test_missing_source_is_named(store: ModelStoreHook, prepare_version: Prepare) -> None:
    """A source that is gone is named, and nothing is sealed."""
    publication = prepare_version()
    store.delete("incoming/digits/1/golden.npz")
    with pytest.raises(InputMissingError, match=r"incoming/digits/1/golden\.npz"):
        publish(store, publication)
    assert content(store, "models/") == {}


READS: dict[str, tuple[str, Callable[[ModelRegistry, Publication], object]]] = {
    "golden set": ("golden.npz", lambda registry, one: registry.golden_set(one.manifest)),
    "configuration": (
        "repository/digits/config.pbtxt",
        lambda registry, one: registry.configs(one.manifest),
    ),
    "model": (
        "repository/digits/1/model.onnx",
        lambda registry, one: registry.copy_to_staging(one.manifest, "d"),
    ),
}


@pytest.mark.parametrize(("path", "read"), READS.values(), ids=READS)
def test_damaged_file_is_noticed(
    store: ModelStoreHook,
    prepare_version: Prepare,
    path: str,
    read: Callable[[ModelRegistry, Publication], object],
) -> None:
    """A published file that is no longer the manifest's is refused by whoever reads it, with both digests."""
    publication = prepare_version()
    publish(store, publication)
    store.write(f"models/digits/1/{path}", b"tampered")
    with pytest.raises(VersionConflictError, match=rf"models/digits/1/{path}.*SHA-256 .*8 bytes"):
        read(ModelRegistry(store), publication)


@pytest.mark.parametrize(("path", "read"), READS.values(), ids=READS)
def test_lost_file_is_noticed(
    store: ModelStoreHook,
    prepare_version: Prepare,
    path: str,
    read: Callable[[ModelRegistry, Publication], object],
) -> None:
    """A published file that is gone is named by whoever reads it."""
    publication = prepare_version()
    publish(store, publication)
    store.delete(f"models/digits/1/{path}")
    with pytest.raises(InputMissingError, match=f"models/digits/1/{path}"):
        read(ModelRegistry(store), publication)


def test_staging_holds_the_version_and_nothing_else(store: ModelStoreHook, prepare_version: Prepare) -> None:
    """What an earlier release left on staging under the same name goes; other names stay."""
    store.write("staging/digits/7/model.onnx", b"old")
    store.write("staging/digits_baseline/1/model.onnx", b"stable")
    publication = prepare_version()
    publish(store, publication)
    ModelRegistry(store).copy_to_staging(publication.manifest, "digits")
    assert content(store, "staging/") == {
        "staging/digits/config.pbtxt": b'name: "digits"',
        "staging/digits/1/model.onnx": b"an onnx model",
        "staging/digits_baseline/1/model.onnx": b"stable",
    }


def test_files_are_copied_to_staging_side_by_side(
    store: ModelStoreHook, prepare_version: Prepare, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No copy waits for the one before: five meet each other under way."""
    publication = prepare_version(weight_files=3)
    publish(store, publication)
    meeting, copy = threading.Barrier(5, timeout=60), ModelStoreHook.copy

    def meet(self: ModelStoreHook, *arguments: Any, **options: Any) -> str | None:
        meeting.wait()
        return copy(self, *arguments, **options)

    monkeypatch.setattr(ModelStoreHook, "copy", meet)
    ModelRegistry(store, workers=5).copy_to_staging(publication.manifest, "digits")
    assert len(content(store, "staging/")) == 5


def test_golden_set_lies_outside_the_repository(prepare_version: Prepare) -> None:
    """The golden set is no part of what an inference server downloads."""
    assert "/repository/" not in golden_key(prepare_version().manifest)
