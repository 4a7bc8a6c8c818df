"""ModelStoreHook against a real S3 protocol: what is absent, what could not be read, and conditional writes."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from botocore.exceptions import ClientError

from slipway.hooks.s3_store import ModelStoreHook
from slipway_core.errors import InputMissingError, StoreUnavailableError

ABSENT = "models/digits/9/manifest.json"


def test_reads_what_was_written(store: ModelStoreHook) -> None:
    """A written object comes back byte for byte, and JSON as the value that went in."""
    store.write("a/b", b"\x00\xff")
    store.write_json("a/c.json", {"weight": 5})
    assert store.read("a/b") == b"\x00\xff"
    assert store.read_json("a/c.json") == {"weight": 5}
    assert store.exists("a/b")


def test_absent_object_is_none(store: ModelStoreHook) -> None:
    """An object that the store says is not there is None or False, and no error."""
    assert store.read(ABSENT) is None
    assert store.read_json(ABSENT) is None
    assert store.read_with_etag(ABSENT) is None
    assert store.exists(ABSENT) is False
    assert store.entries("models/digits/9/") == []


@pytest.mark.parametrize(
    "ask",
    [
        lambda store: store.require(ABSENT, remedy="release it first"),
        lambda store: store.sha256(ABSENT),
        lambda store: store.copy(ABSENT, "elsewhere"),
    ],
    ids=["require", "sha256", "copy"],
)
def test_needed_object_that_is_absent_is_named(
    store: ModelStoreHook, ask: Callable[[ModelStoreHook], object]
) -> None:
    """Where the object is needed, its absence is an error that names its full address."""
    with pytest.raises(InputMissingError, match=f"s3://{store.bucket}/{ABSENT}"):
        ask(store)


EVERY_CALL: dict[str, Callable[[ModelStoreHook], object]] = {
    "read": lambda store: store.read("k"),
    "read_json": lambda store: store.read_json("k"),
    "read_with_etag": lambda store: store.read_with_etag("k"),
    "require": lambda store: store.require("k", remedy="none"),
    "exists": lambda store: store.exists("k"),
    "entries": lambda store: store.entries("k/"),
    "sha256": lambda store: store.sha256("k"),
    "write": lambda store: store.write("k", b""),
    "write_once": lambda store: store.write_once("k", b""),
    "replace": lambda store: store.replace("k", b"", '"0"'),
    "copy": lambda store: store.copy("k", "l"),
    "delete": lambda store: store.delete("k"),
}


@pytest.mark.parametrize("ask", EVERY_CALL.values(), ids=EVERY_CALL)
def test_unreachable_is_never_absent(
    cut_off_store: ModelStoreHook, ask: Callable[[ModelStoreHook], object]
) -> None:
    """A store that does not answer is StoreUnavailableError for every call, never an absent object."""
    with pytest.raises(StoreUnavailableError, match="aws_default") as caught:
        ask(cut_off_store)
    assert "slipway-test" not in str(caught.value), "no credentials in messages"


@pytest.mark.parametrize("ask", EVERY_CALL.values(), ids=EVERY_CALL)
def test_missing_bucket_is_never_an_absent_object(
    connections: None, ask: Callable[[ModelStoreHook], object]
) -> None:
    """A bucket that is not there says nothing about the objects in it."""
    with pytest.raises(StoreUnavailableError):
        ask(ModelStoreHook("no-such-bucket"))


@pytest.mark.parametrize(
    ("code", "status"), [("AccessDenied", 403), ("SlowDown", 503), ("InternalError", 500)]
)
def test_refusal_is_not_absence(
    store: ModelStoreHook, monkeypatch: pytest.MonkeyPatch, code: str, status: int
) -> None:
    """A request that the store refuses is an error with the store's code, not an absent object."""

    def refuse(**_: Any) -> None:
        answer: Any = {"Error": {"Code": code}, "ResponseMetadata": {"HTTPStatusCode": status}}
        raise ClientError(answer, "GetObject")

    monkeypatch.setattr(store.client, "get_object", refuse)
    with pytest.raises(StoreUnavailableError, match=rf"{code} \(HTTP {status}\)"):
        store.read("k")


def test_write_once_writes_once(store: ModelStoreHook) -> None:
    """The first conditional write wins, the second says so and changes nothing."""
    assert store.write_once("k", b"first") is True
    assert store.write_once("k", b"second") is False
    assert store.read("k") == b"first"


