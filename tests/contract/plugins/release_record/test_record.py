"""ReleaseRecord: append-only events in the store, and what they amount to."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from threading import Barrier
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException, TaskDeferred

from slipway.failures import airflow_failures
from slipway.hooks.s3_store import ModelStoreHook
from slipway.operators.base import recorded_stage
from slipway.release_record import record_reader
from slipway.release_record.record import ReleaseRecord
from slipway_core.errors import (
    BenchmarkInconclusiveError,
    LoadRefusedError,
    SlipwayError,
    StoreUnavailableError,
)
from slipway_core.record.events import Event, RecordError
from slipway_core.record.kinds import ReleaseFinished, ReleaseStarted, StageStarted

BEGIN = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
URI = "s3://bucket/models/digits/1/repository"


def record(store: ModelStoreHook, release_id: str = "digits-2", version: int = 2) -> ReleaseRecord:
    """Return the record of a version as one release writes it."""
    return ReleaseRecord(store, "digits", version, release_id)


def kinds(one: ReleaseRecord) -> list[tuple[int, str]]:
    """Return number and kind of each event."""
    return [(event.seq, event.kind) for event in one.events()]


def test_events_come_back_in_order(store: ModelStoreHook) -> None:
    """What is appended is read back in order, with its time, release and data."""
    written = [
        record(store).append(ReleaseStarted(stable_storage_uri=URI), at=BEGIN),
        record(store).append(StageStarted(stage="convert"), at=BEGIN + timedelta(seconds=1)),
    ]
    assert record(store).events() == written
    assert written[0].at == BEGIN
    assert written[0].data == ReleaseStarted(stable_storage_uri=URI)
    assert [entry.key for entry in store.entries("records/")] == [
        "records/digits/2/000001-release_started.json",
        "records/digits/2/000002-stage_started.json",
    ]


def test_time_is_now_unless_given(store: ModelStoreHook) -> None:
    """An event without a time happened when it was written, in UTC."""
    before = datetime.now(UTC)
    event = record(store).append(ReleaseStarted())
    assert before <= event.at <= datetime.now(UTC)
    assert event.at.tzinfo is UTC


def test_more_than_nine_events_keep_their_order(store: ModelStoreHook) -> None:
    """Numbers sort as numbers, not as text."""
    for _ in range(12):
        record(store).append(ReleaseStarted())
    assert [seq for seq, _ in kinds(record(store))] == list(range(1, 13))


def test_nothing_recorded_is_not_an_empty_release(store: ModelStoreHook) -> None:
    """A version without events was never started, and has no state."""
    assert record(store).started() is False
    assert record(store).events() == []
    with pytest.raises(RecordError, match="empty"):
        record(store).state()


def test_versions_have_records_of_their_own(store: ModelStoreHook) -> None:
    """The record of version 2 is not that of version 22, nor disturbed by the model's lock."""
    record(store, version=22).append(ReleaseStarted())
    store.write_once("records/digits/active.json", b"{}")
    assert record(store).started() is False
    record(store).append(ReleaseStarted())
    assert kinds(record(store)) == [(1, "release_started")]


def test_a_second_attempt_appends_to_the_first(store: ModelStoreHook) -> None:
    """A later release of the same version goes on counting, and its state is a new attempt."""
    record(store, "first").append(ReleaseStarted())
    record(store, "first").append(ReleaseFinished(outcome="failed", refused_by=None, reason="S3 was away"))
    record(store, "second").append(ReleaseStarted())
    state = record(store, "second").state()
    assert (state.release_id, state.attempts, state.outcome) == ("second", 2, "open")
    assert [seq for seq, _ in kinds(record(store))] == [1, 2, 3]


def test_writers_at_once_lose_nothing(store: ModelStoreHook) -> None:
    """Tasks that write at the same moment, as two in parallel do, each get their event in, without a gap."""
    assert store.client  # one client for all threads
    with ThreadPoolExecutor(6) as pool:
        stages = [f"stage-{number}" for number in range(6)]
        list(pool.map(lambda stage: record(store).append(StageStarted(stage=stage)), stages))
    events = record(store).events()
    assert sorted(event.data.stage for event in events) == stages
    assert sorted({event.seq for event in events}) == list(range(1, max(event.seq for event in events) + 1))


def test_lost_event_is_noticed(store: ModelStoreHook) -> None:
    """A record with a gap gives no state."""
    for _ in range(3):
        record(store).append(ReleaseStarted())
    store.delete("records/digits/2/000002-release_started.json")
    with pytest.raises(RecordError, match="no event 2"):
        record(store).state()


def test_damaged_event_is_named(store: ModelStoreHook) -> None:
    """An event that cannot be read is named by its key."""
    record(store).append(ReleaseStarted())
    store.write("records/digits/2/000001-release_started.json", b"{")
    with pytest.raises(SlipwayError, match=r"records/digits/2/000001-release_started\.json"):
        record(store).events()


