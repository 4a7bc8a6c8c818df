"""What an event of a record says, in one plain sentence."""

from __future__ import annotations

from collections.abc import Callable
from functools import singledispatch

from slipway_core.canary.verdict_text import duration
from slipway_core.operations.freezes import utc_text
from slipway_core.operations.live_history import is_way_back
from slipway_core.read_model.stored import cut
from slipway_core.record.events import Event
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
from slipway_core.record.stage_names import stage_name
from slipway_core.rollout.pods.drain import recorded_drain_summary
from slipway_core.written_numbers import counted

_STAGE_ENDS = {
    "passed": "passed",
    "refused": "refused the version",
    "inconclusive": "was inconclusive",
    "failed": "failed",
    "skipped": "was skipped",
    "reused": "found its work done",
    "left_out": "was left out",
    "cancelled": "was stopped",
}
_STEP_ENDS = {"pass": "passed", "fail": "failed", "inconclusive": "ended undecided"}
_OUTCOMES = {
    "promoted": "The release ended: the version was promoted.",
    "rolled_back": "The release ended: it was rolled back.",
    "refused": "The release ended: the version was refused.",
    "failed": "The release failed.",
    "cancelled": "The release was stopped.",
}


def sentence_of(event: Event) -> str:
    """Return what an event says, in one sentence; of a kind that only a later version knows, its name."""
    return cut(_sentence(event.data))


@singledispatch
def _sentence(data: EventData) -> str:
    return f"An event of the kind {data.kind}, which this version does not know."


def _of(kind: type) -> Callable[[Callable[..., str]], Callable[..., str]]:
    return _sentence.register(kind)


@_of(ReleaseStarted)
def _release_started(data: ReleaseStarted) -> str:
    what = "A rollback of the version" if is_way_back(data) else "A release of the version"
    by = f", started by {data.triggered_by}" if data.triggered_by else ""
    return f"{what} began{by}{_why(data.reason)}"


@_of(StageStarted)
def _stage_started(data: StageStarted) -> str:
    return f"The stage {stage_name(data.stage)} began."


@_of(StageFinished)
def _stage_finished(data: StageFinished) -> str:
    return (
        f"The stage {stage_name(data.stage)} {_STAGE_ENDS.get(data.outcome, data.outcome)}{_why(data.reason)}"
    )


@_of(Approved)
def _approved(data: Approved) -> str:
    return f"{data.by} approved it before the {data.before}{_why(data.reason)}"


@_of(CandidateVerified)
def _candidate_verified(data: CandidateVerified) -> str:
    return "Every published file was compared with the manifest."


@_of(WeightIntended)
def _weight_intended(data: WeightIntended) -> str:
    return f"The candidate is to get {data.weight} % of the traffic."


@_of(WeightObserved)
def _weight_observed(data: WeightObserved) -> str:
    if data.weight == 0:
        return "No traffic was seen on the candidate."
    return f"{data.weight} % of the traffic was seen on the candidate."


@_of(WindowJudged)
def _window_judged(data: WindowJudged) -> str:
    status, reason = data.verdict.get("status"), data.verdict.get("reason")
    seen = (
        f"{counted(data.candidate_requests, 'request')} to the candidate so far, "
        f"{counted(data.candidate_errors, 'error')}"
    )
    said = f"The judge said {status}" if isinstance(status, str) else "The judge looked at a window"
    return f"{said} ({seen}){_why(reason if isinstance(reason, str) else None)}"


@_of(StepFinished)
def _step_finished(data: StepFinished) -> str:
    ends = _STEP_ENDS.get(data.verdict, "ended undecided")
    return f"The step at {data.weight} % {ends} after {duration(data.seconds)}{_why(data.reason)}"


@_of(RollbackStarted)
def _rollback_started(data: RollbackStarted) -> str:
    return f"A rollback was started by {data.by}{_why(data.reason)}"


@_of(RollbackPhase)
def _rollback_phase(data: RollbackPhase) -> str:
    return f"The rollback reached the phase {data.phase}{_why(data.detail)}"


@_of(RolledBack)
def _rolled_back(data: RolledBack) -> str:
    if data.stable_storage_uri:
        drained = recorded_drain_summary(data.drained, data.drain_seconds, data.open_requests)
        return f"The stable version alone gets new requests again. {drained}".rstrip()
    return "The version was withdrawn: nothing was live before it."


@_of(Promoted)
def _promoted(data: Promoted) -> str:
    return "The candidate was promoted: it has all traffic."


@_of(ReleaseFinished)
def _release_finished(data: ReleaseFinished) -> str:
    ended = _OUTCOMES.get(data.outcome, "The release ended.")
    return f"{ended.removesuffix('.')}{_why(data.reason)}"


@_of(VersionRejected)
def _version_rejected(data: VersionRejected) -> str:
    by = data.by or f"the stage {data.stage or 'that is not named'}"
    return f"The version was rejected by {by}{_why(data.reason)}"


@_of(VersionUnrejected)
def _version_unrejected(data: VersionUnrejected) -> str:
    return f"{data.by} lifted the rejection{_why(data.reason)}"


@_of(RaiseHeld)
def _raise_held(data: RaiseHeld) -> str:
    until = "" if data.until is None else f", until {utc_text(data.until)}"
    return f"The raise to {data.weight} % waits{until}{_why(data.hold)}"


@_of(HoldOverridden)
def _hold_overridden(data: HoldOverridden) -> str:
    return f"{data.by} overrode this hold: {data.hold}{_why(data.reason, '; the reason')}"


def _why(reason: str | None, before: str = "") -> str:
    """Return the end of a sentence, with the reason where one was given."""
    line = cut(reason).rstrip(".")
    return f"{before}: {line}." if line else "."
