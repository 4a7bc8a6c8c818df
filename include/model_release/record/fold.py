"""The record of a release: append-only events, folded to what is known about it.

    s3://BUCKET/records/MODEL/VERSION/SEQ-EVENT.json

A step first writes what it intends, acts, and writes what it saw; a task that died is run again and reads
here how far it came. So the same event may be written twice, a task may have been started often, and a
release may have been attempted before under another release id: the fold takes all this, and refuses only
what would make its answer wrong, a missing event.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from itertools import pairwise

from include.model_release.record.events import (
    KINDS,
    OUTCOMES,
    Event,
    EventWriter,
    Outcome,
    RecordError,
    event_key,
    parse_event_key,
)
from include.model_release.record.requirements import Requirements
from include.model_release.record.state import (
    ApprovalGiven,
    ReleaseState,
    Stage,
    StepResult,
    release_report,
)

__all__ = [
    "KINDS",
    "ApprovalGiven",
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
        elif event.release_id != state.release_id or (
            event.kind in _ONLY_WHILE_OPEN and state.outcome != "open"
        ):
            state = _stray(state)
        elif event.kind in _APPLY:
            state = _APPLY[event.kind](state, event)
        state = replace(state, last_seq=event.seq, last_at=max(state.last_at or event.at, event.at))
    return state


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
    """Return the first numbers that are missing, in words; "" where none is. It costs as much as there are events."""
    gaps = [
        (before.seq + 1, after.seq - 1) for before, after in pairwise(ordered) if after.seq > before.seq + 1
    ]
    if ordered[0].seq > 1:
        gaps.insert(0, (1, ordered[0].seq - 1))
    shown = [str(first) if first == last else f"{first} to {last}" for first, last in gaps[:5]]
    return ", ".join([*shown, "…"] if len(gaps) > 5 else shown)


def _begin(state: ReleaseState, event: Event, begun: bool) -> ReleaseState:
    if begun and event.release_id == state.release_id and state.outcome == "open":
        return state  # The same attempt: its first task was run again.
    return ReleaseState(
        model=event.model,
        version=event.version,
        release_id=event.release_id,
        attempts=state.attempts + 1 if begun else 1,
        started_at=event.at,
        stable_storage_uri=event.text("stable_storage_uri"),
        triggered_by=event.text("triggered_by"),
        required=_required(event),
        standing=state.standing,
        promoted_sha256=state.promoted_sha256,
        strays=state.strays,
    )


def _required(event: Event) -> Requirements | None:
    told = event.mapping("required")
    if told is None:
        return None
    try:
        return Requirements.from_dict(told)
    except ValueError as error:
        raise RecordError(
            f"{event.key} cannot be right: `required`",
            expected="what a release must prove",
            found=str(error),
            remedy="look at the object; nobody but Slipway should write under records/",
        ) from error


def _stage_started(state: ReleaseState, event: Event) -> ReleaseState:
    name = event.text("stage") or ""
    known = next((stage for stage in state.stages if stage.name == name), None)
    begun = known.started_at if known is not None else event.at
    return _with_stage(state, Stage(name, "running", None, begun))


def _stage_finished(state: ReleaseState, event: Event) -> ReleaseState:
    name, outcome = event.text("stage") or "", event.text("outcome") or "passed"
    reason = event.text("reason")
    known = next((stage for stage in state.stages if stage.name == name), None)
    begun = known.started_at if known is not None else None
    seconds = None if begun is None else max((event.at - begun).total_seconds(), 0.0)
    finished = Stage(name, outcome, seconds, begun, reason, event.text("manifest_sha256"))
    state = _with_stage(state, finished)
    if outcome in _ENDS_BADLY and state.reason is None:
        state = replace(state, reason=reason)
    if outcome == "refused" and state.refused_by is None:
        state = replace(state, refused_by=name)
    return state


def _with_stage(state: ReleaseState, stage: Stage) -> ReleaseState:
    if any(known.name == stage.name for known in state.stages):
        stages = tuple(stage if known.name == stage.name else known for known in state.stages)
    else:
        stages = (*state.stages, stage)
    return replace(state, stages=stages)


def _approved(state: ReleaseState, event: Event) -> ReleaseState:
    given = ApprovalGiven(
        before=event.text("before") or "",
        by=event.text("by") or "",
        manifest_sha256=event.text("manifest_sha256") or "",
        at=event.at,
    )
    return replace(state, approvals=(*state.approvals, given))


def _candidate_verified(state: ReleaseState, event: Event) -> ReleaseState:
    return replace(state, verified_sha256=event.text("manifest_sha256") or "")


def _weight_intended(state: ReleaseState, event: Event) -> ReleaseState:
    weight = event.percent("weight")
    return replace(
        state,
        intended_weight=weight,
        exposed=state.exposed or weight > 0,
        # A step that begins anew proves itself anew, and so does what comes after it.
        canary=tuple(step for step in state.canary if step.weight < weight),
        storage_uri=event.text("storage_uri") or state.storage_uri,
        stable_storage_uri=event.text("stable_storage_uri") or state.stable_storage_uri,
    )


def _weight_observed(state: ReleaseState, event: Event) -> ReleaseState:
    weight = event.percent("weight")
    if state.rolling_back and weight == 0 and state.weight_0_at is None:
        state = replace(state, weight_0_at=event.at)
    return replace(state, weight=weight)


def _window_judged(state: ReleaseState, event: Event) -> ReleaseState:
    return replace(
        state,
        first_bad_at=state.first_bad_at or event.time("first_bad_at"),
        candidate_requests=_newer(event.whole("candidate_requests"), state.candidate_requests),
        candidate_errors=_newer(event.whole("candidate_errors"), state.candidate_errors),
    )


def _step_finished(state: ReleaseState, event: Event) -> ReleaseState:
    step = StepResult(
        weight=event.percent("weight"),
        verdict=event.text("verdict") or "inconclusive",
        candidate_requests=event.whole("candidate_requests") or 0,
        candidate_errors=event.whole("candidate_errors") or 0,
        seconds=event.number("seconds") or 0.0,
        reason=event.text("reason") or "",
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
        reason=event.text("reason") or state.reason,
        stable_storage_uri=event.text("stable_storage_uri") or state.stable_storage_uri,
    )


def _rollback_phase(state: ReleaseState, event: Event) -> ReleaseState:
    return replace(state, rolling_back=True, rollback_phase=event.text("phase"))


def _rolled_back(state: ReleaseState, event: Event) -> ReleaseState:
    state = replace(
        state,
        weight=0,
        rolling_back=False,
        rollback_phase="done",
        stable_storage_uri=event.text("stable_storage_uri") or state.stable_storage_uri,
        first_bad_at=state.first_bad_at or event.time("first_bad_at"),
        weight_0_at=event.time("weight_0_at") or state.weight_0_at,
        candidate_requests=_newer(event.whole("candidate_requests"), state.candidate_requests),
        candidate_errors=_newer(event.whole("candidate_errors"), state.candidate_errors),
    )
    if state.intended_weight == 0 and not state.exposed:
        # A preview was taken away, which no user has met: how the release ends is said by what ended it.
        return state
    return replace(state, outcome="rolled_back", standing="rolled_back", finished_at=event.at)


def _promoted(state: ReleaseState, event: Event) -> ReleaseState:
    if state.rolling_back:
        return _stray(state)
    return replace(
        state,
        outcome="promoted",
        weight=100,
        storage_uri=event.text("storage_uri") or state.storage_uri,
        standing="promoted",
        promoted_sha256=event.text("manifest_sha256") or "",
        finished_at=event.at,
    )


def _release_finished(state: ReleaseState, event: Event) -> ReleaseState:
    told = event.text("outcome")
    # What became of the traffic outweighs what became of the workflow: a rolled back release stays rolled
    # back.
    settled = state.outcome in ("rolled_back", "promoted")
    named: Outcome = next((known for known in OUTCOMES if known == told), "failed")
    outcome = state.outcome if settled else named
    return replace(
        state,
        outcome=outcome,
        refused_by=event.text("refused_by") or state.refused_by,
        reason=event.text("reason") or state.reason,
        finished_at=event.at,
    )


def _stray(state: ReleaseState) -> ReleaseState:
    return replace(state, strays=state.strays + 1)


# Outcomes of a stage that end the release.
_ENDS_BADLY = ("refused", "failed", "inconclusive")
# What a late task may still write after the end of its release; it proves nothing and promotes nothing any more.
_ONLY_WHILE_OPEN = frozenset(
    {"approved", "candidate_verified", "weight_intended", "step_finished", "promoted"}
)

_APPLY = {
    "stage_started": _stage_started,
    "stage_finished": _stage_finished,
    "approved": _approved,
    "candidate_verified": _candidate_verified,
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
