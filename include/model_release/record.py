"""The record of a release: append-only events, folded to what is known about it.

    s3://BUCKET/records/MODEL/VERSION/SEQ-EVENT.json

A step first writes what it intends, acts, and writes what it saw; a task that died is run again and reads
here how far it came. So the same event may be written twice, a task may have been started often, and a
release may have been attempted before under another release id: the fold takes all this, and refuses only
what would make its answer wrong, a missing event.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from include.model_release.release_event import (
    KINDS,
    OUTCOMES,
    Event,
    EventWriter,
    Outcome,
    RecordError,
    event_key,
    parse_event_key,
)

__all__ = [
    "KINDS",
    "Event",
    "EventWriter",
    "Outcome",
    "RecordError",
    "ReleaseState",
    "Stage",
    "StepResult",
    "event_key",
    "fold",
    "parse_event_key",
    "release_report",
]


@dataclass(frozen=True)
class Stage:
    """One stage of an attempt. `outcome` is `running` until it is over; `seconds` counts from its first
    start.
    """

    name: str
    outcome: str
    seconds: float | None
    started_at: datetime | None = None
    reason: str | None = None


@dataclass(frozen=True)
class StepResult:
    """One finished step of the canary; counts and seconds are the step's own."""

    weight: int
    verdict: str
    candidate_requests: int
    candidate_errors: int
    seconds: float
    reason: str = ""


@dataclass(frozen=True)
class ReleaseState:
    """What the record says about the newest attempt to release a version."""

    model: str
    version: int
    release_id: str
    attempts: int = 1
    outcome: Outcome = "open"
    refused_by: str | None = None
    reason: str | None = None
    started_at: datetime | None = None
    finished_at: datetime | None = None
    stages: tuple[Stage, ...] = ()
    canary: tuple[StepResult, ...] = ()
    stable_storage_uri: str | None = None
    storage_uri: str | None = None
    weight: int | None = None
    intended_weight: int | None = None
    rolling_back: bool = False
    rollback_phase: str | None = None
    first_bad_at: datetime | None = None
    weight_0_at: datetime | None = None
    candidate_requests: int | None = None
    candidate_errors: int | None = None
    last_seq: int = 0
    last_at: datetime | None = None
    strays: int = 0

    @property
    def seconds(self) -> float | None:
        """Seconds from the start of the attempt to its end, or to its last event while it is open."""
        end = self.finished_at or self.last_at
        return None if self.started_at is None or end is None else (end - self.started_at).total_seconds()

    @property
    def bad_requests_before_rollback(self) -> int | None:
        """Errors that the candidate gave from the canary's start until weight 0 was seen; None without a
        rollback.
        """
        return self.candidate_errors if self.outcome == "rolled_back" else None

    @property
    def seconds_from_first_bad_answer_to_weight_0(self) -> float | None:
        """How long users could meet the fault; None where no bad answer was seen or no rollback took place.

        Both times were observed by a scrape, so each is late by up to one scrape interval.
        """
        if self.outcome != "rolled_back" or self.first_bad_at is None or self.weight_0_at is None:
            return None
        return max((self.weight_0_at - self.first_bad_at).total_seconds(), 0.0)

    @property
    def next_seq(self) -> int:
        """The number that the next event takes."""
        return self.last_seq + 1


def fold(events: Iterable[Event]) -> ReleaseState:
    """Return the state that `events` (any order, copies allowed) of one version add up to.

    A `release_started` under another release id, or after the end, begins a new attempt; events of an older
    attempt that come late are counted as strays and change nothing. Unknown kinds are ignored. Raises
    RecordError where there are no events, where one is missing in the count, and where two that claim the
    same place differ.
    """
    ordered = _ordered(events)
    first = ordered[0]
    state = ReleaseState(model=first.model, version=first.version, release_id=first.release_id)
    begun = False
    for event in ordered:
        if event.kind == "release_started":
            state, begun = _begin(state, event, begun), True
        elif event.release_id != state.release_id:
            state = replace(state, strays=state.strays + 1)
        elif event.kind in _APPLY:
            state = _APPLY[event.kind](state, event)
        state = replace(state, last_seq=event.seq, last_at=max(state.last_at or event.at, event.at))
    return state


