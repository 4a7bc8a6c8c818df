"""The document of a model, folded: a line from the record of each version, and what all lines together tell.

A line is made of one record alone, so that a version can be brought up to date without the others: what comes of one
after another is what comes of all at once. A line that is newer by its last event wins.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from slipway_core.operations.live_history import (
    LiveHistory,
    LiveSeen,
    history_of,
    is_way_back,
    live_seen,
    version_of,
)
from slipway_core.read_model.documents import (
    CONTEXT_LINES,
    VERSIONS_LIMIT,
    ApprovalLine,
    FindingLine,
    FreezeLine,
    GateLine,
    LiveMark,
    ModelDocument,
    OpenRelease,
    RejectionLine,
    VersionLine,
)
from slipway_core.read_model.stored import cut
from slipway_core.record.events import OUTCOMES, Event, Outcome
from slipway_core.record.fold import fold
from slipway_core.record.kinds import RaiseHeld, ReleaseStarted, WeightIntended, WindowJudged
from slipway_core.record.stage_names import ASKED_BEFORE
from slipway_core.record.state import ReleaseState, Stage
from slipway_core.rollout.pods.drain import recorded_drain_summary

# More than a version has in practice; of more the last ones are kept.
_GATES, _APPROVALS, _MARKS, _WEIGHTS = 100, 100, 100, 100
_ADMITTED = Stage("admit", "passed", None)


@dataclass(frozen=True)
class ModelContext:
    """What lies beside the records of a model: pinned versions, freezes that have not ended, open findings."""

    pinned: frozenset[int] = frozenset()
    freezes: tuple[FreezeLine, ...] = ()
    findings: tuple[FindingLine, ...] = ()


def version_line(events: Sequence[Event], *, pinned: bool = False, files_gone: bool = False) -> VersionLine:
    """Return the line of a version.

    :param events: its whole record.
    :param pinned: a person wants to keep it.
    :param files_gone: retention has deleted its files.
    :raises RecordError: the record is empty, has gaps or cannot be right.
    """
    state, started = fold(events), last_started(events)
    rejection = state.rejection
    return VersionLine(
        model=state.model,
        version=state.version,
        release_id=cut(state.release_id),
        attempts=state.attempts,
        outcome=state.outcome,
        ended=_ended(state),
        refused_by=cut(state.refused_by),
        reason=cut(state.reason),
        triggered_by=cut(state.triggered_by),
        started_reason=cut(None if started is None else started.reason),
        landed_at=state.landed_at,
        started_at=state.started_at,
        finished_at=state.finished_at,
        gates=tuple(_gate(stage) for stage in state.stages[-_GATES:]),
        standing=state.standing,
        promoted_for=cut(state.promoted_for),
        rejection=None
        if rejection is None
        else RejectionLine(
            sentence=cut(rejection.sentence),
            at=rejection.at,
            by=cut(rejection.by),
            stage=cut(rejection.stage),
        ),
        rejected_only=started is None,
        pinned=pinned,
        approvals=tuple(
            ApprovalLine(before=cut(one.before), by=cut(one.by), at=one.at)
            for one in state.approvals[-_APPROVALS:]
        ),
        rolled_back_by=cut(state.rolled_back_by),
        rolling_back=state.rolling_back,
        candidate_requests=_count(state.candidate_requests),
        candidate_errors=_count(state.candidate_errors),
        rollback_started_at=state.rollback_started_at,
        first_bad_at=state.first_bad_at,
        weight_0_at=state.weight_0_at,
        drained=cut(recorded_drain_summary(state.drained, state.drain_seconds, state.open_requests)),
        weights=() if state.required is None else state.required.weights[:_WEIGHTS],
        last_seq=state.last_seq,
        last_at=state.last_at,
        files_gone=files_gone,
        live_marks=tuple(
            LiveMark(at=one.at, seq=one.seq, version=one.version)
            for one in live_seen(state.model, sorted(events, key=lambda event: event.seq))[-_MARKS:]
        ),
    )


def open_release(events: Sequence[Event]) -> OpenRelease | None:
    """Return where the release stands that a record tells of; None if it is over, or never began.

    :param events: the whole record of the version.
    :raises RecordError: the record is empty, has gaps or cannot be right.
    """
    state, started = fold(events), last_started(events)
    if started is None or state.outcome != "open":
        return None
    weights = () if state.required is None else state.required.weights[:_WEIGHTS]
    running = [stage for stage in state.stages if stage.outcome == "running"]
    asked = next((stage for stage in running if stage.name in ASKED_BEFORE), None)
    held = held_by(events, state)
    return OpenRelease(
        version=state.version,
        release_id=cut(state.release_id),
        stage=cut((running or [*state.stages] or [_ADMITTED])[-1].name),
        step=weights.index(state.intended_weight) + 1 if state.intended_weight in weights else 0,
        steps=len(weights),
        weights=weights,
        weight_intended=state.intended_weight,
        weight_observed=state.weight,
        verdict=last_status(events, state.release_id),
        held=cut(state.held),
        held_since=held[0].at if held else None,
        held_until=held[-1].data.until if held and isinstance(held[-1].data, RaiseHeld) else None,
        waits_for_approval="" if asked is None else ASKED_BEFORE[asked.name],
        waits_since=None if asked is None else asked.started_at,
        triggered_by=cut(state.triggered_by),
        stable_version=version_of(state.model, state.stable_storage_uri),
        rolling_back=state.rolling_back,
        is_rollback=is_way_back(started),
        started_at=state.started_at,
        updated_at=state.last_at,
    )


def unreadable_line(model: str, version: int, reason: str) -> VersionLine:
    """Return the line of a version whose record cannot be folded; `reason` says why."""
    return VersionLine(
        model=model,
        version=version,
        release_id="",
        outcome="failed",
        reason=cut(f"its record cannot be read: {reason}"),
        unreadable=cut(reason) or "it cannot be read",
    )


def model_document(
    model: str,
    lines: Iterable[VersionLine],
    *,
    open_now: Iterable[OpenRelease | None],
    context: ModelContext,
    written_at: datetime,
) -> ModelDocument:
    """Return the document that a model's lines come to.

    :param lines: of its versions, in any order, one for each.
    :param open_now: where releases stand of which one may be under way.
    """
    known = sorted(lines, key=lambda line: line.version, reverse=True)
    history = history_of(
        LiveSeen(mark.at, mark.seq, mark.version) for line in known for mark in line.live_marks
    )
    kept = [
        line.model_copy(update={"pinned": line.version in context.pinned}) for line in _kept(known, history)
    ]
    live = next((line for line in kept if line.version == history.live), None)
    over = [line for line in kept if line.finished_at is not None and line.outcome != "open"]
    newest = open_version(kept)
    return ModelDocument(
        model=model,
        written_at=written_at,
        live_version=history.live,
        live_since=history.since,
        live_promoted_for="" if live is None else live.promoted_for,
        live_approved_by=() if live is None else tuple(one.by for one in live.approvals),
        previous_version=history.before,
        versions=tuple(kept),
        open_release=next((one for one in open_now if one is not None and one.version == newest), None),
        last=max(over, key=lambda line: (line.finished_at, line.version), default=None),
        freezes=context.freezes[:CONTEXT_LINES],
        findings=context.findings[:CONTEXT_LINES],
    )


def updated(
    document: ModelDocument | None,
    line: VersionLine,
    *,
    open_now: OpenRelease | None,
    context: ModelContext,
    written_at: datetime,
) -> ModelDocument:
    """Return the document with a version's line brought up to date.

    :param document: as it was; None: there was none.
    :param line: of the version, from its whole record; it loses against one that has seen more events.
    :param open_now: where the version's release stands; None if it is over.
    """
    lines = {} if document is None else {one.version: one for one in document.versions}
    known = lines.get(line.version)
    files_gone = line.files_gone or (known is not None and known.files_gone)
    if known is not None and known.last_seq > line.last_seq:
        line, open_now = known, None
    lines[line.version] = line.model_copy(update={"files_gone": files_gone})
    before = None if document is None else document.open_release
    return model_document(
        line.model, lines.values(), open_now=(open_now, before), context=context, written_at=written_at
    )


def context_of(document: ModelDocument) -> ModelContext:
    """Return what lies beside the records as a document has it."""
    pinned = frozenset(line.version for line in document.versions if line.pinned)
    return ModelContext(pinned, document.freezes, document.findings)


def open_version(lines: Iterable[VersionLine]) -> int | None:
    """Return the version whose release is under way: the one that began last, unless it is over; None: there is none.

    A model has one release at a time. One that began before another and was never concluded has died.
    """
    begun = [line for line in lines if line.started_at is not None]
    newest = max(begun, key=lambda line: (line.started_at, line.version), default=None)
    return newest.version if newest is not None and newest.outcome == "open" else None


def last_started(events: Iterable[Event]) -> ReleaseStarted | None:
    """Return how the newest attempt began; None if none ever did."""
    ordered = sorted(events, key=lambda event: event.seq, reverse=True)
    return next((event.data for event in ordered if isinstance(event.data, ReleaseStarted)), None)


def last_status(events: Iterable[Event], release_id: str) -> str:
    """Return the status of the judge's last verdict of a release; "" if there is none."""
    judged = [
        event for event in events if event.release_id == release_id and isinstance(event.data, WindowJudged)
    ]
    newest = max(judged, key=lambda event: event.seq, default=None)
    status = (
        newest.data.verdict.get("status")
        if newest is not None and isinstance(newest.data, WindowJudged)
        else ""
    )
    return cut(status) if isinstance(status, str) else ""


