"""What a canary's judge reads: recordings of windows, its own saved state, and the journal of a watch."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from functools import cache
from typing import Any

from benchmarks.fuzz.documents import json_bytes, mutated_json
from benchmarks.fuzz.target import Target
from slipway.traffic.checkpoint import CanaryJournal, WatchState
from slipway_core.canary.judge import CanaryJudge
from slipway_core.canary.recordings import replay
from slipway_core.documents.json_source import parse_json
from slipway_core.errors import SlipwayError
from slipway_core.metrics.samples import Counters, Reading, Sample, Window
from slipway_core.record.events import PendingEvent
from slipway_core.record.kinds import RollbackStarted, WeightObserved
from slipway_core.spec.rollout.analysis import AnalysisPolicy

_WINDOW = Window(2.0, Sample(100, 1, {1.0: 60, 5.0: 40}), Sample(50, 0, {1.0: 30, 5.0: 20}))
_REPLAYED = Window(2.0, Sample(10, 0, {1.0: 10}), Sample(10, 1, {1.0: 10}), "replay")
_STREAMED = Window(2.0, Sample(10, 0, {1.0: 10}), Sample(10, 1, {1.0: 10}), "stream")
_RECORDING: tuple[list[Any], ...] = (
    [
        {"policy": AnalysisPolicy(latency_ceiling_ms=100, error_ceiling_percent=10).to_dict()},
        {"at": "x", "step": {"weight": 5, "bake_s": 4.0}},
        {"window": _WINDOW.to_dict()},
        {"no_data": "no answer"},
        {"window": _REPLAYED.to_dict()},
        {"window": _STREAMED.to_dict()},
    ],
)


@cache
def _states() -> tuple[Any, ...]:
    judge = CanaryJudge(AnalysisPolicy(latency_ceiling_ms=100))
    judge.begin_step(5, 4.0)
    judge.observe(_WINDOW)
    fresh = json.loads(judge.to_json())
    judge.observe(_REPLAYED)
    judge.observe(_STREAMED)
    judge.observe_failure("no answer")
    return fresh, json.loads(judge.to_json())


@cache
def _journals() -> tuple[Any, ...]:
    reading = Reading.of(100.0, {"s": Counters(10, 1, {1.0: 9, float("inf"): 1})})
    at = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    events = [
        PendingEvent(at, RollbackStarted(reason="errors", by="judge", stable_storage_uri="")),
        PendingEvent(at, WeightObserved(weight=5, traffic={})),
    ]
    return tuple(
        WatchState("w", json.dumps(state), 4.0, events, {"a": reading, "b": reading}).to_dict()
        for state in _states()
    )


def _read_recording(content: bytes) -> None:
    lines = content.decode("utf-8", "replace").split("\n")
    for _, verdict in replay(lines, "windows.jsonl"):
        json.dumps(verdict.to_dict())


def _lines(rng: Any, _: Any) -> bytes:
    lines = [json_bytes(line) for line in _RECORDING[0]]
    for _ in range(rng.randint(1, 2)):
        at = rng.randrange(len(lines))
        lines[at] = mutated_json(rng, [json.loads(json_bytes(_RECORDING[0][at]))])
    return b"\n".join(lines)


def _read_state(content: bytes) -> None:
    judge = CanaryJudge.from_json(content.decode("utf-8", "replace"))
    judge.standing()
    judge.observe(_WINDOW)
    judge.observe(_REPLAYED)
    json.dumps(judge.observe_failure("no_data").to_dict())
    judge.to_json()


class _Store:
    """One object; the journal's other end."""

    def __init__(self, content: bytes) -> None:
        self._content = content

    def read_json(self, _: str, *, most_bytes: int | None = None) -> Any:
        """As the real one reads."""
        return parse_json(self._content, "journal.json")


def _read_journal(content: bytes) -> None:
    """A journal that cannot be read is ignored; one that is taken over can be continued."""
    state = CanaryJournal(_Store(content), "journal.json").load()  # type: ignore[arg-type]
    if state is None:
        return
    json.dumps(state.to_dict())
    for reading in (state.readings or {}).values():
        reading.remembering(reading).totals()
    try:
        CanaryJudge.from_json(state.judge)
    except SlipwayError:
        return


TARGETS = (
    Target(
        "judge_recording",
        lambda: [b"\n".join(json_bytes(line) for line in _RECORDING[0])],
        _lines,
        _read_recording,
    ),
    Target(
        "judge_state",
        lambda: [json_bytes(state) for state in _states()],
        lambda rng, _: mutated_json(rng, _states()),
        _read_state,
    ),
    Target(
        "watch_journal",
        lambda: [json_bytes(journal) for journal in _journals()],
        lambda rng, _: mutated_json(rng, _journals()),
        _read_journal,
    ),
)
