"""What was decided and done in a canary, in words."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from slipway_core.canary.verdict_text import duration
from slipway_core.record.events import Event
from slipway_core.record.kinds import (
    EventData,
    Promoted,
    RaiseHeld,
    Reasoned,
    RollbackStarted,
    RolledBack,
    StepFinished,
    VersionRejected,
    WeightObserved,
)
from slipway_core.reports.canary.document import Decision
from slipway_core.rollout.pods.drain import recorded_drain_summary

_BACK = "The stable version alone gets new requests again."
_WEIGHT_0 = "Weight 0 was seen: new requests go to the stable version."
# Of records in which nobody looked for what was open on the candidate: their pages keep their words.
_FORMER_BACK = "The stable version has all traffic again."
_FORMER_WEIGHT_0 = "No more traffic was seen on the candidate: users are on the stable version."
_STEP_ENDS = {
    "pass": ("step_passed", "passed"),
    "fail": ("step_failed", "failed"),
    "inconclusive": ("step_undecided", "ended undecided"),
}


def decisions_of(events: Sequence[Event]) -> list[Decision]:
    """Return what was decided and done, in order of time, each in words and with its reason."""
    found: list[Decision] = []
    given, weight_0 = None, _FORMER_WEIGHT_0 if _is_former(events) else _WEIGHT_0
    for event in events:
        reason = event.data.reason if isinstance(event.data, Reasoned) else None
        said = _said(event.data, given)
        given = reason or given
        if said is not None:
            kind, by, words = said
            words = weight_0 if words is _WEIGHT_0 else words
            found.append(Decision(at=event.at, kind=kind, by=by, words=words, reason=reason))
    found += [
        Decision(at=at, kind="weight_0_seen", by=None, words=weight_0, reason=None)
        for at in weight_0_times(events)
    ]
    return sorted(found, key=lambda decision: decision.at)


def _is_former(events: Sequence[Event]) -> bool:
    ends = [event.data for event in events if isinstance(event.data, RolledBack)]
    return bool(ends) and all(one.drained is None for one in ends)


def weight_0_times(events: Sequence[Event]) -> list[datetime]:
    """Return when weight 0 was seen, where only the event `rolled_back` tells it."""
    if any(isinstance(event.data, WeightObserved) and event.data.weight == 0 for event in events):
        return []
    moments = [event.data.weight_0_at for event in events if isinstance(event.data, RolledBack)]
    return [at for at in moments if at is not None][:1]


def _drained(data: RolledBack) -> str:
    """Say whether the candidate still had users; "" if that was not checked."""
    return recorded_drain_summary(data.drained, data.drain_seconds, data.open_requests)


def _seen_after(data: RolledBack) -> str:
    """Say what the router's counts showed after weight 0; "" if they were not read."""
    requests, seconds = data.requests_after_weight_0, data.seconds_after_weight_0
    if seconds is None:
        return ""
    if requests is None:
        return "It is unknown whether requests reached the candidate after weight 0: the metrics source gave no data."
    watched = f"in {duration(seconds)} after weight 0"
    if not requests:
        return f"The router's counts show no request to the candidate {watched}."
    return (
        f"The router still sent {requests:,} requests to the candidate {watched}: it did not do what the status said, "
        "or the requests had started before."
    )


def _said(data: EventData, given: str | None) -> tuple[str, str | None, str] | None:
    """Return kind, author and words of the decision that an event tells; None if it tells none.

    `given` is the reason that was given last; the same is not said twice.
    """
    match data:
        case WeightObserved(weight=0):
            return "weight_0_seen", None, _WEIGHT_0
        case WeightObserved():
            return "weight_reached", None, f"{data.weight} % of the traffic was seen on the candidate."
        case StepFinished():
            kind, words = _STEP_ENDS.get(data.verdict, _STEP_ENDS["inconclusive"])
            watched = f"The step at {data.weight} % {words} after {duration(data.seconds)}."
            return kind, "judge", f"{watched} {data.reason}"
        case RollbackStarted() if data.reason == given:
            return "rollback_started", data.by, "A rollback was started for this reason."
        case RollbackStarted():
            return "rollback_started", data.by, f"A rollback was started: {data.reason}"
        case RolledBack():
            return (
                "rolled_back",
                None,
                " ".join(
                    filter(None, (_BACK if data.drained else _FORMER_BACK, _drained(data), _seen_after(data)))
                ),
            )
        case RaiseHeld():
            return "raise_held", None, f"The raise to {data.weight} % waits: {data.hold}."
        case VersionRejected():
            return (
                "version_rejected",
                data.by,
                "The version was rejected: it is not released again automatically.",
            )
        case Promoted():
            return "promoted", None, "The candidate was promoted: it is the stable version now."
        case _:
            return None
