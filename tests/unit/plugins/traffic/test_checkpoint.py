"""The journal of a watch, as it may lie in a bucket that others write to; and the release run between tasks."""

from __future__ import annotations

import json
from typing import Any

import pytest
from slipway.metrics.prometheus_series import parse_answer
from slipway.release_run import ReleaseRun
from slipway.traffic.checkpoint import CanaryJournal, WatchState

from include.model_release.errors import MetricsUnavailableError, UserError
from include.model_release.json_source import parse_json
from include.model_release.metrics.samples import Counters, Reading
from include.model_release.record.events import PendingEvent
from include.model_release.record.kinds import StageStarted, UnknownEvent

AT = "2026-01-02T03:04:05+00:00"
STATE = WatchState(
    "w",
    "{}",
    4.0,
    [PendingEvent.now(StageStarted(stage="canary")), PendingEvent.now(UnknownEvent("x", {"y": 1}))],
    {"a": Reading.of(100.0, {"s": Counters(10, 1, {1.0: 10})})},
)


class Store:
    """A store that holds one object."""

    def __init__(self, content: bytes) -> None:
        self.content = content

    def read_json(self, key: str) -> Any:
        return parse_json(self.content, key)


def loaded(content: bytes) -> WatchState | None:
    return CanaryJournal(Store(content), "journal.json").load()  # type: ignore[arg-type]


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
        json.dumps({**STATE.to_dict(), "events": [7]}).encode(),
        json.dumps({**STATE.to_dict(), "events": [{"kind": "promoted", "at": "now", "data": {}}]}).encode(),
        json.dumps({**STATE.to_dict(), "events": [{"kind": [], "at": AT, "data": {}}]}).encode(),
        json.dumps({**STATE.to_dict(), "events": [{"kind": "promoted", "at": AT, "data": {}}]}).encode(),
    ],
)
def test_a_journal_that_cannot_be_read_is_none(content: bytes) -> None:
    """The step is watched anew: nothing in the bucket can end a watch, or let its time have passed."""
    assert loaded(content) is None


@pytest.mark.parametrize("rendered", ["", "}", "null", "{}", {}, {"release_id": float("nan")}, "[" * 100_000])
def test_a_release_run_that_is_none_is_a_user_error(rendered: Any) -> None:
    """A task that was given something else says so in the project's words."""
    with pytest.raises(UserError, match="no admitted release"):
        ReleaseRun.parse(rendered)


@pytest.mark.parametrize(
    "answer",
    [b'{"status":"success","warnings":1}', b'{"status":"success","warnings":{"a":1}}', b"[" * 100_000],
)
def test_an_answer_with_strange_warnings_is_no_answer(answer: bytes) -> None:
    """Warnings that are no list are warnings all the same; brackets alone are no answer."""
    with pytest.raises(MetricsUnavailableError):
        parse_answer(answer, "the Prometheus")
