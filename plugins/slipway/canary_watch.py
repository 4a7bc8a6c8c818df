"""One step of a canary as it happens: reach the weight, read the counters, let the judge look at every window."""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from include.model_release.canary import (
    CanaryJudge,
    CanaryPlan,
    Decision,
    Verdict,
    Window,
    decide,
    exposure_spent,
    wants_top_up,
)
from include.model_release.errors import (
    CanaryEndedError,
    ForeignChangeError,
    MetricsUnavailableError,
    TransientError,
    UserError,
)
from include.model_release.rollout import (
    Done,
    Goal,
    Impossible,
    Observed,
    Patch,
    RollBack,
    ShiftWeight,
    StartCanary,
    next_action,
)
from include.model_release.samples import Reading, window_between
from slipway.canary_journal import CanaryJournal, Readings, WatchState
from slipway.hooks.kserve import KServeHook
from slipway.hooks.metrics import MetricsSource
from slipway.replay import GoldenReplay
from slipway.rollout_driver import POLL_INTERVAL_S, Turn, look, take_turn, timed_out
from slipway.ticket import ReleaseTicket
from slipway.wheel import Wheel

log = logging.getLogger(__name__)

READING_INTERVAL_S = 1.0
REPORT_INTERVAL_S = 60.0
# A person who has answered does not want to wait for the report of a watch.
HOLD_REPORT_INTERVAL_S = 15.0
SHIELD_TIMEOUT_S = 60.0