@pytest.mark.parametrize(
    "ask",
    [ReleaseRecord.events, ReleaseRecord.started, ReleaseRecord.state],
    ids=["events", "started", "state"],
)
def test_unreachable_store_is_not_an_empty_record(
    cut_off_store: ModelStoreHook, ask: Callable[[ReleaseRecord], object]
) -> None:
    """A record that could not be read is not one without events."""
    with pytest.raises(StoreUnavailableError):
        ask(record(cut_off_store))


def test_event_that_could_not_be_written_is_an_error(cut_off_store: ModelStoreHook) -> None:
    """Nobody goes on in the belief that an event was written."""
    with pytest.raises(StoreUnavailableError):
        record(cut_off_store).append(ReleaseStarted())


# --- what else lies there ---

_STRAYS = (
    "README",
    ".DS_Store",
    "",
    "0",
    "000001",
    "0000001-release_started.json",
    "notes/000001-promoted.json",
    "x/",
)


def test_strays_are_skipped_and_named(store: ModelStoreHook, caplog: pytest.LogCaptureFixture) -> None:
    """What lies beside the events disturbs neither reading nor appending, and is named in the log once."""
    for stray in _STRAYS:
        store.write(f"records/digits/2/{stray}", b"hello")
    record(store).append(ReleaseStarted())
    one = record(store)
    assert kinds(one) == kinds(one) == [(1, "release_started")]
    told = [
        line.getMessage() for line in caplog.records if line.name == "slipway.release_record.record_reader"
    ]
    assert sum("8 objects in the record that are not events" in line for line in told) == 1
    assert any("records/digits/2/README" in line or "records/digits/2/'" in line for line in told)


def test_a_folder_with_nothing_but_strays_was_not_started(store: ModelStoreHook) -> None:
    """A folder's marker, or what others have put there, is no release; an event behind it is one."""
    for stray in _STRAYS:
        store.write(f"records/digits/2/{stray}", b"hello")
        assert record(store).started() is False, stray
    record(store).append(ReleaseStarted())
    assert record(store).started() is True


@pytest.mark.parametrize(
    "other",
    [{"model": "magika"}, {"version": 22}, {"seq": 2}, {"kind": "promoted"}],
    ids=["model", "version", "number", "kind"],
)
def test_an_event_in_anothers_place_is_named(store: ModelStoreHook, other: dict[str, Any]) -> None:
    """An object whose content is not what its key says is an error that names the object."""
    event = record(store).append(ReleaseStarted())
    store.write(event.key, json.dumps({**event.to_document(), **other}).encode())
    with pytest.raises(RecordError, match=r"^records/digits/2/000001-release_started\.json holds another"):
        record(store).events()


def test_an_object_too_large_for_an_event_is_not_read(store: ModelStoreHook, requests: Counter[str]) -> None:
    """An object of more than 4 MiB is named by its size in the listing; it is not fetched."""
    event = record(store).append(ReleaseStarted())
    store.write(event.key, event.to_bytes() + b" " * (4 << 20))
    with pytest.raises(RecordError, match=r"000001-release_started\.json is too large"):
        record(store).events()
    assert requests["GetObject"] == 0


def test_an_event_too_large_to_be_read_is_not_written(store: ModelStoreHook) -> None:
    """What no reader would take is refused when it is appended."""
    with pytest.raises(RecordError, match="too large"):
        record(store).append(StageStarted(stage="x" * (4 << 20)))
    assert store.entries("records/") == []


