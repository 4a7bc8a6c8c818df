"""The confirmation: the best setting and what it is held against, both loaded, measured in turns."""

from __future__ import annotations

from typing import Literal

from slipway.tuning.evidence import TuningEvidence, comparison_folder
from slipway.tuning.search import Measure, Wanted
from slipway.tuning.staged import StagedTrials
from slipway_core.tuning.objective import Objective
from slipway_core.tuning.settings import Setting
from slipway_core.tuning.trials import Point, TrialComparison, TuningPlan

Against = Literal["defaults", "present"]
# Far above the numbers of the trials' measurements.
_NUMBERS: dict[Against, int] = {"defaults": 1_000_000, "present": 2_000_000}


def comparisons_of(plan: TuningPlan, best: Setting) -> list[tuple[Against, Setting]]:
    """Return what the best setting is to be held against: Triton's defaults, and the present setting."""
    against: list[tuple[Against, Setting]] = [("defaults", plan.defaults), ("present", plan.present)]
    others = [one for one in against if one[1] != best]
    return others[:1] if plan.present == plan.defaults else others


def confirm(
    plan: TuningPlan, evidence: TuningEvidence, staged: StagedTrials, measure: Measure, best: Setting
) -> list[TrialComparison]:
    """Return the comparisons; those that the bucket has are not made again."""
    return [
        _kept(evidence, against, best) or _compared(plan, evidence, staged, measure, best, against, other)
        for against, other in comparisons_of(plan, best)
    ]


def _kept(evidence: TuningEvidence, against: Against, best: Setting) -> TrialComparison | None:
    kept = evidence.comparison(against)
    return kept if kept is not None and kept.candidate == best else None


def _compared(
    plan: TuningPlan,
    evidence: TuningEvidence,
    staged: StagedTrials,
    measure: Measure,
    best: Setting,
    against: Against,
    other: Setting,
) -> TrialComparison:
    mine, theirs = list[Point](), list[Point]()
    try:
        names = (staged.load("trial", best), staged.load("reference", other))
        for place, load in enumerate(Objective(plan.tuning, plan.slo).loads()):
            wanted = Wanted(
                folder=f"{comparison_folder(against)}load-{place + 1}/",
                models=names,
                load=load,
                rounds=plan.tuning.confirm_rounds,
                first_round=1,
                number=_NUMBERS[against] + place,
            )
            first, second = measure(wanted)
            mine += first
            theirs += second
    finally:
        staged.unload()
    comparison = TrialComparison(
        against=against,
        candidate=best,
        baseline=other,
        candidate_points=tuple(mine),
        baseline_points=tuple(theirs),
    )
    evidence.write_comparison(comparison)
    return comparison
