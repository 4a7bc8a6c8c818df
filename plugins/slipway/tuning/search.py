"""The search: which trial comes next, measured round by round, until the budget is spent or nothing is left to try.

Each trial is written down before it begins and when it ends. A search that was killed goes on with the trial that it
was at; rounds whose result lies in the bucket are not measured again.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

from slipway.tuning.evidence import TuningEvidence, trial_folder
from slipway.tuning.staged import StagedTrials
from slipway.tuning.suggestions import is_hopeless, next_setting
from slipway_core.errors import GateRefusedError, TimedOutError
from slipway_core.spec.load import LoadLevel
from slipway_core.tuning.objective import Objective
from slipway_core.tuning.trials import Point, Trial, TrialKind, TuningPlan
from slipway_core.written_numbers import number as written

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Wanted:
    """One measurement that is asked for.

    :param folder: where its result belongs, below the run's folder.
    :param models: the names on the staging server of what is measured: one, or two in turns.
    :param rounds: how often.
    :param first_round: the number of the first of these rounds.
    :param number: tells it from all others of the run.
    """

    folder: str
    models: tuple[str, ...]
    load: LoadLevel
    rounds: int
    first_round: int
    number: int


class Measure(Protocol):
    """Measures models that are loaded on the staging server."""

    def __call__(self, wanted: Wanted) -> list[list[Point]]:
        """Return the points of each of the models, in the order in which they were named.

        What was measured already, by its folder, is not measured again.

        :raises GateRefusedError: a model fails requests.
        """


class SettingSearch:
    """The search of one run.

    :param measure: what measures a setting that is loaded.
    """

    def __init__(
        self, plan: TuningPlan, evidence: TuningEvidence, staged: StagedTrials, measure: Measure
    ) -> None:
        self._plan = plan
        self._evidence = evidence
        self._staged = staged
        self._measure = measure
        self._objective = Objective(plan.tuning, plan.slo)

    def run(self) -> list[Trial]:
        """Try settings until the search is over; return all trials of the run, those of earlier tries too."""
        while (trial := self._next(self._evidence.trials())) is not None:
            log.info("trial %s: %s", trial.number, trial.setting.label())
            self._evidence.write_trial(trial)
            ended = self._tried(trial)
            self._evidence.write_trial(ended)
            self._tell(ended)
        return self._evidence.trials()

    def _next(self, trials: list[Trial]) -> Trial | None:
        """Return the trial that comes next, or is under way; None: the search is over."""
        begun = next((one for one in trials if one.state == "begun"), None)
        if begun is not None:
            return begun
        kinds = {one.kind for one in trials}
        if "defaults_again" in kinds:
            return None
        number = len(trials)
        if not trials:
            return Trial(number=number, kind="defaults", setting=self._plan.defaults)
        if "present" not in kinds and self._plan.present != self._plan.defaults:
            return Trial(number=number, kind="present", setting=self._plan.present)
        suggested = None if self._is_spent(trials) else next_setting(self._plan, trials)
        kind: TrialKind = "defaults_again" if suggested is None else "search"
        return Trial(number=number, kind=kind, setting=suggested or self._plan.defaults)

    def _is_spent(self, trials: list[Trial]) -> bool:
        searched = sum(one.kind == "search" for one in trials)
        budget = self._plan.tuning
        return searched >= budget.trials or sum(one.seconds for one in trials) >= budget.budget_s

    def _tried(self, trial: Trial) -> Trial:
        """Return the trial as it ends: measured to its end, hopeless before it, or failed."""
        began, points = time.monotonic(), list[Point]()
        before = [one for one in self._evidence.trials() if one.number < trial.number]
        try:
            name = self._staged.load("trial", trial.setting)
            for number in range(1, self._plan.tuning.rounds + 1):
                for measured in self._round(trial, name, number):
                    points += measured
                costs = self._objective.costs(points)
                is_last = number == self._plan.tuning.rounds
                if trial.kind == "search" and not is_last and is_hopeless(self._plan, before, costs):
                    reason = f"after round {number} it was worse than three quarters of the trials before"
                    return trial.ended("hopeless", points, time.monotonic() - began, reason)
        except (GateRefusedError, TimedOutError) as error:
            # The setting cannot be loaded, fails requests, or does not keep up with the rate. What the others are held
            # against has to be measured, now or by the next try of the task.
            if isinstance(error, TimedOutError) and trial.kind != "search":
                raise
            return trial.ended("failed", points, time.monotonic() - began, str(error))
        finally:
            self._staged.unload()
        return trial.ended("complete", points, time.monotonic() - began)

    def _round(self, trial: Trial, name: str, number: int) -> Iterator[list[Point]]:
        loads = self._objective.loads()
        for place, load in enumerate(loads):
            (measured,) = self._measure(
                Wanted(
                    folder=f"{trial_folder(trial.number)}round-{number}-load-{place + 1}/",
                    models=(name,),
                    load=load,
                    rounds=1,
                    first_round=number,
                    number=1 + (trial.number * self._plan.tuning.rounds + number - 1) * len(loads) + place,
                )
            )
            yield measured

    def _tell(self, trial: Trial) -> None:
        summary = f"trial {trial.number} {trial.state}: {trial.setting.label()}"
        if trial.points:
            summary += (
                f": cost {written(self._objective.costs(trial.points)[-1], 4)} ({self._objective.figure})"
            )
        log.info("%s %s", summary, trial.reason)
