"""The teardown of a tuning: no trial stays loaded on staging."""

from __future__ import annotations

from typing import TYPE_CHECKING

from slipway.hooks.triton import TritonHook
from slipway.operators.tuning.base import TuningStep
from slipway.tuning.staged import remove_trials, trial_names, unload_models

if TYPE_CHECKING:
    from airflow.sdk import Context


class RemoveTrialsOperator(TuningStep):
    """Unloads whatever a tuning of the model has loaded on staging, and removes its copies from the repository.

    Made to be a teardown: it asks for nothing but the model's name and the bucket.
    """

    def run(self, context: Context) -> None:
        """Unload and remove."""
        run = self.release_run
        limit_s = float(run.spec.serving.load_timeout_s)
        unload_models(TritonHook(self.triton_conn_id, limit_s), trial_names(run.model), limit_s)
        remove_trials(self.store, run.model)
