"""A release as its page shows it: the line of its version, where it stands, its steps in order, and its log.

It is folded from the whole record of one version, when somebody asks for it; it is stored nowhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from slipway_core.operations.live_history import is_way_back, version_of
from slipway_core.read_model.documents import OpenRelease, VersionLine
from slipway_core.read_model.event_sentences import sentence_of
from slipway_core.read_model.model_fold import last_started, open_release, version_line
from slipway_core.read_model.steps import StepState, steps_of
from slipway_core.read_model.stored import (
    Count,
    Line,
    Part,
    Percent,
    ReadModelDocument,
    Seconds,
    Version,
    cut,
)
from slipway_core.record.events import Event
from slipway_core.record.fold import fold
from slipway_core.record.kinds import WindowJudged
from slipway_core.record.requirements import Requirements
from slipway_core.value_types import UtcTime

LOG_LIMIT = 1000
"""Lines of a log, the newest ones."""
WINDOWS_LOGGED = 100
"""Of them about windows: a day of watching has thousands."""


class StepView(Part):
    """A stage of the release, or a step of its canary with its `weight`.

    `name` is the stage's in the record; a step's is `canary` and its `weight` is not None.
    """

    name: Line
    state: StepState
    weight: Percent | None = None
    outcome: Line = ""
    reason: Line = ""
    seconds: Seconds | None = None
    started_at: UtcTime | None = None
    candidate_requests: Count | None = None
    candidate_errors: Count | None = None


class LogLine(Part):
    """An event in one sentence; `seq` is its number in the record, `release_id` the attempt that wrote it."""

    at: UtcTime
    seq: Count
    kind: Line
    sentence: Line
    release_id: Line


class Required(Part):
    """What this attempt must prove before a raise, as it was pinned when it began."""

    gates: Annotated[tuple[Line, ...], Field(max_length=100)] = ()
    weights: Annotated[tuple[Percent, ...], Field(max_length=100)] = ()
    approvals: Annotated[tuple[Literal["canary", "promotion"], ...], Field(max_length=2)] = ()
    by_other: bool = False


class ReleaseView(ReadModelDocument):
    """One version and its newest attempt.

    `line` has outcome, times, approvals and rejection; `open_now` is where it stands, None when it is over. `log` is
    oldest first, `log_is_cut` tells that older lines are not shown. `evidence` are the keys of its reports.
    """

    called: ClassVar[str] = "view of a release"

    line: VersionLine
    open_now: OpenRelease | None = None
    steps: Annotated[tuple[StepView, ...], Field(max_length=300)] = ()
    log: Annotated[tuple[LogLine, ...], Field(max_length=LOG_LIMIT)] = ()
    log_is_cut: bool = False
    required: Required | None = None
    candidate_storage_uri: Line = ""
    stable_storage_uri: Line = ""
    stable_version: Version | None = None
    evidence_prefix: Line = ""
    evidence: Annotated[tuple[Line, ...], Field(max_length=1000)] = ()


def release_view(
    events: Sequence[Event],
    *,
    pinned: bool = False,
    files_gone: bool = False,
    evidence_prefix: str = "",
    evidence: Iterable[str] = (),
) -> ReleaseView:
    """Return the view of a version.

    :param events: its whole record.
    :param pinned: a person wants to keep it.
    :param files_gone: retention has deleted its files.
    :param evidence_prefix: where the reports of its newest attempt lie, and `evidence` their keys.
    :raises RecordError: the record is empty, has gaps or cannot be right.
    """
    state = fold(events)
    log, started = log_of(events), last_started(events)
    return ReleaseView(
        line=version_line(events, pinned=pinned, files_gone=files_gone),
        open_now=open_release(events),
        steps=tuple(
            StepView(
                name=cut(one.name),
                state=one.state,
                weight=one.weight,
                outcome=cut(one.outcome),
                reason=cut(one.reason),
                seconds=one.seconds,
                started_at=one.started_at,
                candidate_requests=one.candidate_requests,
                candidate_errors=one.candidate_errors,
            )
            for one in steps_of(state, is_rollback=started is not None and is_way_back(started))
        ),
        log=log,
        log_is_cut=len(log) < len({event.event_id for event in events}),
        required=_required(state.required),
        candidate_storage_uri=cut(state.storage_uri),
        stable_storage_uri=cut(state.stable_storage_uri),
        stable_version=version_of(state.model, state.stable_storage_uri),
        evidence_prefix=evidence_prefix,
        evidence=tuple(evidence),
    )


def log_of(events: Iterable[Event]) -> tuple[LogLine, ...]:
    """Return the log of a record, oldest first: the newest lines, not all of those about windows."""
    newest_first = sorted(
        {one.event_id: one for one in events}.values(), key=lambda one: one.seq, reverse=True
    )
    windows, kept = 0, []
    for event in newest_first:
        windows += isinstance(event.data, WindowJudged)
        if windows <= WINDOWS_LOGGED or not isinstance(event.data, WindowJudged):
            kept.append(event)
        if len(kept) == LOG_LIMIT:
            break
    return tuple(
        LogLine(
            at=event.at,
            seq=event.seq,
            kind=cut(event.kind),
            sentence=sentence_of(event),
            release_id=cut(event.release_id),
        )
        for event in reversed(kept)
    )


def _required(required: Requirements | None) -> Required | None:
    if required is None:
        return None
    return Required(
        gates=tuple(cut(gate) for gate in required.gates),
        weights=required.weights,
        approvals=required.approvals[:2],
        by_other=required.by_other,
    )