def release_report(state: ReleaseState) -> dict[str, Any]:
    """Return the entry of `report.json` for one release, JSON-ready."""
    return {
        "model": state.model,
        "version": state.version,
        "outcome": state.outcome,
        "refused_by": state.refused_by,
        "reason": state.reason,
        "seconds": _rounded(state.seconds),
        "stages": [
            {"name": stage.name, "outcome": stage.outcome, "seconds": _rounded(stage.seconds)}
            for stage in state.stages
        ],
        "canary": {
            "steps": [
                {
                    "weight": step.weight,
                    "verdict": step.verdict,
                    "candidate_requests": step.candidate_requests,
                    "candidate_errors": step.candidate_errors,
                    "seconds": _rounded(step.seconds),
                }
                for step in state.canary
            ],
            "bad_requests_before_rollback": state.bad_requests_before_rollback,
            "seconds_from_first_bad_answer_to_weight_0": _rounded(
                state.seconds_from_first_bad_answer_to_weight_0
            ),
        },
    }


# --- the fold, event by event ---


def _ordered(events: Iterable[Event]) -> list[Event]:
    by_id: dict[tuple[int, str], Event] = {}
    for event in events:
        known = by_id.setdefault(event.event_id, event)
        if known != event:
            raise RecordError(
                f"two events claim to be number {event.seq} ({event.kind}) of {event.model} {event.version}",
                expected="one event, or copies of one",
                found=f"release ids {known.release_id!r} and {event.release_id!r}, or other data",
                remedy="keep the one that was written first",
            )
    if not by_id:
        raise RecordError(
            "the record is empty", expected="at least the event release_started", found="no event"
        )
    ordered = sorted(by_id.values(), key=lambda event: (event.seq, event.at, event.kind))
    _check_complete(ordered)
    return ordered


def _check_complete(ordered: list[Event]) -> None:
    about = {(event.model, event.version) for event in ordered}
    if len(about) > 1:
        raise RecordError(
            "events of several versions were folded together",
            expected="events of one version of one model",
            found=", ".join(f"{model} {version}" for model, version in sorted(about)),
        )
    numbers = {event.seq for event in ordered}
    missing = sorted(set(range(1, ordered[-1].seq + 1)) - numbers)
    if missing:
        shown = ", ".join(map(str, missing[:5])) + (", …" if len(missing) > 5 else "")
        raise RecordError(
            f"the record of {ordered[0].model} {ordered[0].version} has gaps",
            expected=f"every number from 1 to {ordered[-1].seq}",
            found=f"no event {shown}",
            remedy="list the record again; a store that loses events cannot be released from",
        )


def _begin(state: ReleaseState, event: Event, begun: bool) -> ReleaseState:
    if begun and event.release_id == state.release_id and state.outcome == "open":
        return state  # The same attempt: its first task was run again.
    return ReleaseState(
        model=event.model,
        version=event.version,
        release_id=event.release_id,
        attempts=state.attempts + 1 if begun else 1,
        started_at=event.at,
        stable_storage_uri=event.data.get("stable_storage_uri"),
        strays=state.strays,
    )


def _stage_started(state: ReleaseState, event: Event) -> ReleaseState:
    name = str(event.data.get("stage", ""))
    known = next((stage for stage in state.stages if stage.name == name), None)
    begun = known.started_at if known is not None else event.at
    return _with_stage(state, Stage(name, "running", None, begun))


def _stage_finished(state: ReleaseState, event: Event) -> ReleaseState:
    name, outcome = str(event.data.get("stage", "")), str(event.data.get("outcome", "passed"))
    known = next((stage for stage in state.stages if stage.name == name), None)
    begun = known.started_at if known is not None else None
    seconds = None if begun is None else max((event.at - begun).total_seconds(), 0.0)
    state = _with_stage(state, Stage(name, outcome, seconds, begun, event.data.get("reason")))
    if outcome in ("refused", "failed") and state.reason is None:
        state = replace(state, reason=event.data.get("reason"))
    if outcome == "refused" and state.refused_by is None:
        state = replace(state, refused_by=name)
    return state


def _with_stage(state: ReleaseState, stage: Stage) -> ReleaseState:
    if any(known.name == stage.name for known in state.stages):
        stages = tuple(stage if known.name == stage.name else known for known in state.stages)
    else:
        stages = (*state.stages, stage)
    return replace(state, stages=stages)