class StepWatch:
    """Carries one step out; everything that blocks runs in a thread, so that a triggerer stays responsive.

    :param step: index of the step in the plan.
    :param state: where the step stands; a watch of the same name that was broken off is gone on with.
    :param generation: the InferenceService's when the canary was decided on; None: whatever is there.
    """

    def __init__(
        self,
        ticket: ReleaseTicket,
        plan: CanaryPlan,
        step: int,
        state: WatchState,
        *,
        service: KServeHook,
        metrics: MetricsSource,
        journal: CanaryJournal,
        wheel: Wheel,
        replay: GoldenReplay,
        generation: int | None = None,
    ) -> None:
        self._generation = generation
        self._wheel = wheel
        self._replay = replay
        # The first step begins the canary; later ones find it under way, or over.
        self._hold = wheel.take if step == 0 else wheel.keep
        self._journal = journal
        self._take_over(state)
        self._ticket = ticket
        self._plan, self._index, self._step = plan, step, plan.steps[step]
        self._service, self._metrics = service, metrics
        self._first_bad_at: datetime | None = None
        self._blind = "no new data"
        self._stable = self._candidate = ""
        self._urls: Mapping[str, str] = {}
        self._stable_uri = "" if ticket.stable is None else ticket.stable.storage_uri

    async def run(self) -> Decision:
        """Watches until the step is decided, or until it is time to report.

        :return: ``continue`` to report; anything else ends the step. After ``roll_back`` the weight is 0 already.
        """
        await self._go_on()
        try:
            decision, reason = await self._bake()
        except CanaryEndedError as ended:
            decision, reason, by = "roll_back", str(ended), self._wheel.ended_by
        else:
            by = "judge"
        if decision == "roll_back":
            await self._shield(reason, by)
        return decision

    async def _bake(self) -> tuple[Decision, str]:
        """Brings the candidate to the step's weight and watches it there."""
        observed = await self._reach_weight()
        self._stable = observed.stable_revision
        self._candidate = observed.revision_of(self._ticket.storage_uri)
        self._urls = observed.urls
        if self.elapsed_s == 0:
            self._tell("weight_observed", weight=self._step.weight, traffic=dict(observed.traffic))
        decision, verdict = await self._watch()
        reason = exposure_spent(verdict, self._plan) or verdict.reason
        if verdict.status == "inconclusive" and self._replay.obstacle:
            reason += f" No golden requests were replayed: {self._replay.obstacle}."
        if decision in ("advance", "roll_back"):
            self._tell_step(verdict, reason)
        return decision, reason

    async def shield(self) -> Observed | None:
        """Takes turns of the rollback until no user is led to the candidate, and not one more.

        Percent 0 on the object is how a task that is run again, before the record tells of the rollback, learns that
        the canary is over. In Standard mode the next turn would remove it with the canary.
        """
        goal = RollBack(self._stable_uri, self._ticket.storage_uri)
        turn = await self._drive(
            goal,
            SHIELD_TIMEOUT_S,
            lambda turn: self._is_shielded(turn.observed),
            enough=self._is_shielded,
        )
        return turn.observed

    async def _shield(self, reason: str, by: str) -> None:
        self._tell("rollback_started", reason=reason, by=by, stable_storage_uri=self._stable_uri)
        observed = await self.shield()
        if observed is not None:
            self._tell("weight_observed", weight=0, traffic=dict(observed.traffic))

    async def _reach_weight(self) -> Observed:
        """Takes turns until the traffic is seen to be as wanted."""
        timeout_s = self._ticket.spec.rollout.ready_timeout_s
        try:
            turn = await self._drive(
                self._goal(), timeout_s, lambda turn: isinstance(turn.action, Done), permit=self._hold
            )
        except UserError:
            # What looks like another's change may be the end of the canary by its guard.
            await asyncio.to_thread(self._wheel.require_not_ended)
            raise
        assert turn.observed is not None  # noqa: S101  Done is only said of what exists
        return turn.observed

    async def _drive(
        self,
        goal: Goal,
        timeout_s: float,
        reached: Callable[[Turn], bool],
        permit: Callable[[], None] | None = None,
        enough: Callable[[Observed | None], bool] = lambda observed: False,
    ) -> Turn:
        """Takes turns until one is as wanted; an API that is away is asked again until the time is up."""
        deadline, found = time.monotonic() + timeout_s, ""
        while time.monotonic() < deadline:
            try:
                turn = await asyncio.to_thread(take_turn, self._service, goal, permit, enough)
            except TransientError as error:
                found = str(error)
            else:
                if reached(turn):
                    return turn
                found = turn.action.reason
                if permit is not None:
                    await self._renew()
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
            generation=self._generation,
        )

    async def _go_on(self) -> None:
        """Takes over what an earlier watch saved: all of it if it was this one, else only its last reading."""
        saved = await asyncio.to_thread(self._journal.load)
        if saved is not None and saved.watch == self._name:
            self._take_over(saved)
        elif saved is not None:
            self._readings = saved.readings

    def _take_over(self, state: WatchState) -> None:
        self._name = state.watch
        self.judge = CanaryJudge.from_json(state.judge)
        self.elapsed_s = state.elapsed_s
        self.events: list[dict[str, Any]] = list(state.events)
        self._readings = state.readings

    async def _save(self) -> None:
        state = WatchState(self._name, self.judge.to_json(), self.elapsed_s, self.events, self._readings)
        await asyncio.to_thread(self._journal.save, state)

    async def _watch(self) -> tuple[Decision, Verdict]:
        """Window after window, until the plan says something else than to continue."""
        held = math.isinf(self._step.bake_s)
        report_at = time.monotonic() + (HOLD_REPORT_INTERVAL_S if held else REPORT_INTERVAL_S)
        if self._readings is None or {self._stable, self._candidate} - {*self._readings}:
            self._readings = await self._read()
        verdict = self.judge.standing()
        while True:
            began = time.monotonic()
            window, replayed = await self._windows(verdict)
            self.elapsed_s += time.monotonic() - began
            await self._require_as_planned()
            verdict = self._judged(window)
            # What was replayed while nobody saw the users stands for nothing.
            if window is not None and replayed is not None and verdict.status != "fail":
                verdict = self._judged(replayed)
            await self._save()
            decision = self._decide(verdict)
            if decision != "continue" or time.monotonic() > report_at:
                return decision, verdict

    def _decide(self, verdict: Verdict) -> Decision:
        """What the plan says."""
        if self._wheel.paused:
            log.info("the canary is paused: %s", self._wheel.paused)
        plan = self._plan_now()
        return decide(verdict, self.elapsed_s, plan.steps[self._index], plan)

    def _plan_now(self) -> CanaryPlan:
        """The plan; while a person has paused the canary it neither goes on nor runs out of time."""
        return self._plan.held(self._index) if self._wheel.paused else self._plan

    async def _windows(self, verdict: Verdict) -> tuple[Window | None, Window | None]:
        """The next window of users and, where `verdict` lacks their requests, one of replays beside it."""
        plan = self._plan_now()
        if not wants_top_up(verdict, self.elapsed_s, plan.steps[self._index], plan):
            return await self._window(), None
        over = asyncio.Event()
        stable_url, candidate_url = (self._urls.get(name, "") for name in (self._stable, self._candidate))
        replaying = asyncio.create_task(self._replay.run(stable_url, candidate_url, over))
        try:
            window = await self._window()
            over.set()
            while not replaying.done():
                await asyncio.wait({replaying}, timeout=READING_INTERVAL_S)
                await self._renew()
            return window, replaying.result()
        finally:
            replaying.cancel()

    async def _window(self) -> Window | None:
        """Reads again and again, to date the first bad answer, until there is new data at the window's end.

        :return: None where the source could not be read at the window's end, or never since it began.
        """
        ends, last = time.monotonic() + self._plan.window_s, self._readings
        interval_s = max(READING_INTERVAL_S, self._metrics.interval_s)
        while True:
            left_s = ends - time.monotonic()
            await asyncio.sleep(min(interval_s, left_s) if left_s > 0 else interval_s)
            reading = await self._read(last)
            if reading is not None:
                self._note_first_bad(last, reading)
                last = reading
                await self._renew()
            if time.monotonic() < ends:
                continue
            before, window = self._readings, None
            if before is not None and reading is not None:
                window = window_between(before, reading, stable=self._stable, candidate=self._candidate)
                if window is None:
                    # The same data again: a source that is asked more often than it scrapes. Its own limit of
                    # staleness ends this.
                    continue
            # A blind window is no window: what happened in it is counted by the next one.
            self._readings = reading if window is not None else before or last
            return window

    async def _renew(self) -> None:
        """Keeps the lease while the candidate boots or its answers can be seen; who is blind, or cut off, loses it."""
        if not self._wheel.is_due:
            return
        try:
            await asyncio.to_thread(self._hold)
        except TransientError as error:
            log.warning("the canary's lease could not be renewed: %s", error)

    async def _require_as_planned(self) -> None:
        """Notices what others do to the InferenceService; it is never overwritten here.

        :raises ForeignChangeError: it names another version, or the weight is another one.
        """
        goal = ShiftWeight(self._step.weight, self._ticket.storage_uri)
        try:
            observed = await asyncio.to_thread(look, self._service)
        except TransientError as error:
            log.warning("the InferenceService could not be looked at: %s", error)
            return
        if observed is not None:
            self._urls = observed.urls
        action = next_action(goal, observed)
        if isinstance(action, Patch | Impossible):
            await asyncio.to_thread(self._wheel.require_not_ended)
            raise ForeignChangeError(
                f"someone else changed the InferenceService {self._service.namespace}/{self._service.name}",
                expected=f"{self._ticket.storage_uri} at {self._step.weight} %",
                found=action.reason,
                remedy="ask who did it; the release is taken back as far as it is its own",
            )

    async def _read(self, before: Readings | None = None) -> Readings | None:
        """One reading of both revisions, with what `before` remembers; None where the source could not be read."""
        try:
            found = await asyncio.to_thread(self._metrics.read, [self._stable, self._candidate])
        except MetricsUnavailableError as error:
            self._blind = str(error)
            return None
        known = before or {}
        return {
            revision: reading.remembering(known[revision]) if revision in known else reading
            for revision, reading in found.items()
        }

    def _note_first_bad(self, before: Readings | None, after: Readings) -> None:
        errors = _errors(after[self._candidate])
        if self._first_bad_at is None and errors > (_errors(before[self._candidate]) if before else 0):
            self._first_bad_at = datetime.now(UTC)

    def _judged(self, window: Window | None) -> Verdict:
        """Lets the judge look at the window, and tells the record all it takes to judge it again.

        What users met is told apart from what was replayed: the counts are theirs, the verdict's window has its source.
        """
        judge = self.judge
        verdict = judge.observe_failure(self._blind) if window is None else judge.observe(window)
        totals = verdict.statistics["canary"]
        self._tell(
            "window_judged",
            verdict=verdict.to_dict(),
            candidate_requests=totals["candidate_requests"],
            candidate_errors=totals["candidate_errors"],
            first_bad_at=self._first_bad_at and self._first_bad_at.isoformat(),
        )
        return verdict

    def _tell_step(self, verdict: Verdict, reason: str) -> None:
        totals = verdict.statistics["step"]
        self._tell(
            "step_finished",
            weight=self._step.weight,
            verdict=verdict.status,
            reason=reason,
            candidate_requests=totals["candidate_requests"],
            candidate_errors=totals["candidate_errors"],
            seconds=self.elapsed_s,
        )

    def _is_shielded(self, observed: Observed | None) -> bool:
        """Whether the spec gives the candidate nothing, and no traffic was seen on its revision."""
        return observed is None or observed.is_shielded_from(self._ticket.storage_uri)

    def _tell(self, kind: str, **data: Any) -> None:
        """Keeps an event for the record; the worker writes it."""
        self.events.append({"kind": kind, "at": datetime.now(UTC).isoformat(), "data": data})


def _errors(reading: Reading) -> int:
    return reading.totals().errors
