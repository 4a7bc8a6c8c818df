"""A tuning in the bucket: the plan, each trial as it begins and ends, the comparisons, and what was concluded."""

from __future__ import annotations

import re

from slipway.hooks.s3_store import ModelStoreHook
from slipway_core.bucket_layout import evidence_prefix
from slipway_core.errors import InputMissingError
from slipway_core.tuning.trials import Trial, TrialComparison, TuningDocument, TuningPlan

_TRIAL = re.compile(r"trials/(?P<number>[0-9]{4})\.json")


class TuningEvidence:
    """The folder of one run of `model_tuning`.

    :param tuning_id: of `bucket_layout.tuning_id`.
    """

    def __init__(self, store: ModelStoreHook, model: str, version: int, tuning_id: str) -> None:
        self.store = store
        self.prefix = evidence_prefix(model, version, tuning_id)

    def plan(self) -> TuningPlan | None:
        """Return the run's plan; None: there is none yet."""
        key = f"{self.prefix}plan.json"
        body = self.store.read(key, most_bytes=TuningPlan.limit_bytes)
        return None if body is None else TuningPlan.from_bytes(body, self.store.uri(key))

    def keep_plan(self, plan: TuningPlan) -> TuningPlan:
        """Write the plan unless the run has one; return the run's."""
        self.store.write_once(f"{self.prefix}plan.json", plan.to_bytes())
        return self.require_plan()

    def require_plan(self) -> TuningPlan:
        """Return the run's plan.

        :raises InputMissingError: there is none.
        """
        plan = self.plan()
        if plan is None:
            raise InputMissingError(
                f"{self.store.uri(self.prefix)}plan.json is missing",
                expected="the plan of this run",
                found="none",
                remedy="clear the run's first task",
            )
        return plan

    def trials(self) -> list[Trial]:
        """Return the trials in the order of their numbers."""
        keys = [entry.key for entry in self.store.entries(f"{self.prefix}trials/")]
        found = [key for key in keys if _TRIAL.fullmatch(key.removeprefix(self.prefix))]
        return sorted((self._trial(key) for key in found), key=lambda one: one.number)

    def write_trial(self, trial: Trial) -> None:
        """Write a trial, over what was there of it."""
        self._write(f"{trial_folder(trial.number).rstrip('/')}.json", trial)

    def comparison(self, against: str) -> TrialComparison | None:
        """Return a comparison; None: it was not made yet."""
        key = f"{self.prefix}{comparison_folder(against).rstrip('/')}.json"
        body = self.store.read(key, most_bytes=TrialComparison.limit_bytes)
        return None if body is None else TrialComparison.from_bytes(body, self.store.uri(key))

    def write_comparison(self, comparison: TrialComparison) -> None:
        """Write a comparison."""
        self._write(f"{comparison_folder(comparison.against).rstrip('/')}.json", comparison)

    def _trial(self, key: str) -> Trial:
        body = self.store.require(key, remedy="start a new run", most_bytes=Trial.limit_bytes)
        return Trial.from_bytes(body, self.store.uri(key))

    def _write(self, name: str, document: TuningDocument) -> None:
        self.store.write(f"{self.prefix}{name}", document.to_bytes(), content_type="application/json")


def trial_folder(number: int) -> str:
    """Return where a trial's measurements lie, below the run's folder."""
    return f"trials/{number:04d}/"


def comparison_folder(against: str) -> str:
    """Return where the measurements of a comparison lie, below the run's folder."""
    return f"comparison-{against}/"
