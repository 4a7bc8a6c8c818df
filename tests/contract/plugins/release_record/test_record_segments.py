"""Long records: blocks of events are read from their segments, which never change the answer.

But for one test a block has 20 events here, and a page 30 keys.
"""

from __future__ import annotations

import gzip
import json
from collections import Counter
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

import pytest

from slipway.concurrency import map_concurrently
from slipway.hooks.s3_store import ModelStoreHook
from slipway.release_record import record_reader
from slipway.release_record.record import ReleaseRecord
from slipway_core.errors import StoreUnavailableError
from slipway_core.record import segment as record_segment
from slipway_core.record.events import Event, EventWriter, RecordError
from slipway_core.record.kinds import ReleaseStarted, RollbackStarted, StageStarted, WindowJudged
from slipway_core.record.segment import UNPACKED_LIMIT_BYTES, pack_segment, unpack_segment

PREFIX = "records/digits/2/"
SEGMENT = f"{PREFIX}segments/000001-000020.jsonl.gz"
AT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
WINDOW = {"verdict": {"status": "pass"}, "candidate_requests": 5, "candidate_errors": 0, "first_bad_at": None}


def record(store: ModelStoreHook) -> ReleaseRecord:
    """The record as a task that has read nothing yet sees it."""
    return ReleaseRecord(store, "digits", 2, "digits-2")


def event(seq: int) -> Event:
    """An event of a long canary."""
    writer = EventWriter("digits-2", "digits", 2)
    return (
        writer.event(seq, AT, ReleaseStarted()) if seq == 1 else writer.event(seq, AT, WindowJudged(**WINDOW))
    )


def filled(store: ModelStoreHook, last: int, first: int = 1) -> list[Event]:
    """Write events as they were before there were segments."""
    assert store.client  # one client for all threads
    events = [event(seq) for seq in range(first, last + 1)]
    map_concurrently(lambda one: store.write(one.key, one.to_bytes()), events, 8)
    return events


@pytest.fixture(autouse=True)
def _small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record_segment, "SEGMENT_EVENTS", 20)
    monkeypatch.setattr(record_reader, "_PAGE", 30)


@pytest.fixture
def requests(store: ModelStoreHook) -> Counter[str]:
    """How often each operation was asked of the store."""
    asked: Counter[str] = Counter()
    store.client.meta.events.register("before-call.s3", lambda model, **_: asked.update([model.name]))
    return asked


@pytest.mark.parametrize("block", [20, 500])
def test_a_full_block_is_read_in_one_request(
    store: ModelStoreHook, requests: Counter[str], monkeypatch: pytest.MonkeyPatch, block: int
) -> None:
    """The first reader of a block writes its segment; the next one reads it instead of its events."""
    monkeypatch.setattr(record_segment, "SEGMENT_EVENTS", block)
    events = filled(store, block + 2)
    assert record(store).events() == events
    requests.clear()
    assert record(store).events() == events
    # The segment, the two events behind it, and one that shows what entity tags are here.
    assert requests == {"ListObjectsV2": 1, "GetObject": 4}


def test_the_window_that_fills_a_block_writes_its_segment(
    store: ModelStoreHook, requests: Counter[str]
) -> None:
    """A canary leaves segments behind while it runs, so that its end need not read it event by event."""
    filled(store, 18)
    one = record(store)
    one.append(WindowJudged(**WINDOW), at=AT)
    assert not store.exists(SEGMENT)
    one.append(WindowJudged(**WINDOW), at=AT)
    assert store.exists(SEGMENT)
    requests.clear()
    assert record(store).events() == [event(seq) for seq in range(1, 21)]
    assert requests["GetObject"] == 2


def test_no_other_event_waits_for_a_segment(store: ModelStoreHook, requests: Counter[str]) -> None:
    """An event of a rollback that happens to fill a block costs no more than any other."""
    filled(store, 19)
    requests.clear()
    record(store).append(RollbackStarted(reason="bad", by="judge", stable_storage_uri=None))
    assert requests == {"ListObjectsV2": 1, "PutObject": 1}