def held_by(events: Iterable[Event], state: ReleaseState) -> list[Event]:
    """Return the events that tell what holds the next raise, in their order; none where nothing does."""
    held: list[Event] = []
    for event in sorted(events, key=lambda event: event.seq):
        if event.release_id == state.release_id and isinstance(event.data, WeightIntended | ReleaseStarted):
            held = []
        elif event.release_id == state.release_id and isinstance(event.data, RaiseHeld):
            held.append(event)
    return held if state.held else []


def _kept(lines: Sequence[VersionLine], history: LiveHistory) -> list[VersionLine]:
    """Return the lines that a document holds, of those that are newest first."""
    needed = (history.live, history.before)
    return [line for place, line in enumerate(lines) if place < VERSIONS_LIMIT or line.version in needed]


def _gate(stage: Stage) -> GateLine:
    return GateLine(
        stage=cut(stage.name),
        outcome=cut(stage.outcome),
        reason=cut(stage.reason),
        seconds=stage.seconds,
        started_at=stage.started_at,
    )


def _ended(state: ReleaseState) -> dict[Outcome, int]:
    """Return how many attempts ended with which outcome; one that never ended is not counted."""
    counted = Counter((*state.earlier, state.outcome))
    return {outcome: counted[outcome] for outcome in OUTCOMES if outcome != "open" and counted[outcome]}


def _count(value: int | None) -> int | None:
    return None if value is None else min(max(value, 0), 10**18)