def test_a_record_too_large_to_be_held_is_not_read(
    store: ModelStoreHook, requests: Counter[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Events that together would fill the memory are refused by their listing."""
    written = [record(store).append(ReleaseStarted()) for _ in range(3)]
    monkeypatch.setattr(record_reader, "RECORD_LIMIT_BYTES", 3 * len(written[0].to_bytes()) - 1)
    with pytest.raises(RecordError, match="too large to be read"):
        record(store).events()
    assert requests["GetObject"] == 0


def test_a_place_that_is_always_taken_is_an_error(
    store: ModelStoreHook, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A store that says of every key that it is taken does not keep a task for ever."""
    monkeypatch.setattr(store, "write_once", lambda *_, **__: False)
    with pytest.raises(StoreUnavailableError, match="no free place"):
        record(store).append(ReleaseStarted())


# --- requests ---


@pytest.fixture
def requests(store: ModelStoreHook) -> Counter[str]:
    """How often each operation was asked of the store since the test began."""
    asked: Counter[str] = Counter()
    store.client.meta.events.register("before-call.s3", lambda model, **_: asked.update([model.name]))
    return asked


def test_what_was_read_is_not_read_again(store: ModelStoreHook, requests: Counter[str]) -> None:
    """A record reads each event once, and sees what others have added since."""
    for _ in range(3):
        record(store).append(ReleaseStarted())
    one = record(store)
    requests.clear()
    assert one.state().last_seq == len(one.events()) == 3
    assert requests == {"ListObjectsV2": 2, "GetObject": 3}
    late = "records/digits/2/000002-stage_started.json"
    first = Event.from_bytes(store.read(late.replace("stage", "release")) or b"")
    store.write(late, replace(first, data=StageStarted(stage="x")).to_bytes())
    record(store).append(ReleaseStarted())
    requests.clear()
    assert [seq for seq, _ in kinds(one)] == [1, 2, 2, 3, 4]
    assert requests == {"ListObjectsV2": 1, "GetObject": 2}


def test_an_event_that_is_gone_is_missed(store: ModelStoreHook) -> None:
    """What is not listed any more is not told from memory."""
    for _ in range(3):
        record(store).append(ReleaseStarted())
    one = record(store)
    assert one.state().last_seq == 3
    store.delete("records/digits/2/000002-release_started.json")
    with pytest.raises(RecordError, match="no event 2"):
        one.state()


def test_started_is_one_small_request(store: ModelStoreHook, requests: Counter[str]) -> None:
    """Whether there was a release is asked with one listing of one key."""
    keys: list[int] = []
    record(store).append(ReleaseStarted())
    store.client.meta.events.register(
        "provide-client-params.s3.ListObjectsV2", lambda params, **_: keys.append(params["MaxKeys"])
    )
    requests.clear()
    assert record(store).started()
    assert (requests, keys) == ({"ListObjectsV2": 1}, [1])


def test_events_are_read_many_at_a_time(store: ModelStoreHook, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sixteen reads are under way at once: each waits until all are."""
    assert store.client
    for _ in range(16):
        record(store).append(ReleaseStarted())
    all_there, read = Barrier(16), store.read_with_etag

    def read_together(key: str, **limits: Any) -> Any:
        all_there.wait(60)
        return read(key, **limits)

    monkeypatch.setattr(store, "read_with_etag", read_together)
    assert len(record(store).events()) == 16


# --- stages ---


def stage_events(store: ModelStoreHook) -> list[tuple[str, Any, Any]]:
    """Return kind, outcome and reason of what was recorded after the start."""
    events = record(store).events()[1:]
    told = [(event.kind, event.data.to_document()) for event in events]
    return [(kind, document.get("outcome"), document.get("reason")) for kind, document in told]


@pytest.fixture
def begun(store: ModelStoreHook) -> ReleaseRecord:
    """The record of a release that has begun."""
    record(store).append(ReleaseStarted())
    return record(store)


def test_stage_that_passes(store: ModelStoreHook, begun: ReleaseRecord) -> None:
    """A stage is recorded when it begins and when it has passed."""
    with recorded_stage(begun, "publish"):
        assert stage_events(store) == [("stage_started", None, None)]
    assert stage_events(store)[1] == ("stage_finished", "passed", None)


def test_stage_passes_for_a_manifest(begun: ReleaseRecord) -> None:
    """A gate's pass names the manifest that it holds for; one that did not pass proves nothing of any."""
    with recorded_stage(begun, "validate", manifest_sha256="ab" * 32):
        pass
    with pytest.raises(LoadRefusedError), recorded_stage(begun, "benchmark", manifest_sha256="ab" * 32):
        raise LoadRefusedError("it does not load")
    proved = {stage.name: stage.manifest_sha256 for stage in begun.state().stages}
    assert proved == {"validate": "ab" * 32, "benchmark": None}


@pytest.mark.parametrize(
    "error", [BenchmarkInconclusiveError("stable is as slow"), LoadRefusedError("it does not load")]
)
def test_what_a_gate_could_not_tell_or_refused_is_not_tried_again(error: SlipwayError) -> None:
    """Trying at once would meet the same: Airflow is told to fail the task."""
    with pytest.raises(AirflowFailException, match=error.what), airflow_failures():
        raise error


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (LoadRefusedError("it does not load"), "refused"),
        (BenchmarkInconclusiveError("stable is as slow"), "inconclusive"),
        (StoreUnavailableError("S3 is away"), "failed"),
    ],
)
def test_stage_that_does_not_pass(
    store: ModelStoreHook, begun: ReleaseRecord, error: SlipwayError, outcome: str
) -> None:
    """Refused, undecided and failed are told apart; the reason is in the record and the error goes on."""
    with pytest.raises(type(error)), recorded_stage(begun, "stage"):
        raise error
    assert stage_events(store)[1] == ("stage_finished", outcome, str(error))
    state = begun.state()
    assert state.refused_by == ("stage" if outcome == "refused" else None)


def test_stage_that_is_cut_off(store: ModelStoreHook, begun: ReleaseRecord) -> None:
    """A task that is ended from outside leaves its stage as failed, not as running."""
    with pytest.raises(KeyboardInterrupt), recorded_stage(begun, "benchmark"):
        raise KeyboardInterrupt
    assert stage_events(store)[1][:2] == ("stage_finished", "failed")


def test_stage_that_waits_is_not_over(store: ModelStoreHook, begun: ReleaseRecord) -> None:
    """A stage whose task defers is still running; it ends when the task has come back, and begins once."""
    with pytest.raises(TaskDeferred), recorded_stage(begun, "convert"):
        raise TaskDeferred(trigger=None, method_name="go_on")
    assert [stage.outcome for stage in begun.state().stages] == ["running"]
    with recorded_stage(begun, "convert", resumed=True):
        pass
    assert [kind for kind, _, _ in stage_events(store)] == ["stage_started", "stage_finished"]
    assert [stage.outcome for stage in begun.state().stages] == ["passed"]
