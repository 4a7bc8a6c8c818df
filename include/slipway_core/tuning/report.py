"""The report of a tuning as one JSON document; the page is made of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime
from typing import Any

from slipway_core.tuning.change import ProposedChange
from slipway_core.tuning.choice import cost_of, drift_percent, kept_trials, pareto_front
from slipway_core.tuning.conclusion import Conclusion, RatioInterval, figures
from slipway_core.tuning.objective import Objective, rounds_of
from slipway_core.tuning.trials import Trial, TrialComparison, TuningPlan


def tuning_report(
    plan: TuningPlan,
    trials: Sequence[Trial],
    comparisons: Sequence[TrialComparison],
    conclusion: Conclusion,
    change: ProposedChange | None,
    at: datetime,
) -> dict[str, Any]:
    """Return the report.

    :param change: what is proposed; None: nothing.
    """
    objective = Objective(plan.tuning, plan.slo)
    drift = drift_percent(trials, objective)
    return {
        "model": plan.model,
        "version": plan.version,
        "run": plan.run,
        "created_at": at.isoformat(),
        "manifest_sha256": plan.manifest_sha256,
        "objective": objective.label(),
        "figure": objective.figure,
        "status": conclusion.status,
        "summary": conclusion.summary,
        "best_trial": None if conclusion.best is None else conclusion.best.number,
        "best": None if conclusion.best is None else conclusion.best.setting.label(),
        "present": plan.present.label(),
        "against_defaults": _interval(conclusion.against_defaults),
        "against_present": _interval(conclusion.against_present),
        "drift_percent": None if drift is None else round(drift, 2),
        "seconds": round(sum(one.seconds for one in trials), 1),
        "left_out": plan.space.left_out,
        "loads": [load.label for load in objective.loads()],
        "plan": plan.model_dump(mode="json"),
        "trials": [_row(one, objective) for one in trials],
        "picture": picture(trials, objective),
        "comparisons": [
            {
                "against": one.against,
                "candidate": one.candidate.label(),
                "baseline": one.baseline.label(),
                "candidate_figures": figures(one.candidate_points, objective),
                "baseline_figures": figures(one.baseline_points, objective),
            }
            for one in comparisons
        ],
        "proposed_diff": None if change is None else change.diff,
    }


def picture(trials: Sequence[Trial], objective: Objective) -> dict[str, Any]:
    """Return the points of the Pareto picture: latency against what it costs, or against the throughput.

    A point is on the front when no other is better in both. Only trials that keep the service level can be.
    """
    measured = [one for one in trials if one.points]
    kept = kept_trials(trials, objective)
    places = {one.number: _place(one, objective) for one in measured}
    # Both are to be small; of a throughput that is its negative.
    sign = -1.0 if objective.is_throughput else 1.0
    front = pareto_front([(sign * places[one.number][0], places[one.number][1]) for one in kept])
    on_front = [kept[place].number for place in front]
    return {
        "x": "throughput (answers/s)" if objective.is_throughput else "instances",
        "y": f"{objective.tuning.quantile} (ms)",
        "front": on_front,
        "points": [
            {
                "trial": one.number,
                "kind": one.kind,
                "state": one.state,
                "keeps": one in kept,
                "x": places[one.number][0],
                "y": places[one.number][1],
            }
            for one in measured
        ],
    }


def _place(trial: Trial, objective: Objective) -> tuple[float, float]:
    best = [objective.best_of_round(one) for one in rounds_of(trial.points)]
    middle = sorted(best, key=objective.latency_ms)[(len(best) - 1) // 2]
    x = middle.throughput_rps if objective.is_throughput else float(trial.setting.instances or 1)
    return x, objective.latency_ms(middle)


def _row(trial: Trial, objective: Objective) -> dict[str, Any]:
    row = trial.model_dump(mode="json")
    cost = cost_of(trial, objective) if trial.points else None
    return {
        **row,
        "label": trial.setting.label(),
        "cost": cost,
        "rounds": len(rounds_of(trial.points)),
        "misses": list(objective.misses(trial.points)) if trial.state == "complete" else [],
    }


def _interval(interval: RatioInterval | None) -> dict[str, Any] | None:
    if interval is None:
        return None
    return {**asdict(interval), "change_percent": round(interval.change_percent, 2)}
