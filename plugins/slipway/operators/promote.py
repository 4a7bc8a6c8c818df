"""All traffic to the version that has proved itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from include.model_release.canary.judge import CanaryJudge
from include.model_release.errors import CanaryPausedError
from include.model_release.record.kinds import Promoted, WeightObserved
from include.model_release.rollout.holder_identity import Stage
from include.model_release.rollout.next_action import Promote
from slipway.failures import airflow_failures
from slipway.operators.base import recorded_stage
from slipway.operators.canary import ShiftTrafficOperator
from slipway.operators.traffic import attempt_of
from slipway.traffic.lease_holder import LeaseHolder
from slipway.traffic.reconciler import first_deploy

if TYPE_CHECKING:
    from airflow.sdk import Context


class PromoteOperator(ShiftTrafficOperator):
    """Gives the version all traffic, sees that it has it, and says so in the record.

    It asks the record, not Airflow, whether the version has proved itself: a task that was marked as success has not.

    A canary that a person has paused is not promoted: the task waits in the triggerer, where the judge watches on, and
    promotes when the canary is resumed. It does not fail for a pause, since a failure takes the version back.

    :param judge: the judge's state after the last step (templated); without one a new judge watches a paused canary.
    """

    template_fields: Sequence[str] = (*ShiftTrafficOperator.template_fields, "judge")
    stage: ClassVar[Stage] = "promotion"

    def __init__(self, *, judge: str = "", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.judge = judge

    def run(self, context: Context) -> None:
        """Promotes; a task that is run again after that does nothing.

        :raises RaiseRefusedError: the record does not show what a promotion needs.
        """
        state = self.record.state()
        if (state.release_id, state.outcome) == (self.release_run.release_id, "promoted"):
            self.log.info("the version was promoted already")
            return
        with recorded_stage(self.record, "promote"):
            self._promote(context, self._judge())

    def resume(self, context: Context, event: dict[str, Any], step: int) -> None:
        """Writes down what was seen during the pause, and tries again."""
        with airflow_failures(), recorded_stage(self.record, "promote", resumed=True):
            self._promote(context, self.take_down(event))

    def _promote(self, context: Context, judge: CanaryJudge) -> None:
        self.permit.require(100)
        release_run, state = self.release_run, self.record.state()
        lease_holder = LeaseHolder(self.lease, release_run, self.stage, attempt_of(context))
        try:
            if release_run.stable is None:
                reached = self.reach(first_deploy(release_run))
            else:
                reached = self.reach(Promote(release_run.storage_uri), lease_holder=lease_holder)
        except CanaryPausedError as paused:
            self.log.info("the promotion waits: %s", paused.in_short())
            self.watch(
                context, judge, len(release_run.spec.rollout.steps) - 1, 0.0, hold=True, until_resumed=True
            )
            return
        traffic = dict(reached.observed.traffic) if reached.observed else {}
        self.record.append(WeightObserved(weight=100, traffic=traffic))
        self.record.append(
            Promoted(storage_uri=release_run.storage_uri, manifest_sha256=state.verified_sha256)
        )
        self.conceal_candidate(reached.observed)
        lease_holder.leave()

    def _judge(self) -> CanaryJudge:
        if self.judge not in ("", "None"):  # what a template makes of no result
            return CanaryJudge.from_json(self.judge)
        rollout = self.release_run.spec.rollout
        judge = CanaryJudge(rollout.analysis)
        judge.begin_step(rollout.steps[-1].weight, rollout.steps[-1].bake_s)
        return judge
