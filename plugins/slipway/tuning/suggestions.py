"""What Optuna says: which setting to try next, and whether the one under way is hopeless.

Its study lives in memory for one question, and is made of the trials that the bucket holds: so nothing is lost with a
task that is killed, and the same trials and seed give the same answer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from slipway_core.tuning.objective import Objective
from slipway_core.tuning.settings import Setting, Space
from slipway_core.tuning.trials import Trial, TrialState, TuningPlan

if TYPE_CHECKING:
    import optuna

# Trials that are drawn at random before the model of the earlier ones counts.
_AT_RANDOM = 5
# Trials that must have ended before one may be called hopeless.
_ENDED_BEFORE = 2
# Of the trials so far, the share that a round must be among. Not the better half: a busy machine puts good settings
# into the worse one.
_KEPT_PERCENT = 75.0
# A setting that was tried already is no new trial: another one is drawn, so often, then the first untried one is taken.
_DRAWS = 20
_SEEDS = 1009
_WITHOUT = "without"


def next_setting(plan: TuningPlan, trials: Sequence[Trial]) -> Setting | None:
    """Return the setting to try next; None: each was tried."""
    tried = {one.setting for one in trials}
    untried = [one for one in plan.space.settings() if one not in tried]
    if not untried:
        return None
    # Another seed for each trial: the draws at random would all be the first one.
    study = _study(plan, trials, seed=plan.tuning.seed * _SEEDS + len(trials))
    for _ in range(_DRAWS):
        suggested = _suggested(study.ask(), plan.space)
        if suggested not in tried:
            return suggested
    return untried[0]


def is_hopeless(plan: TuningPlan, trials: Sequence[Trial], costs: Sequence[float]) -> bool:
    """Tell whether a trial with these costs after its rounds is worse than three quarters of those that ended.

    :param trials: those before it.
    """
    trial = _study(plan, trials, seed=plan.tuning.seed).ask()
    for number, cost in enumerate(costs):
        trial.report(cost, number)
    return bool(trial.should_prune())


def _study(plan: TuningPlan, trials: Sequence[Trial], *, seed: int) -> optuna.Study:
    import optuna  # half a second, which only the task that searches shall pay

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study = optuna.create_study(
        direction="minimize",
        sampler=optuna.samplers.TPESampler(seed=seed % 2**32, n_startup_trials=_AT_RANDOM),
        pruner=optuna.pruners.PercentilePruner(_KEPT_PERCENT, n_startup_trials=_ENDED_BEFORE),
    )
    distributions, objective = _distributions(plan.space), Objective(plan.tuning, plan.slo)
    states: Mapping[TrialState, Any] = {
        "complete": optuna.trial.TrialState.COMPLETE,
        "hopeless": optuna.trial.TrialState.PRUNED,
        "failed": optuna.trial.TrialState.FAIL,
    }
    for one in trials:
        values = _values(one.setting, plan.space)
        if one.state == "begun" or one.kind == "defaults_again":
            continue
        costs = objective.costs(one.points)
        study.add_trial(
            optuna.trial.create_trial(
                state=states[one.state],
                value=costs[-1] if one.state == "complete" else None,
                params=values,
                distributions={name: distributions[name] for name in values},
                intermediate_values=dict(enumerate(costs)),
            )
        )
    return study


def _distributions(space: Space) -> dict[str, optuna.distributions.BaseDistribution]:
    """Return what may be drawn: numbers by their place in the list, so that Optuna knows which are near each other."""
    from optuna.distributions import CategoricalDistribution, IntDistribution

    kinds = [*([_WITHOUT] if space.without_batching else []), *_sizes(space)]
    return {
        "instances": IntDistribution(0, len(space.instances) - 1),
        "batching": CategoricalDistribution(kinds),
        "delay": IntDistribution(0, max(0, len(space.max_queue_delays_us) - 1)),
    }


def _suggested(trial: optuna.Trial, space: Space) -> Setting:
    distributions: Any = _distributions(space)
    instances = space.instances[trial.suggest_int("instances", 0, distributions["instances"].high)]
    batching = trial.suggest_categorical("batching", distributions["batching"].choices)
    if batching == _WITHOUT:
        return Setting(instances=instances)
    delay = trial.suggest_int("delay", 0, distributions["delay"].high)
    return Setting(
        max_queue_delay_us=space.max_queue_delays_us[delay],
        preferred_batch_sizes=_sizes(space)[str(batching)],
        instances=instances,
    )


def _values(setting: Setting, space: Space) -> dict[str, Any]:
    """Return a setting as Optuna knows it; nothing of one outside of the space, such as a release file's own.

    What such a trial has cost counts all the same where others are called hopeless.
    """
    if setting not in set(space.settings()):
        return {}
    instances = space.instances.index(setting.instances)
    if setting.max_queue_delay_us is None:
        return {"instances": instances, "batching": _WITHOUT}
    batching = next(name for name, sizes in _sizes(space).items() if sizes == setting.preferred_batch_sizes)
    delay = space.max_queue_delays_us.index(setting.max_queue_delay_us)
    return {"instances": instances, "batching": batching, "delay": delay}


def _sizes(space: Space) -> dict[str, tuple[int, ...]]:
    """Return the lists of preferred sizes by a name of each; empty without dynamic batching."""
    if not space.max_queue_delays_us:
        return {}
    return {"sizes " + " ".join(map(str, sizes)): sizes for sizes in space.preferred_batch_sizes}
