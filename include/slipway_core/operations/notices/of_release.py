"""The notices of a release: made of its record's state and events."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from datetime import datetime

from slipway_core.bucket_layout import parse_storage_uri
from slipway_core.canary.latency import quantile_ms
from slipway_core.canary.verdict import Verdict
from slipway_core.canary.verdict_text import duration
from slipway_core.errors import UserError
from slipway_core.metrics.samples import Sample
from slipway_core.operations.freezes import utc_text
from slipway_core.operations.holds import Hold
from slipway_core.operations.notices.notice import Fact, Notice
from slipway_core.record.events import Event, Outcome
from slipway_core.record.kinds import ReleaseStarted, WindowJudged
from slipway_core.record.state import ReleaseState
from slipway_core.rollout.lease import Lease
from slipway_core.rollout.pods.drain import recorded_drain_summary
from slipway_core.spec.notify import NoticeEvent
from slipway_core.spec.release_file import ReleaseSpec
from slipway_core.spec.rollout.plan import CanaryPlan
from slipway_core.written_numbers import number
from slipway_rules.text_forms import VERSION_LIMIT

GUARD = "guard"
"""As the guard names itself in a lease that it ends."""

_OF_OUTCOME: dict[Outcome, NoticeEvent] = {
    "promoted": "promoted",
    "rolled_back": "rolled_back",
    "refused": "refused",
    "failed": "failed",
    "cancelled": "failed",
}
_P99 = 0.99


def outcome_notice(
    state: ReleaseState, events: Iterable[Event], *, at: datetime, evidence: str = "", dag_id: str
) -> Notice | None:
    """Return the notice of how a release ended; None while it has not.

    :param events: of the version's record.
    :param evidence: the S3 address of the release's reports.
    :param dag_id: the DAG whose run it is.
    """
    event = _OF_OUTCOME.get(state.outcome)
    if event is None:
        return None
    facts = [*_who(state), *verdict_facts(last_verdict(events, state.release_id))]
    seconds = state.seconds_from_first_bad_answer_to_weight_0
    if seconds is not None:
        facts.append(Fact(name="first bad answer to weight 0", value=duration(seconds)))
    drained = recorded_drain_summary(state.drained, state.drain_seconds, state.open_requests)
    if state.outcome == "rolled_back" and drained:
        facts.append(Fact(name="what was open on it", value=drained))
    if state.outcome == "promoted" and state.seconds is not None:
        facts.append(Fact(name="took", value=duration(state.seconds)))
    reason = "" if event == "promoted" else state.reason or ""
    if state.refused_by:
        facts.insert(0, Fact(name="refused by", value=state.refused_by))
    if state.rolling_back:
        unfinished = "a rollback has begun and has not ended: look at the InferenceService"
        facts.insert(0, Fact(name="attention", value=unfinished))
    if state.outcome == "cancelled":
        facts.insert(0, Fact(name="outcome", value="cancelled"))
    return Notice(
        event=event,
        model=state.model,
        version=state.version,
        at=at,
        reason=reason,
        facts=tuple(facts),
        release_id=state.release_id,
        dag_id=dag_id,
        evidence=evidence,
    )


def started_notice(
    release_id: str, spec: ReleaseSpec, version: int, started: ReleaseStarted, *, at: datetime, dag_id: str
) -> Notice:
    """Return the notice of a release that begins.

    :param started: the event that its record gets.
    :param dag_id: the DAG whose run it is.
    """
    facts = []
    if started.triggered_by:
        facts.append(Fact(name="started by", value=started.triggered_by))
    if started.stable_storage_uri:
        weights = (f"{step.weight} %" for step in spec.rollout.steps)
        facts.append(Fact(name="live now", value=started.stable_storage_uri))
        facts.append(Fact(name="canary", value=", ".join(weights)))
    return Notice(
        event="started",
        model=spec.model,
        version=version,
        at=at,
        reason=started.reason or "",
        facts=tuple(facts),
        release_id=release_id,
        dag_id=dag_id,
    )


def approval_notice(
    state: ReleaseState, events: Iterable[Event], *, before: str, at: datetime, evidence: str, dag_id: str
) -> Notice:
    """Return the notice that a person is asked, `before` the canary or the promotion."""
    by_other = state.required is not None and state.required.by_other
    who = "another person than that" if state.triggered_by else "two people, since no person has started it"
    facts = [
        Fact(name="asked before", value=f"the {before}"),
        *_who(state),
        *([Fact(name="who may answer", value=who)] if by_other else []),
        *verdict_facts(last_verdict(events, state.release_id)),
    ]
    return Notice(
        event="waiting_for_approval",
        model=state.model,
        version=state.version,
        at=at,
        facts=tuple(facts),
        release_id=state.release_id,
        dag_id=dag_id,
        evidence=evidence,
        about=before,
    )


def held_notice(
    model: str,
    version: int,
    hold: Hold,
    *,
    at: datetime,
    release_id: str,
    dag_id: str,
    weight: int | None = None,
) -> Notice | None:
    """Return the notice that a freeze or a closed window holds a start, or the raise to `weight`.

    None while nobody knows whether there is a freeze: that is waited for, and comes and goes with the store.
    """
    if hold.is_unknown:
        return None
    what = "the start" if weight is None else f"the raise to {weight} %"
    facts = [Fact(name="held", value=what)]
    if hold.until is not None:
        facts.append(Fact(name="until", value=utc_text(hold.until)))
    return Notice(
        event="held",
        model=model,
        version=version,
        at=at,
        reason=hold.reason,
        facts=tuple(facts),
        release_id=release_id,
        dag_id=dag_id,
        about=f"{what}: {hold.reason}",
    )


def inconclusive_notice(
    model: str,
    version: int,
    verdict: Verdict,
    *,
    watched_s: float,
    at: datetime,
    release_id: str,
    dag_id: str,
    evidence: str,
) -> Notice:
    """Return the notice of a step whose verdict does not come."""
    weight = verdict.statistics.weight
    return Notice(
        event="inconclusive",
        model=model,
        version=version,
        at=at,
        reason=verdict.reason,
        facts=(Fact(name="watched", value=duration(watched_s)), *verdict_facts(verdict)),
        release_id=release_id,
        dag_id=dag_id,
        evidence=evidence,
        about=f"weight {weight}",
    )


def lease_lost_notice(model: str, version: int, lease: Lease, *, at: datetime, dag_id: str) -> Notice | None:
    """Return the notice of a canary that its guard has ended; None if the guard has not.

    :param version: the candidate, where the lease does not tell it.
    """
    if lease.ended_by != GUARD:
        return None
    with suppress(UserError):
        named = parse_storage_uri(lease.candidate_uri)[1]
        # The lease is read on the way back: whatever it names must not end that with an error.
        version = named if named <= VERSION_LIMIT else version
    ended = [] if lease.ended_at is None else [Fact(name="ended", value=utc_text(lease.ended_at))]
    return Notice(
        event="lease_lost",
        model=model,
        version=version,
        at=at,
        reason=lease.ended_reason,
        facts=(Fact(name="ended by", value="the guard"), *ended),
        release_id=lease.release_id,
        dag_id=dag_id,
    )


def _who(state: ReleaseState) -> list[Fact]:
    return [Fact(name="started by", value=state.triggered_by)] if state.triggered_by else []


def last_verdict(events: Iterable[Event], release_id: str) -> Verdict | None:
    """Return the judge's last verdict of a release; None if there is none that can be read."""
    judged = [
        event.data
        for event in events
        if event.release_id == release_id and isinstance(event.data, WindowJudged)
    ]
    try:
        return Verdict.from_dict(judged[-1].verdict) if judged else None
    except (ValueError, KeyError, TypeError, AttributeError):
        return None  # a notice without its numbers is better than none


