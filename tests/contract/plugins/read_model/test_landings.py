"""What lies below incoming/ and cannot be released, read from a real store's listings."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from slipway.hooks.s3_store import ModelStoreHook
from slipway.read_model.landings import Landings
from slipway.read_model.reader import ReadModel
from slipway_core.errors import UnknownModelError
from slipway_core.read_model.landed import Needed

LATER = timedelta(hours=1)


def _needed(model: str) -> Needed:
    if model == "stranger":
        raise UnknownModelError("there is no release file for 'stranger'", remedy="write one")
    return Needed(("model.onnx",))


def _land(store: ModelStoreHook, place: str, ready: bytes | None = None, **files: bytes) -> None:
    model, _, version = place.partition("/")
    store.write(f"incoming/{place}/model.onnx", b"model")
    for name, body in files.items():
        store.write(f"incoming/{place}/{name}", body)
    store.write(
        f"incoming/{place}/ready.json",
        json.dumps({"model": model, "version": int(version)}).encode() if ready is None else ready,
    )


@pytest.fixture
def filled(store: ModelStoreHook) -> ModelStoreHook:
    """Uploads as people make them."""
    _land(store, "digits/1")
    _land(store, "digits/2", b"\xff\xfe{\x00")
    _land(store, "digits/3", **{"config.pbtxt": b"max_batch_size: eight"})
    store.write("incoming/digits/4/Ready.json", b"{}")
    store.write("incoming/digits/v5/ready.json", b"{}")
    _land(store, "stranger/1")
    store.write("incoming/My_Model/1/ready.json", b"{}")
    for number in range(3):
        store.write(f"incoming/.DS_Store{number}", b"")
    return store


def _told(problems: Any) -> dict[str, str]:
    return {one.place: one.reason for one in problems}


def test_each_upload_that_starts_nothing_is_told(filled: ModelStoreHook) -> None:
    """A marker in another encoding, a configuration, a near name, a folder, a model; the good one is not."""
    landings = Landings(filled, _needed)
    told = _told(landings.of_all(lambda _: None))
    assert set(told) == {
        "incoming/digits/2/",
        "incoming/digits/3/",
        "incoming/digits/4/",
        "incoming/digits/v5/",
        "incoming/stranger/1/",
        "incoming/My_Model/",
    }
    assert "UTF-16" in told["incoming/digits/2/"]
    assert "config.pbtxt" in told["incoming/digits/3/"]
    assert "Ready.json" in told["incoming/digits/4/"]
    assert "no release file" in told["incoming/stranger/1/"]


def test_an_upload_is_read_once_and_again_when_it_is_another(
    filled: ModelStoreHook, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A look where nothing is new costs listings; what was mended is told no more."""
    landings = Landings(filled, _needed, lambda: datetime.now(UTC) + LATER)
    first = landings.of_model("digits", None)
    reads: list[str] = []
    read = ModelStoreHook.read

    def counted(self: ModelStoreHook, key: str, **options: Any) -> bytes | None:
        reads.append(key)
        return read(self, key, **options)

    monkeypatch.setattr(ModelStoreHook, "read", counted)
    assert landings.of_model("digits", None) == first
    assert reads == []
    _land(filled, "digits/2")
    assert "incoming/digits/2/" not in _told(landings.of_model("digits", None))
    assert reads == ["incoming/digits/2/ready.json"]


def test_the_read_model_has_it_with_its_age(filled: ModelStoreHook) -> None:
    """Of a model that no record knows, too."""
    one = ReadModel(filled, _needed)
    known = one.known_landed("stranger", most_age_s=0)
    assert known.problem == ""
    assert [problem.version for problem in known.value] == [1]
    assert "incoming/My_Model/" in _told(one.known_landed().value)


def test_many_files_hide_no_near_name(store: ModelStoreHook) -> None:
    """Where a page of the listing does not hold all of a model, its newest versions are listed alone."""
    store.write("incoming/digits/1/READY.JSON", b"{}")
    for number in range(1001):
        store.client.put_object(Bucket=store.bucket, Key=f"incoming/digits/2/part-{number}", Body=b"")
    store.write("incoming/digits/2/ready.json.txt", b"{}")
    landings = Landings(store, _needed, lambda: datetime.now(UTC) + LATER)
    assert set(_told(landings.of_model("digits", None))) == {"incoming/digits/1/", "incoming/digits/2/"}
    _land(store, "digits/2")
    assert set(_told(landings.of_model("digits", None))) == {"incoming/digits/1/"}