def _weight_intended(state: ReleaseState, event: Event) -> ReleaseState:
    return replace(
        state,
        intended_weight=event.data.get("weight"),
        storage_uri=event.data.get("storage_uri") or state.storage_uri,
        stable_storage_uri=event.data.get("stable_storage_uri") or state.stable_storage_uri,
    )


def _weight_observed(state: ReleaseState, event: Event) -> ReleaseState:
    weight = event.data.get("weight")
    if state.rolling_back and weight == 0 and state.weight_0_at is None:
        state = replace(state, weight_0_at=event.at)
    return replace(state, weight=weight)


def _window_judged(state: ReleaseState, event: Event) -> ReleaseState:
    return replace(
        state,
        first_bad_at=state.first_bad_at or _time(event.data.get("first_bad_at")),
        candidate_requests=_newer(event.data.get("candidate_requests"), state.candidate_requests),
        candidate_errors=_newer(event.data.get("candidate_errors"), state.candidate_errors),
    )


def _step_finished(state: ReleaseState, event: Event) -> ReleaseState:
    data = event.data
    step = StepResult(
        weight=int(data.get("weight", 0)),
        verdict=str(data.get("verdict", "inconclusive")),
        candidate_requests=int(data.get("candidate_requests", 0)),
        candidate_errors=int(data.get("candidate_errors", 0)),
        seconds=float(data.get("seconds", 0.0)),
        reason=str(data.get("reason") or ""),
    )
    # A task that died after writing this is run again and finishes the same step again: the last word counts.
    others = tuple(known for known in state.canary if known.weight != step.weight)
    return replace(state, canary=(*others, step))


def _rollback_started(state: ReleaseState, event: Event) -> ReleaseState:
    if state.rolling_back:
        return state
    return replace(
        state,
        rolling_back=True,
        reason=event.data.get("reason") or state.reason,
        stable_storage_uri=event.data.get("stable_storage_uri") or state.stable_storage_uri,
    )


def _rollback_phase(state: ReleaseState, event: Event) -> ReleaseState:
    return replace(state, rolling_back=True, rollback_phase=event.data.get("phase"))


def _rolled_back(state: ReleaseState, event: Event) -> ReleaseState:
    return replace(
        state,
        outcome="rolled_back",
        weight=0,
        rolling_back=False,
        rollback_phase="done",
        stable_storage_uri=event.data.get("stable_storage_uri") or state.stable_storage_uri,
        first_bad_at=state.first_bad_at or _time(event.data.get("first_bad_at")),
        weight_0_at=_time(event.data.get("weight_0_at")) or state.weight_0_at,
        candidate_requests=_newer(event.data.get("candidate_requests"), state.candidate_requests),
        candidate_errors=_newer(event.data.get("candidate_errors"), state.candidate_errors),
        finished_at=event.at,
    )


def _promoted(state: ReleaseState, event: Event) -> ReleaseState:
    uri = event.data.get("storage_uri") or state.storage_uri
    return replace(state, outcome="promoted", weight=100, storage_uri=uri, finished_at=event.at)


def _release_finished(state: ReleaseState, event: Event) -> ReleaseState:
    told = event.data.get("outcome")
    # What became of the traffic outweighs what became of the workflow: a rolled back release stays rolled
    # back.
    settled = state.outcome in ("rolled_back", "promoted")
    named: Outcome = next((known for known in OUTCOMES if known == told), "failed")
    outcome = state.outcome if settled else named
    return replace(
        state,
        outcome=outcome,
        refused_by=event.data.get("refused_by") or state.refused_by,
        reason=event.data.get("reason") or state.reason,
        finished_at=event.at,
    )


_APPLY = {
    "stage_started": _stage_started,
    "stage_finished": _stage_finished,
    "weight_intended": _weight_intended,
    "weight_observed": _weight_observed,
    "window_judged": _window_judged,
    "step_finished": _step_finished,
    "rollback_started": _rollback_started,
    "rollback_phase": _rollback_phase,
    "rolled_back": _rolled_back,
    "promoted": _promoted,
    "release_finished": _release_finished,
}


def _newer(value: int | None, known: int | None) -> int | None:
    return known if value is None else value


def _time(value: str | None) -> datetime | None:
    return None if value is None else datetime.fromisoformat(value).astimezone(UTC)


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 3)