def verdict_facts(verdict: Verdict | None) -> list[Fact]:
    """Return the numbers of a verdict: the weight, errors, p99 and how far the evidence has come."""
    if verdict is None:
        return []
    seen = verdict.statistics
    facts = [] if seen.weight is None else [Fact(name="weight", value=f"{seen.weight} %")]
    totals = seen.canary
    errors = (
        _rate("candidate", totals.candidate_errors, totals.candidate_requests),
        _rate("stable", totals.stable_errors, totals.stable_requests),
    )
    facts.append(Fact(name="errors", value=", ".join(errors)))
    if verdict.window is not None:
        latencies = {"candidate": verdict.window.candidate, "stable": verdict.window.stable}
        shown = [text for who, sample in latencies.items() if (text := _p99(who, sample))]
        if shown:
            facts.append(Fact(name="p99, last window", value=", ".join(shown)))
    evidence = f"{number(seen.total_evidence)}; the candidate fails at {number(seen.threshold)}"
    facts.append(Fact(name="evidence against it", value=evidence))
    return facts


def _rate(who: str, errors: int, requests: int) -> str:
    share = f"{number(100 * errors / requests)} % " if requests else ""
    return f"{who} {share}({errors:,} of {requests:,})"


def _p99(who: str, sample: Sample) -> str:
    found = quantile_ms(sample.latency_buckets, _P99)
    if found is None:
        return ""
    value, is_above = found
    return f"{who} {'above ' if is_above else ''}{number(value)} ms"


def inconclusive_after_s(bake_s: float, plan: CanaryPlan) -> float:
    """Return for how many seconds a step is watched before people are notified that its verdict is missing.

    Twice its bake, and in any case before the limit at which the step ends: in the middle between the two then.
    """
    return min(2 * bake_s, (bake_s + max(plan.max_bake_s, bake_s)) / 2)
