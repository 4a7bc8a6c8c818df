"""What the tasks of `model_tuning` share: which version is tuned, its evidence, and the trials on staging."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator

from slipway.extra_links import EVIDENCE_LINKS
from slipway.failures import airflow_failures
from slipway.hooks.triton import TritonHook
from slipway.operators.base import ReleaseStep
from slipway.registry.registry import ModelRegistry
from slipway.tuning.evidence import TuningEvidence
from slipway.tuning.staged import StagedTrials
from slipway_core.tuning.settings import require_tunable
from slipway_core.tuning.trials import TuningPlan

if TYPE_CHECKING:
    from airflow.sdk import Context

    from slipway_core.triton_config.options import Config

PREPARE_TASK_ID = "prepare"
PREPARED_TEMPLATE = f"{{{{ ti.xcom_pull(task_ids='{PREPARE_TASK_ID}') | tojson }}}}"


class TuningStep(ReleaseStep, BaseOperator):
    """One step of a tuning after its preparation.

    :param release: what the task ``prepare`` returned (templated): a release run whose id is the tuning's.
    :param triton_conn_id: the staging server.
    """

    template_fields: Sequence[str] = ("release",)
    evidence_file = "tuning.html"
    operator_extra_links = EVIDENCE_LINKS
    compares = False  # no record is opened for a tuning, and no user is led anywhere

    def __init__(
        self,
        *,
        release: str = PREPARED_TEMPLATE,
        aws_conn_id: str = "aws_default",
        triton_conn_id: str = TritonHook.default_conn_name,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.release = release
        self.aws_conn_id = aws_conn_id
        self.triton_conn_id = triton_conn_id

    def execute(self, context: Context) -> Any:
        """Run the step; what a person must change is not tried again."""
        with airflow_failures():
            return self.run(context)

    def run(self, context: Context) -> Any:
        """Do the step itself."""
        raise NotImplementedError

    @cached_property
    def evidence(self) -> TuningEvidence:
        """The run's folder."""
        run = self.release_run
        return TuningEvidence(self.store, run.model, run.version, run.release_id)

    @cached_property
    def plan(self) -> TuningPlan:
        """The run's plan."""
        return self.evidence.require_plan()

    @cached_property
    def published_config(self) -> Config:
        """The published configuration of the version."""
        registry, run = ModelRegistry(self.store), self.release_run
        configs = registry.configs(registry.require(run.model, run.version))
        return dict(require_tunable(configs, run.model))

    def staged(self) -> StagedTrials:
        """Return the trials on the staging server."""
        run = self.release_run
        limit_s = float(run.spec.serving.load_timeout_s)
        hook = TritonHook(self.triton_conn_id, limit_s)
        return StagedTrials(hook, run.model, run.version, self.published_config, limit_s)
