"""The journal of a watch, as it may lie in a bucket that others write to; and the release run between tasks."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from slipway.metrics.prometheus_series import parse_answer
from slipway.release_run import ReleaseRun
from slipway.traffic.checkpoint import CanaryJournal, WatchOwner, WatchState
from slipway_core.bucket_layout import watch_journal_key
from slipway_core.documents.json_source import parse_json
from slipway_core.errors import MetricsUnavailableError, UserError
from slipway_core.metrics.samples import Counters, Reading
from slipway_core.record.events import PendingEvent
from slipway_core.record.kinds import (
    Approved,
    EventData,
    Promoted,
    RollbackStarted,
    StageStarted,
    StepFinished,
    UnknownEvent,
    VersionUnrejected,
    WeightObserved,
)

AT = "2026-01-02T03:04:05+00:00"
STATE = WatchState(
    "w",
    "{}",
    4.0,
    [
        PendingEvent.now(WeightObserved(weight=5, traffic={})),
        PendingEvent.now(RollbackStarted(reason="errors", by="judge", stable_storage_uri="")),
        PendingEvent.now(WeightObserved(weight=0, traffic={})),
    ],
    {"a": Reading.of(100.0, {"s": Counters(10, 1, {1.0: 10})})},
)


class Store:
    """A store that holds one object."""

    def __init__(self, content: bytes) -> None:
        self.content = content

    def read_json(self, key: str, *, most_bytes: int) -> Any:
        assert most_bytes < 1 << 30
        return parse_json(self.content, key)

    def write_json(self, key: str, value: Any) -> None:
        self.content = json.dumps(value).encode()


def loaded(content: bytes, owner: WatchOwner | None = None) -> WatchState | None:
    return CanaryJournal(Store(content), "journal.json", owner).load()  # type: ignore[arg-type]


def with_events(*data: EventData, at: datetime | None = None) -> bytes:
    events = [PendingEvent(at or datetime.now(UTC), one) for one in data]
    return json.dumps(replace(STATE, events=events).to_dict()).encode()


OWNER = WatchOwner("digits-3", "digits", 3, "canary", 1, 0)
PASSED = StepFinished(
    weight=20, verdict="pass", reason="", candidate_requests=99, candidate_errors=0, seconds=60.0
)
FAILED = StepFinished(
    weight=20, verdict="fail", reason="errors", candidate_requests=99, candidate_errors=9, seconds=6.0
)
BACK = RollbackStarted(reason="errors", by="judge", stable_storage_uri="")


def test_a_state_comes_back_as_it_was_saved() -> None:
    """What one triggerer saved is what the next one goes on from."""
    assert loaded(json.dumps(STATE.to_dict()).encode()) == STATE


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"[]",
        b"7",
        b"[" * 100_000,
        json.dumps({**STATE.to_dict(), "readings": "text"}).encode(),
        json.dumps({**STATE.to_dict(), "readings": {"a": {"at": 1, "series": [7]}}}).encode(),
        json.dumps({**STATE.to_dict(), "readings": {"a": {"at": 10**400, "series": {}}}}).encode(),
        json.dumps({**STATE.to_dict(), "elapsed_s": float("inf")}).encode(),
        json.dumps({**STATE.to_dict(), "elapsed_s": -1}).encode(),
        json.dumps({**STATE.to_dict(), "watch": None}).encode(),
        json.dumps({**STATE.to_dict(), "judge": {}}).encode(),
        json.dumps({**STATE.to_dict(), "owner": "digits-3"}).encode(),
        json.dumps({**STATE.to_dict(), "owner": {"release_id": "digits-3"}}).encode(),
        json.dumps({**STATE.to_dict(), "events": [7]}).encode(),
        json.dumps({**STATE.to_dict(), "events": [{"kind": "promoted", "at": "now", "data": {}}]}).encode(),
        json.dumps({**STATE.to_dict(), "events": [{"kind": [], "at": AT, "data": {}}]}).encode(),
        json.dumps({**STATE.to_dict(), "events": [{"kind": "promoted", "at": AT, "data": {}}]}).encode(),
    ],
)
def test_a_journal_that_cannot_be_read_is_none(content: bytes) -> None:
    """The step is watched anew: nothing in the bucket can end a watch, or let its time have passed."""
    assert loaded(content) is None


@pytest.mark.parametrize(
    "data",
    [
        Approved(before="promotion", by="bob", manifest_sha256="a" * 64),
        VersionUnrejected(reason="it is good", by="bob", rejection_seq=1),
        Promoted(storage_uri="s3://slipway/models/digits/3/repository"),
        StageStarted(stage="canary"),
        UnknownEvent("x", {"y": 1}),
        PASSED,
    ],
    ids=lambda one: str(one.kind),
)
def test_what_no_watch_saves_is_refused(data: EventData) -> None:
    """An approval, a promotion, a step that has passed: none of it can be said by a journal, whatever is beside it."""
    assert loaded(with_events(data)) is None
    assert loaded(with_events(WeightObserved(weight=5, traffic={}), data)) is None


def test_the_end_of_a_step_is_saved_with_its_rollback_alone() -> None:
    """A watch that has taken users back saves why; then the record permits no raise, so that nothing is won by it."""
    kept = loaded(with_events(FAILED, BACK))
    assert kept is not None
    assert [event.kind for event in kept.events] == ["step_finished", "rollback_started"]
    assert loaded(with_events(FAILED)) is None


def test_events_of_the_future_are_refused() -> None:
    """What was seen was seen before now, give or take what two triggerers' clocks may differ by."""
    seen = WeightObserved(weight=5, traffic={})
    now = datetime.now(UTC)
    assert loaded(with_events(seen, at=now + timedelta(minutes=1))) is not None
    assert loaded(with_events(seen, at=now + timedelta(minutes=10))) is None


