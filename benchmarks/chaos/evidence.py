"""What was seen of a run, and what must hold of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

from benchmarks.chaos.excuses import Excuse, Excuses
from benchmarks.chaos.gates import Write
from benchmarks.chaos.plan import SERVICES, Plan
from slipway_core.record.events import Event, RecordError
from slipway_core.record.fold import fold
from slipway_core.record.state import ReleaseState
from slipway_sandbox.load.answers import Answer

SLACK_S = 5.0
"""What a guard may take beyond the lease: its look, its patch, the router, and a busy machine."""

GUARD = "guard"

_SHOWN = 3
# New revisions by dialect and outcome: the candidate's, and in Knative mode that of the good version coming back.
_REVISIONS = {
    ("Knative", "promoted"): 1,
    ("Knative", "rolled_back"): 2,
    ("Standard", "promoted"): 1,
    ("Standard", "rolled_back"): 0,  # the candidate's is deleted again, and stable's pods stay
}


@dataclass(frozen=True)
class Outage:
    """From when to when (unix seconds) the guard could not look: it was dead, or the cluster's API was."""

    begin: float
    end: float
    part: str


@dataclass
class Evidence:
    """All that was seen of one run. Times are unix seconds, revisions by name, weights in percent.

    `settled` says whether the cluster came to rest in time, `lost_safe` whether users were off the candidate before
    the lost task came back (None: it was not lost). `after` are answers from when all was at rest. `failed_tasks` are
    the tasks that failed for good.
    """

    plan: Plan
    lease_s: float
    stable: str
    stable_uri: str
    candidate_uri: str
    candidate: str
    answers: Sequence[Answer] = ()
    after: Sequence[Answer] = ()
    writes: Sequence[Write] = ()
    events: Sequence[Event] = ()
    excuses: Sequence[Excuse] = ()
    outages: Sequence[Outage] = ()
    uri: str = ""
    traffic: dict[str, int] = field(default_factory=dict)
    percent: int | None = None
    new_revisions: int = 0
    tries: int = 1
    crashed: int | None = None
    finished: bool = True
    failed_tasks: Sequence[str] = ()
    settled: bool = True
    lost_safe: bool | None = None
    lease_left: bool = False
    lock_left: bool = False
    steps: int = 2

    @property
    def is_good(self) -> bool:
        """Whether the candidate answers well."""
        return self.plan.error_percent == 0

    @cached_property
    def state(self) -> ReleaseState | str:
        """What the record adds up to, or why it does not."""
        try:
            return fold(self.events)
        except RecordError as error:
            return str(error)

    @property
    def outcome(self) -> str:
        """How the release ended, by its record."""
        return "no record" if isinstance(self.state, str) else self.state.outcome

    @property
    def led(self) -> Sequence[Write]:
        """The task's writes that changed the InferenceService."""
        return [write for write in self.writes if write.accepted and write.resource == SERVICES]


