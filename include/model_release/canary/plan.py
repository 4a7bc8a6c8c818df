"""The plan of a canary: which weights, how long each, and what a verdict means for the next move."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from include.model_release.canary.totals import Totals
from include.model_release.errors import SpecError

if TYPE_CHECKING:
    from include.model_release.canary.judge import Verdict

Decision = Literal["advance", "continue", "roll_back", "hold"]

_SPARE_WINDOWS = 3


@dataclass(frozen=True)
class CanaryStep:
    """One `weight` (percent of traffic, 1 to 99), watched for `bake_s` seconds at least."""

    weight: int
    bake_s: float


@dataclass(frozen=True)
class CanaryPlan:
    """The steps in order and the limits. Raises SpecError where weights do not rise within 1 to 99.

    A step may be prolonged to `max_bake_s` seconds while the judge cannot tell; then `on_inconclusive` says
    what happens (`top_up` is `rollback` with help before it: `wants_top_up`). After `max_blind_windows` windows
    in a row without metrics the canary ends likewise: nobody flies blind for long. `max_candidate_requests` and
    `max_candidate_errors` are the most that users may meet of the candidate before it is promoted, over the whole
    canary; beyond them it is rolled back.
    """

    steps: tuple[CanaryStep, ...]
    window_s: float = 10.0
    max_bake_s: float = 600.0
    on_inconclusive: Literal["hold", "rollback", "top_up"] = "rollback"
    max_blind_windows: int = 3
    max_candidate_requests: int | None = None
    max_candidate_errors: int | None = None

    def __post_init__(self) -> None:
        weights = [step.weight for step in self.steps]
        rising = all(low < high for low, high in itertools.pairwise(weights))
        if not weights or not rising or weights[0] < 1 or weights[-1] > 99:
            raise SpecError(
                "the steps of the canary do not make a plan",
                expected="at least one step, weights rising within 1 to 99 percent",
                found=f"weights {weights}",
                remedy="correct `rollout.steps` in the release file",
            )

    @classmethod
    def from_rollout(cls, rollout: Any) -> CanaryPlan:
        """Build the plan from `rollout` of a release file (an object with attributes of these names)."""
        return cls(
            steps=tuple(CanaryStep(step.weight, float(step.bake_s)) for step in rollout.steps),
            window_s=float(rollout.window_s),
            max_bake_s=float(rollout.max_bake_s),
            on_inconclusive=rollout.on_inconclusive,
            max_candidate_requests=rollout.exposure.max_requests,
            max_candidate_errors=rollout.exposure.max_errors,
        )

    def held(self, step: int) -> CanaryPlan:
        """Return the plan with one step that is watched without end, though a fail still ends it."""
        steps = [*self.steps]
        steps[step] = replace(steps[step], bake_s=math.inf)
        return replace(self, steps=tuple(steps))


def decide(
    verdict: Verdict,
    step_elapsed_s: float,
    step: CanaryStep,
    plan: CanaryPlan,
    unjudged: Totals | None = None,
) -> Decision:
    """Return the next move when the step was watched at its weight for `step_elapsed_s` seconds.

    A fail rolls back at once. A pass advances when the bake is over, not before: some faults need time. A
    step that is blind for too long, or undecided when its time is up, is held for a person or rolled back, as
    the plan says.
    """
    if verdict.status == "fail" or exposure_spent(verdict, plan, unjudged) is not None:
        return "roll_back"
    if verdict.blind and verdict.statistics.get("blind_windows", 0) >= plan.max_blind_windows:
        return _give_up(plan)
    if verdict.status == "pass":
        return "advance" if step_elapsed_s >= step.bake_s else "continue"
    # The judge counts the seconds of windows that it saw, which are fewer than the clock's: a step whose bake is as
    # long as the limit gets some windows more.
    if step_elapsed_s < max(plan.max_bake_s, step.bake_s + _SPARE_WINDOWS * plan.window_s):
        return "continue"
    return _give_up(plan)


def wants_top_up(verdict: Verdict, step_elapsed_s: float, step: CanaryStep, plan: CanaryPlan) -> bool:
    """Return whether golden requests shall be replayed during the next window, as far as the plan goes.

    They are when the bake is over and users have sent too little to one of the revisions to be judged by. Not while
    the source is blind: what is lacking then is not traffic. Not while a person holds the step: it does not end.
    """
    if plan.on_inconclusive != "top_up" or verdict.status != "inconclusive" or step_elapsed_s < step.bake_s:
        return False
    seen = verdict.statistics
    if verdict.blind or seen["blind_windows"]:
        return False
    fewest = min(seen["step"]["candidate_requests"], seen["canary"]["stable_requests"])
    return bool(fewest < seen["minimum_requests"])


def exposure_spent(verdict: Verdict, plan: CanaryPlan, unjudged: Totals | None = None) -> str | None:
    """Return which budget of the plan the canary has overdrawn, in words; None while it has not.

    A budget is what users may meet: replayed requests do not count, and those of times that nobody watched
    (`CanaryJudge.unjudged`) do.
    """
    seen, more = verdict.statistics.get("canary", {}), unjudged or Totals()
    requests = seen.get("candidate_requests", 0) + more.candidate_requests
    errors = seen.get("candidate_errors", 0) + more.candidate_errors
    budgets = (
        ("requests", requests, plan.max_candidate_requests),
        ("errors", errors, plan.max_candidate_errors),
    )
    for what, spent, budget in budgets:
        if budget is not None and spent > budget:
            return (
                f"The canary has used up its budget: {spent} candidate {what}, at most {budget} are allowed."
            )
    return None


def _give_up(plan: CanaryPlan) -> Decision:
    return "hold" if plan.on_inconclusive == "hold" else "roll_back"
