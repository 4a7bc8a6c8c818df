"""One step of a canary as it happens: reach the weight, watch the users, let the judge look at every window.

What protects users waits for nothing: a window is judged, decided on and, if need be, carried out before anything is
saved, and each dependency (metrics, cluster, object store, and the cluster once more for the way back) is asked in a
thread of its own. One that hangs costs what only it can give: without metrics the watch has no data and is soon
over, without the cluster no weight is raised, without the object store the step goes on but does not end.
"""

from __future__ import annotations

import asyncio
import logging
import time
from typing import TYPE_CHECKING, Literal

from slipway.metrics.source import MetricsSource
from slipway.read_model.live_writer import LiveTeller
from slipway.release_run import ReleaseRun
from slipway.traffic.checkpoint import JournalKeeper, WatchState
from slipway.traffic.shield import CanaryShield
from slipway.traffic.step_cluster import CanaryCluster
from slipway.traffic.window_reader import WindowReader
from slipway_core.canary.judge import CanaryJudge
from slipway_core.canary.log_lines import step_line, window_line
from slipway_core.canary.plan import Decision, decide, exposure_spent, wants_golden_replay
from slipway_core.canary.verdict import Verdict
from slipway_core.errors import (
    CanaryEndedError,
    CanaryPausedError,
    ReleaseHeldError,
    SlipwayError,
)
from slipway_core.metrics.samples import Window
from slipway_core.metrics.source_kind import visibility_of
from slipway_core.read_model.live_fold import Watched
from slipway_core.record.events import PendingEvent
from slipway_core.record.kinds import (
    EventData,
    RollbackStarted,
    StepFinished,
    WeightObserved,
    WindowJudged,
)
from slipway_core.spec.rollout.plan import CanaryPlan

if TYPE_CHECKING:
    from slipway.traffic.golden_replay import GoldenReplay
    from slipway.traffic.streams.probes import StreamProbes

log = logging.getLogger(__name__)

REPORT_INTERVAL_S = 60.0
# A person who has answered does not want to wait for the report of a watch.
HOLD_REPORT_INTERVAL_S = 15.0
# How long a watch that could end waits for the cluster, and for its state to be saved, before it watches on.
ANSWER_LIMIT_S = 1.0
# After a rollback users are safe.
SAVE_LIMIT_AFTER_ROLLBACK_S = 5.0
# A metrics source has its own limit, within which it says what is wrong.
_SPARE_S = 2.0

StepEnd = Decision | Literal["paused", "held"]