def test_write_once_has_one_winner(store: ModelStoreHook) -> None:
    """Of many writers at once exactly one is told that it wrote, and its bytes are there."""
    bodies = [str(number).encode() for number in range(8)]
    assert store.client  # one client for all threads, as in one task
    with ThreadPoolExecutor(len(bodies)) as pool:
        written = list(pool.map(lambda body: store.write_once("k", body), bodies))
    assert written.count(True) == 1
    assert store.read("k") == bodies[written.index(True)]


def test_replace_wants_the_object_it_has_seen(store: ModelStoreHook) -> None:
    """An object is replaced while its entity tag is the one that was read, and never after."""
    store.write("k", b"first")
    seen = store.read_with_etag("k")
    assert seen is not None
    assert store.replace("k", b"second", seen[1]) is True
    assert store.replace("k", b"third", seen[1]) is False
    assert store.read("k") == b"second"


def test_replace_of_an_object_that_is_gone(store: ModelStoreHook) -> None:
    """An object that was deleted since it was read is not replaced, and that is no error."""
    store.write("k", b"first")
    seen = store.read_with_etag("k")
    assert seen is not None
    store.delete("k")
    assert store.replace("k", b"second", seen[1]) is False
    assert store.read("k") is None


def test_entries_go_beyond_one_page(store: ModelStoreHook, monkeypatch: pytest.MonkeyPatch) -> None:
    """A listing longer than a page is whole and in the order of keys."""
    keys = [f"many/{number:02}" for number in range(7)]
    for key in keys:
        store.write(key, key.encode())
    paginator = store.client.get_paginator("list_objects_v2")
    pages = paginator.paginate
    monkeypatch.setattr(
        paginator, "paginate", lambda **asked: pages(**asked, PaginationConfig={"PageSize": 3})
    )
    monkeypatch.setattr(store.client, "get_paginator", lambda _: paginator)
    entries = store.entries("many/")
    assert [entry.key for entry in entries] == keys
    assert all(entry.size_bytes == len(entry.key) and entry.etag for entry in entries)


def test_listing_tells_folders_and_whether_it_is_whole(store: ModelStoreHook) -> None:
    """With a delimiter, what lies deeper is its folder, once; a listing cut short says so."""
    for key in ("a/1/x", "a/1/y", "a/2/x", "a/note", "b"):
        store.write(key, b"")
    whole = store.listing("a/", delimiter="/")
    assert (whole.folders, [entry.key for entry in whole.objects]) == (["a/1/", "a/2/"], ["a/note"])
    assert whole.is_whole
    first = store.listing("a/", pages=1, page_size=1)
    assert ([entry.key for entry in first.objects], first.is_whole) == (["a/1/x"], False)
    assert store.listing("a/", pages=4, page_size=1).is_whole


def test_fetched_object_is_the_one_that_is_listed(store: ModelStoreHook) -> None:
    """Entity tag and time of an object are the same when it is read and when it is listed, to the second."""
    store.write("k", b"1234")
    (listed,) = store.entries("k")
    fetched = store.fetch("k")
    assert fetched is not None
    assert (fetched.etag, fetched.written_at) == (listed.etag, listed.written_at.replace(microsecond=0))
    assert store.fetch("l") is None


def test_same_bytes_written_again_are_the_same_object(store: ModelStoreHook) -> None:
    """A listing compares what lies there, not when it was written."""
    store.write("k", b"1234")
    (entry,) = store.entries("k")
    assert replace(entry, written_at=entry.written_at + timedelta(seconds=5)) == entry
    assert replace(entry, etag='"another"') != entry


def test_sha256_is_the_objects_own(store: ModelStoreHook) -> None:
    """The digest of an object longer than one chunk is that of its bytes."""
    body = bytes(range(256)) * 5000
    store.write("k", body)
    assert store.sha256("k") == (hashlib.sha256(body).hexdigest(), len(body))


def test_copy_keeps_the_bytes(store: ModelStoreHook) -> None:
    """A copy holds what the source holds, and the source stays."""
    store.write("source", b"bytes")
    store.copy("source", "copy")
    assert store.read("copy") == store.read("source") == b"bytes"


def test_delete_twice(store: ModelStoreHook) -> None:
    """Deleting what is gone already is no error."""
    store.write("k", b"")
    store.delete("k")
    store.delete("k")
    assert not store.exists("k")
