"""The live document of a first version that comes up: what holds up its pods, for pages."""

from __future__ import annotations

import asyncio

import pytest

from slipway.hooks.s3_store import ModelStoreHook
from slipway.read_model import first_version_writer
from slipway.read_model.first_version_writer import FirstVersionWriter
from slipway.read_model.reader import ReadModel
from slipway_core.bucket_layout import live_key
from slipway_core.errors import StoreUnavailableError
from slipway_core.read_model.live import LiveDocument
from tests.support.read_model.asking import asked
from tests.support.release.conversion import release_run_of

PENDING = "The pod a: Pending: 0/3 nodes are available."


def written(store: ModelStoreHook) -> LiveDocument | None:
    """Return the document as pages read it."""
    return asked(lambda: ReadModel(store).live("ranker"))


async def seen(writer: FirstVersionWriter, *reasons: str) -> None:
    """Let the trigger observe these reasons, one after another, each written before the next."""
    for reason in reasons:
        writer.write(reason)
        if writer._task is not None:
            await writer._task


def test_pages_say_what_holds_a_first_version_up(store: ModelStoreHook) -> None:
    """While it lasts, and no longer than the version takes to come up."""
    writer = FirstVersionWriter(store, release_run_of(store.bucket, "ranker-1"))
    found = []

    async def comes_up() -> None:
        await seen(writer, "", PENDING)
        found.append(await asyncio.to_thread(written, store))
        await writer.end()

    asyncio.run(comes_up())
    (held_up,), ended = found, written(store)
    assert held_up is not None
    assert ended is not None
    assert (held_up.waiting, held_up.release_id, held_up.weights) == (PENDING, "ranker-1", ())
    assert ended.waiting == ""


def test_nothing_is_written_where_nothing_holds_it_up(store: ModelStoreHook) -> None:
    """Most first versions come up: their pages need no document."""
    writer = FirstVersionWriter(store, release_run_of(store.bucket))
    asyncio.run(seen(writer, "", ""))
    assert not store.exists(live_key("ranker"))


def test_a_reason_that_lasts_is_written_again(store: ModelStoreHook, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pages call a document silent that is old; one that is young and says the same is not written at each look."""
    writer = FirstVersionWriter(store, release_run_of(store.bucket))
    asyncio.run(seen(writer, PENDING))
    first = written(store)
    asyncio.run(seen(writer, PENDING))
    assert written(store) == first
    monkeypatch.setattr(first_version_writer, "EVERY_S", 0.0)
    asyncio.run(seen(writer, PENDING))
    again = written(store)
    assert first is not None
    assert again is not None
    assert again.written_at > first.written_at


def test_a_store_that_fails_holds_nothing_up(
    store: ModelStoreHook, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It is named in the log, and the next look tries again."""

    def fails(*_: object, **__: object) -> None:
        raise StoreUnavailableError("the store does not answer")

    writer = FirstVersionWriter(store, release_run_of(store.bucket))
    with monkeypatch.context() as broken, caplog.at_level("INFO"):
        broken.setattr(store, "write", fails)
        asyncio.run(seen(writer, PENDING))
        assert "does not answer" in caplog.text
    asyncio.run(seen(writer, PENDING))
    assert written(store) is not None