def test_a_segment_that_cannot_be_written_holds_nothing_up(
    store: ModelStoreHook, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who may not write segments reads and appends all the same."""
    events, write_once = filled(store, 19), store.write_once

    def no_segments(key: str, *arguments: Any, **more: Any) -> bool:
        if "segments" in key:
            raise StoreUnavailableError("access denied")
        return write_once(key, *arguments, **more)

    monkeypatch.setattr(store, "write_once", no_segments)
    record(store).append(WindowJudged(**WINDOW), at=AT)
    assert record(store).events() == [*events, event(20)]


def test_an_event_that_came_late_is_read_beside_its_segment(store: ModelStoreHook) -> None:
    """A block may get another event after its segment was written; a segment need not hold all."""
    filled(store, 20)
    record(store).events()
    late = EventWriter("digits-2", "digits", 2).event(7, AT, StageStarted(stage="canary"))
    store.write_once(late.key, late.to_bytes())
    assert late in record(store).events()
    assert len(record(store).events()) == 21


def test_an_event_that_is_lost_is_not_told_by_a_segment(store: ModelStoreHook) -> None:
    """The single events are the truth: one that is gone is missed, though a copy is there."""
    filled(store, 20)
    record(store).events()
    store.delete(event(7).key)
    with pytest.raises(RecordError, match="no event 7"):
        record(store).state()


def test_an_event_that_was_changed_is_not_told_by_a_segment(store: ModelStoreHook) -> None:
    """What lies at an event's key now is read, not what lay there when the segment was written."""
    filled(store, 20)
    record(store).events()
    changed = EventWriter("digits-2", "digits", 2).event(
        7, AT, WindowJudged(**{**WINDOW, "candidate_errors": 3})
    )
    store.write(changed.key, changed.to_bytes())
    assert record(store).events()[6] == changed


def _forged(copies: Mapping[str, Any], **more: str) -> bytes:
    """A segment in which the line of event 7 says something else."""
    lines = [
        {"name": each_name, "etag": copy.etag, "content": copy.content.decode()}
        for each_name, copy in copies.items()
    ]
    lines = [{**line, **more} if line["name"] == _SEVENTH else line for line in lines]
    return gzip.compress("\n".join(json.dumps(line) for line in lines).encode())


_SEVENTH = event(7).key.removeprefix(PREFIX)
_LIE = event(7).to_bytes().replace(b'"candidate_errors": 0', b'"candidate_errors": 9')
_HOSTILE: dict[str, Callable[[Mapping[str, Any]], bytes]] = {
    "empty": lambda _: b"",
    "no segment": lambda _: b"hello",
    "broken off": lambda copies: pack_segment(copies)[:-20],
    "huge": lambda _: bytes(9 << 20),
    "a bomb": lambda _: gzip.compress(bytes(UNPACKED_LIMIT_BYTES + 1), 9),
    "other content under the true tag": lambda copies: _forged(copies, content=_LIE.decode()),
    "another tag": lambda copies: _forged(copies, etag='"0"'),
    "an event that is not there": lambda copies: _forged(copies, name="000021-promoted.json"),
    "a key elsewhere": lambda copies: _forged(copies, name="../3/000001-promoted.json"),
}


@pytest.mark.parametrize("made", _HOSTILE.values(), ids=_HOSTILE)
def test_a_segment_that_is_not_true_changes_nothing(
    store: ModelStoreHook, caplog: pytest.LogCaptureFixture, made: Callable[[Mapping[str, Any]], bytes]
) -> None:
    """Whatever lies at a segment's key, the events are told as they lie in the store, and the log names it."""
    events = filled(store, 21)
    record(store).events()
    true = store.read(SEGMENT) or b""
    store.write(SEGMENT, made(unpack_segment(true)))
    assert record(store).events() == events
    assert any("is not used" in line.getMessage() and SEGMENT in line.getMessage() for line in caplog.records)


def test_appending_to_a_long_record_lists_its_end(store: ModelStoreHook, requests: Counter[str]) -> None:
    """The next number of a record of two pages is found from the newest segment on."""
    filled(store, 62)
    record(store).events()
    asked: list[str] = []
    store.client.meta.events.register(
        "provide-client-params.s3.ListObjectsV2", lambda params, **_: asked.append(params.get("StartAfter"))
    )
    assert record(store).append(StageStarted(stage="promote")).seq == 63
    assert asked == [PREFIX, None, f"{PREFIX}000040"]


@pytest.mark.parametrize("segment", ["000981-001000", "999981-1000000"])
def test_a_segment_of_what_is_not_there_leads_no_writer_astray(store: ModelStoreHook, segment: str) -> None:
    """A segment that names numbers no event has leaves no gap behind what is appended."""
    filled(store, 61)
    store.write(f"{PREFIX}segments/{segment}.jsonl.gz", b"")
    assert record(store).append(StageStarted(stage="promote")).seq == 62
    assert record(store).state().last_seq == 62


def test_numbers_beyond_six_digits_go_on(store: ModelStoreHook) -> None:
    """Where keys do not sort as numbers any more, reading and appending still find the last."""
    filled(store, 1_000_003, first=999_961)
    one = record(store)
    assert [found.seq for found in one.events()][-1] == 1_000_003
    assert record(store).append(StageStarted(stage="x")).seq == 1_000_004
    assert one.events()[-1].seq == 1_000_004