class StepWatch:
    """Carry one step out.

    `elapsed_s` is for how long the step was watched; its bake is the part of that in which users asked the candidate.

    :param state: where the step stands; a watch of the same name that was broken off is gone on with.
    :param cluster: the step's weight and lease.
    :param live: updates pages after every window; nothing waits for it.
    :param hold: only watch and report, whatever the step's time.
    :param until_resumed: only watch while the canary is paused.
    """

    def __init__(
        self,
        release_run: ReleaseRun,
        plan: CanaryPlan,
        step: int,
        state: WatchState,
        *,
        cluster: CanaryCluster,
        shield: CanaryShield,
        metrics: MetricsSource,
        journal: JournalKeeper,
        replay: GoldenReplay,
        streams: StreamProbes,
        live: LiveTeller,
        hold: bool = False,
        until_resumed: bool = False,
    ) -> None:
        self._release_run = release_run
        self._plan, self._step, self._number = plan, plan.steps[step], step
        self._cluster, self._shield, self._journal, self._replay = cluster, shield, journal, replay
        self._streams = streams
        self._live, self._hold, self._until_resumed = live, hold, until_resumed
        self._reader = WindowReader(
            metrics,
            plan.window_s,
            release_run.spec.rollout.metrics.timeout_s + _SPARE_S,
            on_reading=lambda: self._cluster.poll(),
            on_unwatched=lambda window: self.judge.count_unjudged(window),
        )
        self._stable = self._candidate = ""
        self._seen_weight: int | None = None
        self._logged_status = self._logged_pause = ""
        self._take_over(state)

    async def run(self) -> StepEnd:
        """Watch until the step is decided, or until it is time to report.

        :return: ``continue`` to report, ``paused`` where a person does not want the step's weight to be given now,
            ``held`` where a freeze or a release window does not; anything else ends the step. After ``roll_back`` the
            weight is 0 already, unless the cluster could not be brought to it.
        """
        await self._go_on()
        await self._shield.prepare()
        try:
            decision, reason, by = *await self._bake(), "judge"
        except CanaryPausedError as paused:
            log.info("the step waits: %s", paused.in_short())
            return "paused"
        except ReleaseHeldError as held:
            log.info("the step waits: %s", held)
            return "held"
        except CanaryEndedError as ended:
            decision, reason, by = "roll_back", ended.found or ended.what, self._cluster.ended_by
        finally:
            self._cluster.stop()
            self._streams.stop()
            self._replay.stop()
        if decision == "roll_back":
            await self._take_back(reason, by)
        return decision

    async def shield(self) -> None:
        """Take the candidate to weight 0, whatever the watch is doing."""
        await self._shield.take_to_zero()

    async def _bake(self) -> tuple[Decision, str]:
        """Bring the candidate to the step's weight and watch it there."""
        self._show(self.judge.standing())
        self._cluster.on_waiting = lambda: self._show(self.judge.standing())
        observed = await self._cluster.reach_weight()
        self._stable = observed.stable_revision
        self._candidate = observed.revision_of(self._release_run.storage_uri)
        self._seen_weight = observed.traffic.get(self._candidate)
        self._reader.begin(self._stable, self._candidate)
        await self._cluster.pods.begin(self._candidate)
        self._streams.begin(self._own_urls)
        if self.elapsed_s == 0:
            plan, step = self._plan, self._step
            steps, seen = len(plan.steps), self._seen_weight
            log.info(step_line(self._number, steps, step.weight, seen, step.bake_s, plan.window_s))
            self._tell(WeightObserved(weight=self._step.weight, traffic=dict(observed.traffic)))
        self._show(self.judge.standing())
        decision, verdict = await self._watch()
        reason = exposure_spent(verdict, self._plan, self.judge.unjudged) or verdict.reason
        if verdict.status == "inconclusive" and self._replay.obstacle:
            reason += f" No golden requests were replayed: {self._replay.obstacle}."
        if decision in ("advance", "roll_back"):
            self._tell_step(verdict, reason)
        if decision in ("advance", "hold"):
            self._show(verdict, decision)
        return decision, reason

    async def _take_back(self, reason: str, by: str) -> None:
        """Shield the users, then report it. What hinders that hinders the rollback of the release as well, which
        tries on; it makes no other decision of this one.
        """
        stable_uri = "" if self._release_run.stable is None else self._release_run.stable.storage_uri
        log.warning("users are moved back, by %s%s", by, "" if by == "judge" else f": {reason}")
        self._tell(RollbackStarted(reason=reason, by=by, stable_storage_uri=stable_uri))
        try:
            observed = await self._shield.take_to_zero()
        except SlipwayError as error:
            log.error("the candidate's weight could not be set to 0: %s", error)
        else:
            if observed is not None:
                log.info("no new requests reach the candidate: the traffic shows weight 0")
                self._seen_weight = 0
                self._tell(WeightObserved(weight=0, traffic=dict(observed.traffic)))
        self._show(self.judge.standing(), "roll_back")
        self._journal.save(self._state())
        await self._journal.is_saved(SAVE_LIMIT_AFTER_ROLLBACK_S)

    async def _go_on(self) -> None:
        """Take over what an earlier watch saved: all of it if it was this one, else only its last reading."""
        saved = await self._journal.load()
        if saved is None:
            return
        try:
            if saved.watch == self._name:
                self._take_over(saved)
            else:
                self._reader.readings = saved.readings
        except SlipwayError as error:
            log.warning("the canary's journal holds no judge, the step's watch starts again: %s", error)

    def _take_over(self, state: WatchState) -> None:
        self.judge = CanaryJudge.from_json(state.judge)
        self.judge.not_seen = visibility_of(self._release_run.spec.rollout.metrics).unseen
        self._name = state.watch
        self.elapsed_s = state.elapsed_s
        self.events = list(state.events)
        self._reader.readings = state.readings

    def _state(self) -> WatchState:
        return WatchState(
            self._name, self.judge.to_json(), self.elapsed_s, list(self.events), self._reader.readings
        )

    async def _watch(self) -> tuple[Decision, Verdict]:
        """Judge window after window, until the plan says something else than to continue, or it is time to report.

        While the object store or the cluster does not answer, the watch goes on instead: the task that a report wakes
        could not write it down, the next watch could not begin, and nobody would watch meanwhile.
        """
        report_at = time.monotonic() + (HOLD_REPORT_INTERVAL_S if self._hold else REPORT_INTERVAL_S)
        verdict = self.judge.standing()
        while True:
            window, replaying = await self._windows(verdict)
            window = None if window is None else await self._cluster.pods.marked(window)
            # Time in which nobody watched does not end the step; nor is it time of the bake, which the judge counts.
            self.elapsed_s += 0.0 if window is None else window.seconds
            # First, so that the window of users, or that it gave no data, has the last word.
            streamed = self._streams.take()
            if streamed is not None:
                self._judged(await self._cluster.pods.marked(streamed))
            verdict = self._judged(window)
            if replaying is not None:
                verdict = await self._with_replayed(replaying, verdict, window)
            decision = self._decide(verdict)
            if decision == "roll_back":
                return decision, verdict
            self._journal.save(self._state())
            self._show(verdict)
            if decision == "continue" and not self._until_resumed and time.monotonic() < report_at:
                if window is not None:
                    self._cluster.poll(look_too=True)
                continue
            if not await self._cluster.answers(ANSWER_LIMIT_S, renew=window is not None):
                continue
            # The answer may report a pause, which stops the one end, or the end of a pause, which is another.
            decision, resumed = self._decide(verdict), self._until_resumed and not self._cluster.paused
            if decision == "continue" and not resumed and time.monotonic() < report_at:
                continue
            if decision == "advance" and not await self._streams.is_known(ANSWER_LIMIT_S):
                continue
            if await self._journal.is_saved(ANSWER_LIMIT_S):
                return decision, verdict

    async def _with_replayed(
        self, replaying: asyncio.Task[Window | None], verdict: Verdict, window: Window | None
    ) -> Verdict:
        """Return the verdict when also the replays beside the window are judged.

        A candidate that fails its users is not waited for, and what was replayed while nobody saw the users counts for
        nothing.
        """
        try:
            while not replaying.done() and self._decide(verdict) != "roll_back":
                await asyncio.wait({replaying}, timeout=ANSWER_LIMIT_S)
                if window is not None:
                    self._cluster.poll()
            replayed = replaying.result() if replaying.done() else None
        finally:
            replaying.cancel()
        if window is None or replayed is None or verdict.status == "fail":
            return verdict
        return self._judged(replayed)

    def _decide(self, verdict: Verdict) -> Decision:
        """Return what the plan says."""
        if self._cluster.paused != self._logged_pause:
            self._logged_pause = self._cluster.paused
            log.info(
                "%s",
                f"the canary is paused: {self._logged_pause}"
                if self._logged_pause
                else "the canary continues",
            )
        return decide(
            verdict,
            verdict.statistics.step.baked_s,
            self._step,
            self._plan,
            self.judge.unjudged,
            held=self._is_held,
            watched_s=self.elapsed_s,
        )

    @property
    def _is_held(self) -> bool:
        """Whether the step neither goes on nor runs out of time: a person thinks, or has paused the canary."""
        return self._hold or bool(self._cluster.paused)

    async def _windows(self, verdict: Verdict) -> tuple[Window | None, asyncio.Task[Window | None] | None]:
        """Return the next window of users and, where `verdict` lacks their requests, replays that end with it."""
        if not wants_golden_replay(verdict, self.elapsed_s, self._step, self._plan, held=self._is_held):
            return await self._reader.window(), None
        over = asyncio.Event()
        stable_url, candidate_url = self._own_urls()
        replaying = asyncio.create_task(self._replay.run(stable_url, candidate_url, over))
        try:
            window = await self._reader.window()
        except BaseException:
            replaying.cancel()
            raise
        over.set()
        return window, replaying

    def _own_urls(self) -> tuple[str, str]:
        """Return the URLs that lead to stable and to the candidate alone, "" where there is none."""
        return self._cluster.urls.get(self._stable, ""), self._cluster.urls.get(self._candidate, "")

    def _judged(self, window: Window | None) -> Verdict:
        """Let the judge look at the window, and tell the record all it takes to judge it again.

        What users met is kept apart from what was replayed: the counts are theirs, those of times that nobody watched
        included; the verdict's window has its source.
        """
        judge, first_bad_at = self.judge, self._reader.first_bad_at
        verdict = (
            judge.observe_failure(self._reader.no_data_reason) if window is None else judge.observe(window)
        )
        verdict = self._streams.explained(verdict)
        totals, more = verdict.statistics.canary, judge.unjudged
        self._tell(
            WindowJudged(
                verdict=verdict.to_dict(),
                candidate_requests=totals.candidate_requests + more.candidate_requests,
                candidate_errors=totals.candidate_errors + more.candidate_errors,
                first_bad_at=first_bad_at,
            )
        )
        self._live.judged(verdict)
        log.info(window_line(verdict, self.events[-1].at))
        if verdict.status != self._logged_status:
            self._logged_status = verdict.status
            log.info("%s: %s", verdict.status, verdict.reason)
        return verdict

    def _show(self, verdict: Verdict, decision: str = "") -> None:
        """Update pages on where the step stands; users come first, so never before what protects them.

        :param decision: at the end of the step.
        """
        release_run = self._release_run
        self._live.tell(
            Watched(
                model=release_run.model,
                version=release_run.version,
                release_id=release_run.release_id,
                step=self._number,
                weight_observed=self._seen_weight,
                elapsed_s=verdict.statistics.step.baked_s,
                held=self._hold,
                paused=self._cluster.paused,
                decision=decision,
                verdict=verdict,
                unjudged=self.judge.unjudged,
                waiting=self._cluster.waiting,
            )
        )

    def _tell_step(self, verdict: Verdict, reason: str) -> None:
        why = "" if reason == verdict.reason else f". {reason}"  # the verdict's own was logged with it
        log.info("the step at %s %% is over: %s%s", self._step.weight, verdict.status, why)
        totals = verdict.statistics.step
        self._tell(
            StepFinished(
                weight=self._step.weight,
                verdict=verdict.status,
                reason=reason,
                candidate_requests=totals.candidate_requests,
                candidate_errors=totals.candidate_errors,
                seconds=self.elapsed_s,
            )
        )

    def _tell(self, data: EventData) -> None:
        """Keeps an event for the record; the worker writes it."""
        self.events.append(PendingEvent.now(data))
