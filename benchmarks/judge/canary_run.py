"""One canary before all judges."""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np

from benchmarks.judge.cell import ALL_PLANS, Cell
from benchmarks.judge.rules import Rule, RuleVerdict, others
from benchmarks.judge.traffic import draw
from slipway_core.canary.judge import CanaryJudge
from slipway_core.metrics.samples import Window
from slipway_core.spec.rollout.analysis import AnalysisPolicy
from slipway_core.spec.rollout.plan import CanaryPlan, RolloutStep


@dataclass(frozen=True)
class Watched:
    """How one judge ended one canary: the last status, when (seconds from the beginning), and how many
    requests the candidate had answered by then since its fault began.
    """

    status: str
    at_s: float
    requests: int


@dataclass(frozen=True)
class Outcome:
    """One canary: its plan and latency model, how ours ended it, and how the others did."""

    plan: str
    latency_model: str
    ours: Watched
    others: dict[str, Watched]


class SlipwayCanary:
    """The judge under test, asked as Slipway asks it: each weight of the plan is begun when its time has come
    and is watched for its whole bake.
    """

    def __init__(self, plan: CanaryPlan) -> None:
        self._judge = CanaryJudge(AnalysisPolicy())
        self._steps = list(plan.steps)
        self._seen_s = self._next_step_s = 0.0

    def observe(self, window: Window) -> RuleVerdict:
        """Take in one window and judge all that was seen so far."""
        if self._steps and self._seen_s >= self._next_step_s - 1e-6:
            step = self._steps.pop(0)
            self._judge.begin_step(step.weight, step.bake_s)
            self._next_step_s += step.bake_s
        # Streams are asked beside users, in the same time.
        self._seen_s += window.seconds if window.source == "users" else 0.0
        verdict = self._judge.observe(window)
        return RuleVerdict(verdict.status, verdict.reason)


def run_canary(cell: Cell, run: int, seed: int) -> Outcome:
    """Run canary number `run` of a cell; the same numbers give the same canary."""
    plan_name, latency_model = cell.setting(run)
    plan = ALL_PLANS[plan_name]
    end_s = sum(step.bake_s for step in plan.steps)
    rng = np.random.default_rng([seed, zlib.crc32(cell.name.encode()), run])
    recording = draw(cell.traffic, _extended(plan, cell.extension_s), latency_model, rng)
    minutes = list(recording.of_answers().by_minute().windows())
    fault_s = cell.traffic.fault_begins_s
    return Outcome(
        plan_name,
        latency_model.name,
        watch(SlipwayCanary(plan), recording.windows(), end_s=end_s, fault_s=fault_s),
        {
            name: watch(rule, minutes, end_s=end_s, fault_s=fault_s)
            for name, rule in others(end_s + cell.extension_s).items()
        },
    )


def watch(judge: Rule, windows: Iterable[Window], *, end_s: float, fault_s: float = 0.0) -> Watched:
    """Show a judge the windows one by one until it fails the candidate or, `end_s` seconds after the
    beginning or later, passes it.
    """
    at_s, requests, status = 0.0, 0, "inconclusive"
    for window in windows:
        if window.source == "users":
            at_s += window.seconds
            requests += window.candidate.requests if at_s > fault_s else 0
        status = judge.observe(window).status
        if status == "fail" or (status == "pass" and at_s >= end_s - 1e-6):
            break
    return Watched(status, at_s, requests)


def _extended(plan: CanaryPlan, extension_s: float) -> CanaryPlan:
    last = plan.steps[-1]
    return replace(
        plan,
        steps=(*plan.steps[:-1], RolloutStep(weight=last.weight, bake_s=last.bake_s + round(extension_s))),
    )
