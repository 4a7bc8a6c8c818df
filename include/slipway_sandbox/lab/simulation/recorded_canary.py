"""Canaries as the operator and its watch record them, from seeded traffic; no clock, no cluster."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import numpy as np

from slipway_core.canary.judge import CanaryJudge
from slipway_core.canary.plan import decide, wants_golden_replay
from slipway_core.canary.verdict import Verdict
from slipway_core.metrics.samples import Sample, Window
from slipway_core.record.events import Event, EventWriter
from slipway_core.record.kinds import (
    EventData,
    Promoted,
    ReleaseFinished,
    ReleaseStarted,
    RollbackStarted,
    RolledBack,
    StageFinished,
    StageStarted,
    StepFinished,
    WeightIntended,
    WeightObserved,
    WindowJudged,
)
from slipway_core.spec.rollout.analysis import AnalysisPolicy
from slipway_core.spec.rollout.plan import CanaryPlan, RolloutStep

BOUNDS_MS = (0.5, 1, 2.5, 5, 10, 25, 50, 100, 250, 500, 1000, 2500, math.inf)
STEPS = (
    RolloutStep(weight=5, bake_s=120),
    RolloutStep(weight=25, bake_s=180),
    RolloutStep(weight=50, bake_s=180),
    RolloutStep(weight=99, bake_s=60),
)
STABLE_URI, CANDIDATE_URI = "s3://b/models/digits/2/repository", "s3://b/models/digits/3/repository"

# What the metrics source tells of one window at a weight, so many seconds after the canary began; text: no data.
Source = Callable[[float, int], "Window | str"]


@dataclass(frozen=True)
class Traffic:
    """Both revisions under load: requests/s in all, error rates, latency as a log-normal around `median_ms`."""

    rps: float = 50.0
    stable_errors: float = 0.005
    candidate_errors: float = 0.005
    slower: float = 1.0
    bad_after_s: float = 0.0
    median_ms: float = 8.0
    window_s: float = 10.0
    no_data_s: Sequence[tuple[float, float]] = ()
    seed: int = 1
    _rng: np.random.Generator = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_rng", np.random.default_rng(self.seed))

    def __call__(self, at_s: float, weight: int) -> Window | str:
        """Return what the metrics source tells of the window that ends at `at_s`; text where it cannot be read."""
        if any(began <= at_s < ended for began, ended in self.no_data_s):
            return "GET http://127.0.0.1:9901/stats/prometheus: connection refused (1 in a row): again"
        bad = at_s >= self.bad_after_s
        return Window(
            self.window_s,
            self._sample(self.rps * (100 - weight) / 100, self.stable_errors, self.median_ms),
            self._sample(
                self.rps * weight / 100,
                self.candidate_errors if bad else self.stable_errors,
                self.median_ms * (self.slower if bad else 1.0),
            ),
        )

    def _sample(self, rps: float, errors: float, median_ms: float) -> Sample:
        requests = int(self._rng.poisson(rps * self.window_s))
        latencies = self._rng.lognormal(math.log(median_ms), 0.6, requests)
        buckets = np.bincount(np.searchsorted(BOUNDS_MS, latencies), minlength=len(BOUNDS_MS))
        return Sample(
            requests,
            int(self._rng.binomial(requests, errors)),
            {float(bound): int(count) for bound, count in zip(BOUNDS_MS, buckets, strict=True)},
        )


class Story:
    """The record of one version, written as releases of it go by; `events` is what is in the store.

    :param not_seen: what the metrics source of its canaries cannot see, in words.
    """

    def __init__(
        self,
        policy: AnalysisPolicy | None = None,
        release_id: str = "manual__1",
        *,
        not_seen: tuple[str, ...] = (),
    ) -> None:
        self.not_seen = not_seen
        self.policy = policy or AnalysisPolicy()
        self.events: list[Event] = []
        self.verdicts: list[Verdict] = []
        self.now = datetime(2026, 11, 21, 12, 0, 7, 250000, tzinfo=UTC)
        self._writer = EventWriter(release_id, "digits", 3)
        self.tell(ReleaseStarted(stable_storage_uri=STABLE_URI))

    def tell(self, data: EventData) -> None:
        """Append an event, as read back from the store."""
        event = self._writer.event(len(self.events) + 1, self.now, data)
        self.events.append(Event.from_bytes(event.to_bytes()))

    def release_again(self, release_id: str) -> None:
        """Begin another release of the same version."""
        self._pass(60.0)
        self._writer = EventWriter(release_id, "digits", 3)
        self.tell(ReleaseStarted(stable_storage_uri=STABLE_URI))

    def canary(
        self,
        source: Source,
        steps: Sequence[RolloutStep] = STEPS,
        windows: int | None = None,
        replays: Source | None = None,
        **plan: Any,
    ) -> str:
        """Watch a canary to its end, or die after so many `windows`; a judge of its own, from the first step.

        With `replays` golden requests are replayed where the plan wants a golden replay.

        Returns how it ended: `advance`, `roll_back`, `hold` or `died`.
        """
        planned = CanaryPlan(steps=tuple(steps), **plan)
        judge, left = CanaryJudge(self.policy), itertools.count() if windows is None else iter(range(windows))
        judge.not_seen = self.not_seen
        self.verdicts, began = [], self.now
        self.tell(StageStarted(stage="canary"))
        decision = "died"
        for step in planned.steps:
            judge.begin_step(step.weight, step.bake_s)
            self.tell(
                WeightIntended(weight=step.weight, storage_uri=CANDIDATE_URI, stable_storage_uri=STABLE_URI)
            )
            self._pass(1.4)
            self.tell(WeightObserved(weight=step.weight, traffic={"c": step.weight, "s": 100 - step.weight}))
            decision = self._watch(judge, source, step, planned, left, began, replays)
            if decision != "advance":
                break
        outcome = {"advance": "passed", "roll_back": "refused"}.get(decision, "failed")
        self.tell(StageFinished(stage="canary", outcome=outcome, reason=self.verdicts[-1].reason))
        return decision

    def _watch(
        self,
        judge: CanaryJudge,
        source: Source,
        step: RolloutStep,
        plan: CanaryPlan,
        left: Iterator[int],
        began: datetime,
        replays: Source | None,
    ) -> str:
        elapsed_s, verdict = 0.0, judge.standing()
        for _ in left:
            self._pass(plan.window_s)
            replaying = wants_golden_replay(verdict, elapsed_s, step, plan)
            elapsed_s += plan.window_s
            at_s = (self.now - began).total_seconds()
            seen = [source(at_s, step.weight)]
            if replays is not None and replaying:
                seen.append(replace(cast(Window, replays(at_s, 50)), source="replay"))
            verdict = [self._judged(judge, window) for window in seen][-1]
            decision = decide(verdict, elapsed_s, step, plan)
            if decision == "continue":
                continue
            if decision != "hold":
                self._tell_step(step, verdict, elapsed_s)
            if decision == "roll_back":
                self.tell(RollbackStarted(reason=verdict.reason, by="judge", stable_storage_uri=STABLE_URI))
                self._pass(0.8)
                self.tell(WeightObserved(weight=0, traffic={"s": 100}))
            return decision
        return "died"

    def _judged(self, judge: CanaryJudge, seen: Window | str) -> Verdict:
        verdict = judge.observe_failure(seen) if isinstance(seen, str) else judge.observe(seen)
        self.verdicts.append(verdict)
        totals = verdict.statistics.canary
        self.tell(
            WindowJudged(
                verdict=verdict.to_dict(),
                candidate_requests=totals.candidate_requests,
                candidate_errors=totals.candidate_errors,
                first_bad_at=self.now if totals.candidate_errors else None,
            )
        )
        return verdict

    def _tell_step(self, step: RolloutStep, verdict: Verdict, elapsed_s: float) -> None:
        totals = verdict.statistics.step
        self.tell(
            StepFinished(
                weight=step.weight,
                verdict=verdict.status,
                reason=verdict.reason,
                candidate_requests=totals.candidate_requests,
                candidate_errors=totals.candidate_errors,
                seconds=elapsed_s,
            )
        )

    def promote(self) -> None:
        """Give the candidate all traffic and end the release."""
        self._pass(2.5)
        self.tell(StageStarted(stage="promote"))
        self._pass(1.1)
        self.tell(WeightObserved(weight=100, traffic={"c": 100}))
        self.tell(Promoted(storage_uri=CANDIDATE_URI))
        self.tell(StageFinished(stage="promote", outcome="passed"))
        self.tell(ReleaseFinished(outcome="promoted"))

    def restore(self, by: str = "judge", reason: str = "") -> None:
        """End the rollback: by whom it was begun, if the judge has not begun it."""
        self._pass(3.0)
        if by != "judge":
            self.tell(RollbackStarted(reason=reason, by=by, stable_storage_uri=STABLE_URI))
        self._pass(1.0)
        weight_0_at = None if by == "judge" else self.now
        self._pass(9.0)
        self.tell(
            RolledBack(
                stable_storage_uri=STABLE_URI,
                candidate_requests=None,
                candidate_errors=None,
                weight_0_at=weight_0_at,
            )
        )
        self.tell(ReleaseFinished(outcome="rolled_back"))

    def _pass(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds, milliseconds=3)
