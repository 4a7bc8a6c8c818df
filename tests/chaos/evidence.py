"""What was seen of a run, and what must hold of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from include.model_release.record import Event, RecordError, ReleaseState, fold
from include.sandbox.lab.answers import Answer
from tests.chaos.gates import Write
from tests.chaos.plan import SERVICES, Plan

SLACK_S = 5.0
"""What a guard may take beyond the lease: its look, its patch, the router, and a busy machine."""

_SHOWN = 3


@dataclass(frozen=True)
class Span:
    """From when to when (unix seconds) requests may fail, and for whose sake."""

    begin: float
    end: float
    why: str


@dataclass
class Evidence:
    """All that was seen of one run. Times are unix seconds, revisions by name, weights in percent.

    `settled` says whether the world came to rest in time, `lost_safe` whether users were off the candidate before
    the lost task came back (None: it was not lost). `lease_left` says whether the release's lease outlived it, which
    harms nobody: the next release takes it away. `outages` are the spans in which the guard could not look.
    """

    plan: Plan
    lease_s: float
    stable: str
    stable_uri: str
    candidate_uri: str
    answers: Sequence[Answer] = ()
    after: Sequence[Answer] = ()
    writes: Sequence[Write] = ()
    events: Sequence[Event] = ()
    excused: Sequence[Span] = ()
    outages: Sequence[Span] = ()
    candidates: set[str] = field(default_factory=set)
    uri: str = ""
    traffic: dict[str, int] = field(default_factory=dict)
    percent: int | None = None
    new_revisions: int = 0
    kills: int = 0
    tries: int = 1
    crashed: int | None = None
    finished: bool = True
    gave_up: bool = False
    settled: bool = True
    lost_safe: bool | None = None
    lease_left: bool = False
    steps: int = 2

    @property
    def is_good(self) -> bool:
        """Whether the candidate answers well."""
        return self.plan.error_percent == 0


def state_of(evidence: Evidence) -> ReleaseState | str:
    """What the record adds up to, or why it does not."""
    try:
        return fold(evidence.events)
    except RecordError as error:
        return str(error)


def open_stages(state: ReleaseState | str) -> list[str]:
    """Stages that the record never saw end. They mislead who reads it, and harm no user."""
    return [] if isinstance(state, str) else [one.name for one in state.stages if one.outcome == "running"]


def violations(seen: Evidence) -> list[str]:
    """Every promise that was broken, in words; nothing where all were kept."""
    state = state_of(seen)
    if isinstance(state, str):
        return [f"the record: {state}"]
    return [
        *_ended(seen, state),
        *_one_version(seen, state),
        *_record(seen, state),
        *_nothing_twice(seen, state),
        *_exposure(seen, state),
        *_failed(seen),
    ]


def _ended(seen: Evidence, state: ReleaseState) -> list[str]:
    found = []
    if seen.crashed:
        found.append(f"the release's process ended with {seen.crashed}")
    if not seen.finished:
        found.append("the release has not ended in time")
    if seen.gave_up:
        found.append("the rollback gave up")
    if not seen.settled:
        found.append(
            f"the InferenceService has not come to rest: {seen.uri} {seen.percent} {seen.traffic}; {state.outcome}"
        )
    if seen.lost_safe is False:
        found.append("nobody took the users off the candidate while the task was lost")
    return found


def _one_version(seen: Evidence, state: ReleaseState) -> list[str]:
    found = []
    right = seen.candidate_uri if state.outcome == "promoted" else seen.stable_uri
    if seen.uri != right:
        found.append(f"{seen.uri} is live, not {right} ({state.outcome})")
    if sorted(seen.traffic.values()) != [100]:
        found.append(f"not one revision has all users: {seen.traffic}")
    if state.outcome == "promoted" and not seen.is_good:
        found.append(f"a candidate that fails {seen.plan.error_percent} % was promoted")
    live = {*seen.traffic}
    strangers = [one for one in seen.after if one.revision not in live or one.error is not None]
    if not seen.after or strangers:
        found.append(f"afterwards {len(strangers)} of {len(seen.after)} answers were not of {live}")
    return found


def _record(seen: Evidence, state: ReleaseState) -> list[str]:
    led = any(write.accepted and write.resource == SERVICES for write in seen.writes)
    fair = ("promoted", "rolled_back") if led else ("promoted", "rolled_back", "open")
    found = [] if state.outcome in fair else [f"the record ends {state.outcome}"]
    for kind in ("rolled_back", "rollback_started"):
        count = sum(event.kind == kind for event in seen.events)
        if count > 1:
            found.append(f"{count} events {kind}")
    kinds = {event.kind for event in seen.events}
    if {"promoted", "rolled_back"} <= kinds:
        found.append("the record says both promoted and rolled back")
    return found


def _nothing_twice(seen: Evidence, state: ReleaseState) -> list[str]:
    found = []
    fair = {"promoted": 1, "rolled_back": 2}.get(state.outcome, 0)
    if seen.new_revisions > fair:
        found.append(f"{seen.new_revisions} new revisions, at most {fair} are needed")
    accepted = [write for write in seen.writes if write.accepted and write.resource == SERVICES]
    most = seen.steps * (1 + seen.tries) + 4
    if len(accepted) > most:
        found.append(f"{len(accepted)} accepted patches of the InferenceService, at most {most} are needed")
    begun = [write for write in accepted if _uri_of(write) == seen.candidate_uri]
    if len(begun) > 1:
        found.append(f"the canary was begun {len(begun)} times")
    return found


def _uri_of(write: Write) -> str | None:
    model = ((write.body.get("spec") or {}).get("predictor") or {}).get("model") or {}
    return model.get("storageUri")


def _exposure(seen: Evidence, state: ReleaseState) -> list[str]:
    """Nobody is led to the candidate when its lease has run out."""
    renewals = sorted(write.done_at for write in seen.writes if write.renews)
    late = []
    for answer in seen.answers:
        if answer.revision not in seen.candidates:
            continue
        if state.outcome == "promoted" and (not renewals or answer.sent > renewals[-1]):
            continue  # it was promoted by then
        held = max((at for at in renewals if at <= answer.sent + 1.0), default=None)
        if held is None:
            late.append(f"{answer.sent:.2f} before any lease")
            continue
        away_s = sum(
            max(0.0, min(one.end, answer.sent) - max(one.begin, held)) + seen.lease_s / 3
            for one in seen.outages
            if one.begin < answer.sent
        )
        if answer.sent > held + seen.lease_s + SLACK_S + away_s:
            late.append(f"{answer.sent - held:.1f} s after the last renewal")
    return [f"{len(late)} users on the candidate without a lease: {late[:_SHOWN]}"] if late else []


def failed(seen: Evidence) -> tuple[list[Answer], int]:
    """Failed requests that a healthy stable version would have answered, and how many failed because the only
    router or server was killed.
    """
    bad = [
        one
        for one in seen.answers
        if one.error is not None and (one.revision not in seen.candidates or seen.is_good)
    ]
    kept = [
        one
        for one in bad
        if not any(one.sent <= span.end and one.received >= span.begin for span in seen.excused)
    ]
    return kept, len(bad) - len(kept)


def _failed(seen: Evidence) -> list[str]:
    kept, _ = failed(seen)
    shown = [(round(one.sent, 2), one.protocol, one.revision, one.error) for one in kept[:_SHOWN]]
    return [f"{len(kept)} requests failed: {shown}"] if kept else []
