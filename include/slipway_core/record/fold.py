"""The record of a release: append-only events, folded to what is known about it.

    s3://BUCKET/records/MODEL/VERSION/SEQ-EVENT.json

A step first writes what it intends, acts, and writes what it saw. A task that died is run again, and reads here how far
it came. So the same event may be written twice, a task may have been started often, and a release may have been
attempted before under another release id. The fold takes all this. It refuses only what would make its answer wrong: a
missing event.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime
from functools import singledispatch
from itertools import pairwise

from slipway_core.record.events import OUTCOMES, Event, Outcome, RecordError
from slipway_core.record.kinds import (
    Approved,
    CandidateVerified,
    EventData,
    HoldOverridden,
    Promoted,
    RaiseHeld,
    ReleaseFinished,
    ReleaseStarted,
    RollbackPhase,
    RollbackStarted,
    RolledBack,
    StageFinished,
    StageStarted,
    StepFinished,
    VersionRejected,
    VersionUnrejected,
    WeightIntended,
    WeightObserved,
    WindowJudged,
)
from slipway_core.record.state import (
    ApprovalGiven,
    HoldOverride,
    Rejection,
    ReleaseState,
    Stage,
    StepResult,
)

# Outcomes of a stage that end the release.
_ENDS_BADLY = ("refused", "failed", "inconclusive")
# What a late task may still write after the end of its release; it proves nothing and promotes nothing any more.
_ONLY_WHILE_OPEN = (Approved, CandidateVerified, RaiseHeld, WeightIntended, StepFinished, Promoted)
# What a person writes in a run of their own: it is about the version, whatever became of its releases.
_BY_A_PERSON = (VersionRejected, VersionUnrejected, HoldOverridden)


def fold(events: Iterable[Event]) -> ReleaseState:
    """Return the state that the events of one version add up to.

    A `ReleaseStarted` under another release id, or after the end, begins a new attempt. Events of an older attempt that
    come late are counted as strays and change nothing. What a person says of the version always counts. Unknown kinds
    are ignored.

    :param events: in any order; there may be copies.
    :raises RecordError: there are no events, one is missing in the count, or two that claim the same place differ.
    """
    ordered = _ordered(events)
    first = ordered[0]
    state = ReleaseState(model=first.model, version=first.version, release_id=first.release_id)
    begun, last_at = False, first.at
    for event in ordered:
        data = event.data
        if isinstance(data, ReleaseStarted):
            if not begun or _begins_anew(state, event):
                state, last_at = _begin(state, event, data, begun), event.at
            begun = True
        elif isinstance(data, _BY_A_PERSON):
            state = _with_act_of_person(data, state, event)
        elif event.release_id != state.release_id or (
            state.outcome != "open" and isinstance(data, _ONLY_WHILE_OPEN)
        ):
            state = _stray(state)
        else:
            state = _applied(data, state, event.at)
        last_at = max(last_at, event.at)
    return replace(state, last_seq=ordered[-1].seq, last_at=last_at)


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
    missing = _gaps(ordered)
    if missing:
        raise RecordError(
            f"the record of {ordered[0].model} {ordered[0].version} has gaps",
            expected=f"every number from 1 to {ordered[-1].seq}",
            found=f"no event {missing}",
            remedy="list the record again; a store that loses events cannot be released from",
        )


def _gaps(ordered: list[Event]) -> str:
    """Return the first numbers that are missing, in words; "" if none is.

    The time it takes depends on how many events there are, not on how far their numbers lie apart.
    """
    gaps = [
        (before.seq + 1, after.seq - 1) for before, after in pairwise(ordered) if after.seq > before.seq + 1
    ]
    if ordered[0].seq > 1:
        gaps.insert(0, (1, ordered[0].seq - 1))
    shown = [str(first) if first == last else f"{first} to {last}" for first, last in gaps[:5]]
    return ", ".join([*shown, "…"] if len(gaps) > 5 else shown)


def _begins_anew(state: ReleaseState, event: Event) -> bool:
    """Whether this is another attempt, and not the first task of this one, which was run again."""
    return event.release_id != state.release_id or state.outcome != "open"


def _begin(state: ReleaseState, event: Event, data: ReleaseStarted, begun: bool) -> ReleaseState:
    """Return the state at the beginning of an attempt; what users know of the version outlasts its attempts."""
    return ReleaseState(
        model=event.model,
        version=event.version,
        release_id=event.release_id,
        attempts=state.attempts + 1 if begun else 1,
        earlier=(*state.earlier, state.outcome) if begun else (),
        landed_at=data.landed_at,
        started_at=event.at,
        stable_storage_uri=data.stable_storage_uri,
        triggered_by=data.triggered_by,
        required=data.required,
        admitted=data.admitted,
        standing=state.standing,
        promoted_sha256=state.promoted_sha256,
        promoted_for=state.promoted_for if state.standing == "promoted" else None,
        rejection=state.rejection,
        overrides=state.overrides,
        strays=state.strays,
    )


def _with_act_of_person(data: EventData, state: ReleaseState, event: Event) -> ReleaseState:
    """Return the state after what a person said of the version. A rejection is lifted only where it was seen."""
    match data:
        case VersionRejected():
            people = dict.fromkeys(who for who in (state.triggered_by, state.promoted_for) if who)
            found = Rejection(event.seq, event.at, data.reason, data.by, data.stage, tuple(people))
            return replace(state, rejection=found)
        case VersionUnrejected() if state.rejection is not None and state.rejection.seq <= data.rejection_seq:
            return replace(state, rejection=None)
        case HoldOverridden():
            given = HoldOverride(data.by, data.reason, data.hold_sha256, event.at)
            return replace(state, overrides=(*state.overrides, given))
        case _:
            return state


@singledispatch
def _applied(data: EventData, state: ReleaseState, at: datetime) -> ReleaseState:
    """Return the state after an event of the attempt that counts; one of an unknown kind changes nothing."""
    return state


@_applied.register
def _stage_started(data: StageStarted, state: ReleaseState, at: datetime) -> ReleaseState:
    known = next((stage for stage in state.stages if stage.name == data.stage), None)
    begun = known.started_at if known is not None else at
    return _with_stage(state, Stage(data.stage, "running", None, begun))


@_applied.register
def _stage_finished(data: StageFinished, state: ReleaseState, at: datetime) -> ReleaseState:
    known = next((stage for stage in state.stages if stage.name == data.stage), None)
    begun = known.started_at if known is not None else None
    seconds = None if begun is None else max((at - begun).total_seconds(), 0.0)
    finished = Stage(data.stage, data.outcome, seconds, begun, data.reason, data.manifest_sha256)
    state = _with_stage(state, finished)
    if data.outcome in _ENDS_BADLY and state.reason is None:
        state = replace(state, reason=data.reason)
    if data.outcome == "refused" and state.refused_by is None:
        state = replace(state, refused_by=data.stage)
    return state


def _with_stage(state: ReleaseState, stage: Stage) -> ReleaseState:
    if any(known.name == stage.name for known in state.stages):
        stages = tuple(stage if known.name == stage.name else known for known in state.stages)
    else:
        stages = (*state.stages, stage)
    return replace(state, stages=stages)


@_applied.register
def _approved(data: Approved, state: ReleaseState, at: datetime) -> ReleaseState:
    given = ApprovalGiven(before=data.before, by=data.by, manifest_sha256=data.manifest_sha256, at=at)
    return replace(state, approvals=(*state.approvals, given))


@_applied.register
def _candidate_verified(data: CandidateVerified, state: ReleaseState, at: datetime) -> ReleaseState:
    return replace(state, verified_sha256=data.manifest_sha256)


@_applied.register
def _weight_intended(data: WeightIntended, state: ReleaseState, at: datetime) -> ReleaseState:
    return replace(
        state,
        intended_weight=data.weight,
        held="",
        exposed=state.exposed or data.weight > 0,
        # A step that begins again proves itself again, and so does what comes after it.
        canary=tuple(step for step in state.canary if step.weight < data.weight),
        storage_uri=data.storage_uri or state.storage_uri,
        stable_storage_uri=data.stable_storage_uri or state.stable_storage_uri,
    )


@_applied.register
def _raise_held(data: RaiseHeld, state: ReleaseState, at: datetime) -> ReleaseState:
    return replace(state, held=data.hold)


@_applied.register
def _weight_observed(data: WeightObserved, state: ReleaseState, at: datetime) -> ReleaseState:
    if state.rolling_back and data.weight == 0 and state.weight_0_at is None:
        state = replace(state, weight_0_at=at)
    return replace(state, weight=data.weight)


@_applied.register
def _window_judged(data: WindowJudged, state: ReleaseState, at: datetime) -> ReleaseState:
    return replace(
        state,
        first_bad_at=state.first_bad_at or data.first_bad_at,
        candidate_requests=data.candidate_requests,
        candidate_errors=data.candidate_errors,
    )


@_applied.register
def _step_finished(data: StepFinished, state: ReleaseState, at: datetime) -> ReleaseState:
    step = StepResult(
        weight=data.weight,
        verdict=data.verdict,
        candidate_requests=data.candidate_requests,
        candidate_errors=data.candidate_errors,
        seconds=data.seconds,
        reason=data.reason,
    )
    # A task that died after writing this is run again and finishes the same step again: the last word counts.
    others = tuple(known for known in state.canary if known.weight != step.weight)
    return replace(state, canary=(*others, step))


@_applied.register
def _rollback_started(data: RollbackStarted, state: ReleaseState, at: datetime) -> ReleaseState:
    if state.rolling_back:
        return state
    return replace(
        state,
        rolling_back=True,
        rolled_back_by=data.by,
        rollback_started_at=at,
        reason=data.reason or state.reason,
        stable_storage_uri=data.stable_storage_uri or state.stable_storage_uri,
    )


@_applied.register
def _rollback_phase(data: RollbackPhase, state: ReleaseState, at: datetime) -> ReleaseState:
    return replace(state, rolling_back=True, rollback_phase=data.phase)


@_applied.register
def _rolled_back(data: RolledBack, state: ReleaseState, at: datetime) -> ReleaseState:
    state = replace(
        state,
        weight=0,
        rolling_back=False,
        rollback_phase="done",
        stable_storage_uri=data.stable_storage_uri or state.stable_storage_uri,
        first_bad_at=state.first_bad_at or data.first_bad_at,
        weight_0_at=data.weight_0_at or state.weight_0_at,
        drained=data.drained,
        drain_seconds=data.drain_seconds,
        open_requests=data.open_requests,
        candidate_requests=_newer(data.candidate_requests, state.candidate_requests),
        candidate_errors=_newer(data.candidate_errors, state.candidate_errors),
    )
    if state.intended_weight == 0 and not state.exposed:
        # A preview was taken away, which no user has met: how the release ends is said by what ended it.
        return state
    return replace(state, outcome="rolled_back", standing="rolled_back", finished_at=at)


@_applied.register
def _promoted(data: Promoted, state: ReleaseState, at: datetime) -> ReleaseState:
    if state.rolling_back:
        return _stray(state)
    return replace(
        state,
        outcome="promoted",
        weight=100,
        held="",
        storage_uri=data.storage_uri or state.storage_uri,
        standing="promoted",
        promoted_sha256=data.manifest_sha256 or "",
        promoted_for=state.triggered_by,
        finished_at=at,
    )


@_applied.register
def _release_finished(data: ReleaseFinished, state: ReleaseState, at: datetime) -> ReleaseState:
    # What became of the traffic outweighs what became of the workflow: a rolled back release stays rolled back.
    settled = state.outcome in ("rolled_back", "promoted")
    named: Outcome = next((known for known in OUTCOMES if known == data.outcome), "failed")
    outcome = state.outcome if settled else named
    return replace(
        state,
        outcome=outcome,
        refused_by=data.refused_by or state.refused_by,
        reason=data.reason or state.reason,
        finished_at=at,
    )


def _stray(state: ReleaseState) -> ReleaseState:
    return replace(state, strays=state.strays + 1)


def _newer(value: int | None, known: int | None) -> int | None:
    return known if value is None else value