def test_a_journal_says_whose_it_is() -> None:
    """The same watch finds all of it; the next one of the release its last reading; and nobody else anything."""
    store = Store(b"")
    assert CanaryJournal(store, "journal.json", OWNER).save(STATE)  # type: ignore[arg-type]
    own = loaded(store.content, OWNER)
    assert own is not None
    assert (own.watch, own.events, own.readings) == (STATE.watch, STATE.events, STATE.readings)
    for later in (
        replace(OWNER, step=1),
        replace(OWNER, attempt=2),
        replace(OWNER, stage="promotion"),
    ):
        found = loaded(store.content, later)
        assert found is not None
        assert (found.watch, found.events, found.elapsed_s) == ("", [], 0.0)
        assert found.readings == STATE.readings
    for other in (
        replace(OWNER, release_id="digits-4"),
        replace(OWNER, model="other"),
        replace(OWNER, version=4),
    ):
        assert loaded(store.content, other) is None
    assert loaded(json.dumps(STATE.to_dict()).encode(), OWNER) is None


def test_a_journal_lies_where_no_pod_may_write() -> None:
    """Beside the records, as the model's lock."""
    assert watch_journal_key("digits") == "records/digits/canary-watch.json"


@pytest.mark.parametrize("rendered", ["", "}", "null", "{}", {}, {"release_id": float("nan")}, "[" * 100_000])
def test_a_release_run_that_is_none_is_a_user_error(rendered: Any) -> None:
    """A task that was given something else says so in the project's words."""
    with pytest.raises(UserError, match="not given an admitted release"):
        ReleaseRun.parse(rendered)


@pytest.mark.parametrize(
    "answer",
    [b'{"status":"success","warnings":1}', b'{"status":"success","warnings":{"a":1}}', b"[" * 100_000],
)
def test_an_answer_with_strange_warnings_is_no_answer(answer: bytes) -> None:
    """Warnings that are no list are warnings all the same; brackets alone are no answer."""
    with pytest.raises(MetricsUnavailableError):
        parse_answer(answer, "the Prometheus")
