"""Which of the trials is the best, and which of them no other beats in everything."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from slipway_core.tuning.objective import Objective
from slipway_core.tuning.settings import Setting
from slipway_core.tuning.trials import Trial


def choose_best(trials: Iterable[Trial], objective: Objective, present: Setting) -> Trial | None:
    """Return the trial to propose: of those that are about as good as the best, the one that changes or takes least.

    About as good is within `gain_min_percent` of the best cost: that much no single trial can tell apart. Of these the
    present setting comes first, then fewer instances, less delay, fewer preferred sizes.

    :returns: None if no setting was measured to its end and keeps the service level.
    """
    kept = kept_trials(trials, objective)
    costs = {one.number: cost_of(one, objective) for one in kept}
    if not kept:
        return None
    lowest = min(costs.values())
    most = lowest + abs(lowest) * objective.tuning.gain_min_percent / 100.0
    alike = [one for one in kept if costs[one.number] <= most]
    return min(alike, key=lambda one: (one.setting != present, one.setting.simplicity, costs[one.number]))


def kept_trials(trials: Iterable[Trial], objective: Objective) -> list[Trial]:
    """Return the trials that were measured to their end and keep the service level, without the repeat of the first."""
    return [
        one
        for one in trials
        if one.state == "complete" and one.kind != "defaults_again" and not objective.misses(one.points)
    ]


def cost_of(trial: Trial, objective: Objective) -> float:
    """Return what a trial that was measured costs, by all its rounds."""
    return objective.costs(trial.points)[-1]


def pareto_front(points: Sequence[tuple[float, float]]) -> list[int]:
    """Return the places of the points that no other point beats: in both figures at most as high, in one lower.

    They are in the order of the first figure; of equal points each is returned.
    """
    front: list[int] = []
    for place in sorted(range(len(points)), key=lambda place: points[place]):
        first, second = points[place]
        lowest = points[front[-1]] if front else None
        if lowest is None or second < lowest[1] or (first, second) == lowest:
            front.append(place)
    return front


def drift_percent(trials: Iterable[Trial], objective: Objective) -> float | None:
    """Return by how much Triton's defaults changed from the first trial to the last; None: one was not measured.

    It is the machine that changed: the setting is the same. Above 0: the figure is higher than it was.
    """
    by_kind = {one.kind: one for one in trials if one.state == "complete"}
    if not {"defaults", "defaults_again"} <= by_kind.keys():
        return None
    before, after = (cost_of(by_kind[kind], objective) for kind in ("defaults", "defaults_again"))
    return 100.0 * (after - before) / before if before else None
