"""What a verdict means for the next move: advance, go on, go back, or wait for a person."""

from __future__ import annotations

from typing import Literal

from slipway_core.canary.totals import CLOCK_ERROR_S, Totals
from slipway_core.canary.verdict import Verdict
from slipway_core.spec.rollout.plan import CanaryPlan, RolloutStep

Decision = Literal["advance", "continue", "roll_back", "hold"]

_SPARE_WINDOWS = 3
_NOTHING = Totals()


def decide(
    verdict: Verdict,
    step_elapsed_s: float,
    step: RolloutStep,
    plan: CanaryPlan,
    unjudged: Totals = _NOTHING,
    *,
    held: bool = False,
    watched_s: float | None = None,
) -> Decision:
    """Return the next move when the step has baked at its weight for `step_elapsed_s` seconds.

    A fail rolls back at once. A pass advances when the bake is over, not before: some faults need time. A step that
    had no data for too long, or is undecided when its time is up, is held for a person or rolled back, as the plan
    says.

    :param unjudged: what users met while nobody watched (`CanaryJudge.unjudged`).
    :param held: a person holds the step: it has no end, though a fail and a lack of data still end it.
    :param watched_s: how long the step was watched, including time without candidate requests. Such time is not bake
        time, but it ends a step that cannot be judged. None: as long as it has baked.
    """
    if verdict.status == "fail" or exposure_spent(verdict, plan, unjudged) is not None:
        return "roll_back"
    if verdict.no_data and verdict.statistics.no_data_windows >= plan.max_no_data_windows:
        return _give_up(plan)
    if held:
        return "continue"
    if verdict.status == "pass":
        return "advance" if step_elapsed_s >= step.bake_s - CLOCK_ERROR_S else "continue"
    # The judge counts the seconds of windows that it saw, which are fewer than the clock's: a step whose bake is as
    # long as the limit gets some windows more.
    lasts_s = step_elapsed_s if watched_s is None else max(watched_s, step_elapsed_s)
    if lasts_s < max(plan.max_bake_s, step.bake_s + _SPARE_WINDOWS * plan.window_s):
        return "continue"
    return _give_up(plan)


def wants_golden_replay(
    verdict: Verdict, step_elapsed_s: float, step: RolloutStep, plan: CanaryPlan, *, held: bool = False
) -> bool:
    """Return whether golden requests shall be replayed during the next window, as far as the plan goes.

    They are when the bake's time has gone by (`step_elapsed_s` seconds were watched, whoever asked) and users have sent
    too little to one of the revisions to judge by, or nothing for a part of that time. Not while the metrics source has
    no data: what is lacking then is not traffic. Not while a person holds the step: it has no end.
    """
    if held or plan.on_inconclusive != "golden_replay":
        return False
    if verdict.status != "inconclusive" or step_elapsed_s < step.bake_s:
        return False
    seen = verdict.statistics
    if verdict.no_data or seen.no_data_windows:
        return False
    if seen.step.baked_s < seen.bake_s - CLOCK_ERROR_S:
        return True
    return min(seen.step.candidate_requests, seen.canary.stable_requests) < seen.minimum_requests


def exposure_spent(verdict: Verdict, plan: CanaryPlan, unjudged: Totals = _NOTHING) -> str | None:
    """Return which budget of the plan the canary has overdrawn, in words; None while it has not.

    A budget is what users may meet: replayed requests do not count, and those of times that nobody watched
    (`CanaryJudge.unjudged`) do.
    """
    seen = verdict.statistics.canary
    requests = seen.candidate_requests + unjudged.candidate_requests
    errors = seen.candidate_errors + unjudged.candidate_errors
    budgets = (
        ("requests", requests, plan.exposure.max_requests),
        ("errors", errors, plan.exposure.max_errors),
    )
    for what, spent, budget in budgets:
        if budget is not None and spent > budget:
            return (
                f"The canary has used up its budget: {spent} candidate {what}, at most {budget} are allowed."
            )
    return None


def _give_up(plan: CanaryPlan) -> Decision:
    return "hold" if plan.on_inconclusive == "hold" else "roll_back"