def violations(seen: Evidence) -> list[str]:
    """Every promise that was broken, in words; nothing where all were kept."""
    state = seen.state
    if isinstance(state, str):
        return [f"the record: {state}", *_left_over(seen)]
    return [
        *_ended(seen, state),
        *_one_version(seen, state),
        *_record(seen, state),
        *_left_over(seen),
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
    if "restore" in seen.failed_tasks:
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
    """It says how the release ended, once, and that each stage which began is over."""
    fair = ("promoted", "rolled_back") if seen.led else ("promoted", "rolled_back", "failed", "cancelled")
    found = [] if state.outcome in fair else [f"the record ends {state.outcome}"]
    for kind in ("release_started", "rollback_started", "promoted", "rolled_back", "release_finished"):
        count = sum(event.kind == kind for event in seen.events)
        if count > 1:
            found.append(f"{count} events {kind}")
    kinds = {event.kind for event in seen.events}
    if {"promoted", "rolled_back"} <= kinds:
        found.append("the record says both promoted and rolled back")
    if seen.events[-1].kind != "release_finished":
        found.append(f"the record's last event is {seen.events[-1].kind}")
    still_open = [stage.name for stage in state.stages if stage.outcome == "running"]
    if still_open:
        found.append(f"stages that never ended: {', '.join(still_open)}")
    return found


def _left_over(seen: Evidence) -> list[str]:
    found = ["the lease outlived the release"] if seen.lease_left else []
    return [*found, "the model's lock outlived the release"] if seen.lock_left else found


def _nothing_twice(seen: Evidence, state: ReleaseState) -> list[str]:
    found = []
    fair = _REVISIONS.get((seen.plan.dialect, state.outcome), 0)
    if seen.new_revisions > fair:
        found.append(f"{seen.new_revisions} new revisions, at most {fair} are needed")
    most = seen.steps * (1 + seen.tries) + 4
    if len(seen.led) > most:
        found.append(f"{len(seen.led)} accepted patches of the InferenceService, at most {most} are needed")
    weights = _weights(seen)
    begun = sum(before == 0 < weight for before, weight in zip([0, *weights], weights, strict=False))
    if begun > 1:
        found.append(f"the canary was begun {begun} times: weights {weights}")
    return found


def _weights(seen: Evidence) -> list[int]:
    """The percents that the accepted patches gave to the candidate, in order; 0 where it was taken away."""
    weights: list[int] = []
    for write in seen.led:
        spec = write.body.get("spec") or {}
        predictor = spec.get("predictor") or {}
        uri = (predictor.get("model") or {}).get("storageUri")
        if "canary" in spec:
            shares = {
                one["predictor"]["model"]["storageUri"]: one["trafficPercent"] for one in spec["canary"] or ()
            }
            weights.append(100 if uri == seen.candidate_uri else shares.get(seen.candidate_uri, 0))
        elif uri == seen.stable_uri:
            weights.append(0)
        elif predictor.get("canaryTrafficPercent") is not None:
            weights.append(predictor["canaryTrafficPercent"])
    return weights


def _exposure(seen: Evidence, state: ReleaseState) -> list[str]:
    """Nobody is led to the candidate when its lease has run out."""
    renewals = sorted(write.done_at for write in seen.writes if write.renews)
    late = []
    for answer in seen.answers:
        if answer.revision != seen.candidate:
            continue
        if state.outcome == "promoted" and (not renewals or answer.sent > renewals[-1]):
            continue  # it was promoted by then
        held = max((at for at in renewals if at <= answer.sent + 1.0), default=None)
        if held is None:
            late.append(f"{answer.sent:.2f} before any lease")
        elif answer.sent > _lease_end(seen, held, answer.sent) + SLACK_S:
            late.append(f"{answer.sent - held:.1f} s after the last renewal")
    return [f"{len(late)} users on the candidate without a lease: {late[:_SHOWN]}"] if late else []


def _lease_end(seen: Evidence, held: float, now: float) -> float:
    """When a lease that was last renewed at `held` ran out for the guard, as far as is known at `now`.

    A guard that comes back watches for one lease anew; while the API is away no lease runs.
    """
    before = [one for one in seen.outages if one.begin < now]
    began = max([held, *(min(one.end, now) for one in before if one.part == GUARD)])
    away_s = sum(max(0.0, min(one.end, now) - max(one.begin, began)) for one in before if one.part != GUARD)
    return began + seen.lease_s + away_s


def failed(seen: Evidence) -> tuple[list[Answer], int]:
    """Failed requests that a healthy stable version would have answered, and how many failed because what they were
    led to had just been killed.
    """
    bad = [
        one
        for one in seen.answers
        if one.error is not None and (one.revision != seen.candidate or seen.is_good)
    ]
    excuses = Excuses(seen.excuses, seen.answers)
    kept = [one for one in bad if not excuses.hold_for(one)]
    return kept, len(bad) - len(kept)


def _failed(seen: Evidence) -> list[str]:
    kept, _ = failed(seen)
    shown = [(round(one.sent, 2), one.protocol, one.revision, one.error) for one in kept[:_SHOWN]]
    return [f"{len(kept)} requests failed: {shown}"] if kept else []
