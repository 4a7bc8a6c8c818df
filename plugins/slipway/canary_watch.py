"""One step of a canary as it happens: reach the weight, read the counters, let the judge look at every window."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from include.model_release.canary import (
    CanaryJudge,
    CanaryPlan,
    Counters,
    Decision,
    Verdict,
    Window,
    counters_delta,
    decide,
)
from include.model_release.errors import MetricsUnavailableError, TransientError
from include.model_release.isvc_observation import STABLE_REVISION
from include.model_release.rollout import Done, Goal, Observed, RollBack, ShiftWeight, StartCanary
from slipway.hooks.kserve import KServeHook
from slipway.hooks.metrics import EnvoyMetricsHook
from slipway.rollout_driver import POLL_INTERVAL_S, Turn, take_turn, timed_out
from slipway.ticket import ReleaseTicket

READING_INTERVAL_S = 1.0
REPORT_INTERVAL_S = 60.0
SHIELD_TIMEOUT_S = 60.0

Readings = dict[str, Counters]


class StepWatch:
    """Carries one step out; everything that blocks runs in a thread, so that a triggerer stays responsive.

    :param step: index of the step in the plan.
    :param elapsed_s: how long the step has been watched before this watch began.
    """

    def __init__(
        self,
        ticket: ReleaseTicket,
        plan: CanaryPlan,
        step: int,
        judge: CanaryJudge,
        elapsed_s: float,
        service: KServeHook,
        metrics: EnvoyMetricsHook,
    ) -> None:
        self.judge = judge
        self.elapsed_s = elapsed_s
        self.events: list[dict[str, Any]] = []
        self._ticket = ticket
        self._plan, self._index, self._step = plan, step, plan.steps[step]
        self._service, self._metrics = service, metrics
        self._first_bad_at: datetime | None = None
        self._blind = "no reading yet"
        self._stable = self._candidate = ""
        self._stable_uri = "" if ticket.stable is None else ticket.stable.storage_uri

    async def run(self) -> Decision:
        """Watches until the step is decided, or until it is time to report.

        :return: ``continue`` to report; anything else ends the step. After ``roll_back`` the weight is 0 already.
        """
        observed = await self._reach_weight()
        self._stable = observed.annotation(STABLE_REVISION) or observed.latest_rolledout
        self._candidate = observed.latest_created
        if self.elapsed_s == 0:
            self._tell("weight_observed", weight=self._step.weight, traffic=dict(observed.traffic))
        decision, verdict = await self._watch()
        if decision in ("advance", "roll_back"):
            self._tell_step(verdict)
        if decision == "roll_back":
            await self._shield(verdict.reason)
        return decision

    async def shield(self) -> Observed | None:
        """Takes turns of the rollback until no user is led to the candidate."""
        goal = RollBack(self._stable_uri, self._ticket.storage_uri)
        return (await self._drive(goal, SHIELD_TIMEOUT_S, self._is_shielded)).observed

    async def _shield(self, reason: str) -> None:
        self._tell("rollback_started", reason=reason, by="judge", stable_storage_uri=self._stable_uri)
        observed = await self.shield()
        if observed is not None:
            self._tell("weight_observed", weight=0, traffic=dict(observed.traffic))

    async def _reach_weight(self) -> Observed:
        """Takes turns until the traffic is seen to be as wanted."""
        timeout_s = self._ticket.spec.rollout.ready_timeout_s
        turn = await self._drive(self._goal(), timeout_s, lambda turn: isinstance(turn.action, Done))
        assert turn.observed is not None  # noqa: S101  Done is only said of what exists
        return turn.observed

    async def _drive(self, goal: Goal, timeout_s: float, reached: Callable[[Turn], bool]) -> Turn:
        """Takes turns until one is as wanted; an API that is away is asked again until the time is up."""
        deadline, found = time.monotonic() + timeout_s, ""
        while time.monotonic() < deadline:
            try:
                turn = await asyncio.to_thread(take_turn, self._service, goal)
            except TransientError as error:
                found = str(error)
            else:
                if reached(turn):
                    return turn
                found = turn.action.reason
            await asyncio.sleep(POLL_INTERVAL_S)
        raise timed_out(self._service, goal, timeout_s, found)

    def _goal(self) -> Goal:
        ticket = self._ticket
        if self._index > 0:
            return ShiftWeight(self._step.weight, ticket.storage_uri)
        return StartCanary(
            ticket.storage_uri,
            self._step.weight,
            release_id=ticket.release_id,
            version=ticket.version,
            force=ticket.force,
        )

    async def _watch(self) -> tuple[Decision, Verdict]:
        """Window after window, until the plan says something else than to continue."""
        report_at = time.monotonic() + REPORT_INTERVAL_S
        before, before_at = await self._read(), time.monotonic()
        while True:
            began = time.monotonic()
            after = await self._window(before)
            now = time.monotonic()
            self.elapsed_s += now - began
            verdict = self._judged(before, after, now - before_at)
            decision = decide(verdict, self.elapsed_s, self._step, self._plan)
            if decision != "continue" or now > report_at:
                return decision, verdict
            if after is not None:
                before, before_at = after, now

    async def _window(self, before: Readings | None) -> Readings | None:
        """Reads every second, to date the first bad answer; returns the reading that closes the window."""
        ends, last = time.monotonic() + self._plan.window_s, before
        while True:
            await asyncio.sleep(max(0.0, min(READING_INTERVAL_S, ends - time.monotonic())))
            reading = await self._read()
            if reading is not None:
                known = None if last is None else last[self._candidate]
                self._note_first_bad(known, reading[self._candidate])
                last = reading
            if time.monotonic() >= ends:
                return reading

    async def _read(self) -> Readings | None:
        """One reading of both revisions; None where the source could not be read."""
        try:
            return await asyncio.to_thread(self._metrics.read, [self._stable, self._candidate])
        except MetricsUnavailableError as error:
            self._blind = str(error)
            return None

    def _note_first_bad(self, before: Counters | None, after: Counters) -> None:
        if self._first_bad_at is None and after.errors > (before.errors if before else 0):
            self._first_bad_at = datetime.now(UTC)

    def _judged(self, before: Readings | None, after: Readings | None, seconds: float) -> Verdict:
        """Lets the judge look at the window, and tells the record all it takes to judge it again."""
        if before is None or after is None:
            verdict = self.judge.observe_failure(self._blind)
        else:
            stable, candidate = (
                counters_delta(before[revision], after[revision])
                for revision in (self._stable, self._candidate)
            )
            verdict = self.judge.observe(Window(seconds=seconds, stable=stable, candidate=candidate))
        totals = verdict.statistics["canary"]
        self._tell(
            "window_judged",
            verdict=verdict.to_dict(),
            candidate_requests=totals["candidate_requests"],
            candidate_errors=totals["candidate_errors"],
            first_bad_at=self._first_bad_at and self._first_bad_at.isoformat(),
        )
        return verdict

    def _tell_step(self, verdict: Verdict) -> None:
        totals = verdict.statistics["step"]
        self._tell(
            "step_finished",
            weight=self._step.weight,
            verdict=verdict.status,
            reason=verdict.reason,
            candidate_requests=totals["candidate_requests"],
            candidate_errors=totals["candidate_errors"],
            seconds=self.elapsed_s,
        )

    def _is_shielded(self, turn: Turn) -> bool:
        """Whether no traffic was seen on the candidate's revision when the turn was taken."""
        observed = turn.observed
        if observed is None or observed.storage_uri != self._ticket.storage_uri:
            return True
        return observed.canary_percent == 0 and observed.share(observed.latest_created) == 0

    def _tell(self, kind: str, **data: Any) -> None:
        """Keeps an event for the record; the worker writes it."""
        self.events.append({"kind": kind, "at": datetime.now(UTC).isoformat(), "data": data})
