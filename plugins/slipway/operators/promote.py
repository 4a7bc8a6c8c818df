"""All traffic to the version that has proved itself."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from slipway.extra_links import EVIDENCE_LINKS
from slipway.failures import airflow_failures
from slipway.operators.base import ReleaseOperator, attempt_of, recorded_stage
from slipway.operators.canary_watch import CanaryWatch
from slipway.run_note import tell_release
from slipway.traffic.lease_holder import LeaseHolder
from slipway.traffic.live_service import LiveService
from slipway.traffic.raise_permit import RaisePermit
from slipway.traffic.reconciler import first_deploy
from slipway_core.canary.judge import CanaryJudge
from slipway_core.errors import CanaryPausedError, ReleaseHeldError
from slipway_core.record.kinds import Promoted, WeightObserved
from slipway_core.reports.canary.files import CANARY_PAGE
from slipway_core.rollout.holder_identity import Stage
from slipway_core.rollout.next_action import Promote

if TYPE_CHECKING:
    from airflow.sdk import Context

_STAGE: Stage = "promotion"


class PromoteOperator(ReleaseOperator):
    """Gives the version all traffic, sees that it has it, and says so in the record.

    It asks the record, not Airflow, whether the version has proved itself: a task that was marked as success has not.

    A canary that a person has paused is not promoted: the task waits in the triggerer, where the judge watches on, and
    promotes when the canary is resumed. It does not fail for a pause, since a failure takes the version back. So it is
    where a freeze or a closed release window holds the promotion.

    :param judge: the judge's state after the last step (templated); without one a new judge watches a paused canary.
    :param generation: as that of `ShiftTrafficOperator`.
    """

    template_fields: Sequence[str] = (*ReleaseOperator.template_fields, "generation", "judge")
    evidence_file = CANARY_PAGE
    operator_extra_links = EVIDENCE_LINKS

    def __init__(self, *, judge: str = "", generation: str = "", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.judge = judge
        self.generation = generation

    def run(self, context: Context) -> None:
        """Promote; a task that is run again after that does nothing.

        :raises RaiseRefusedError: the record does not show what a promotion needs.
        """
        state = self.record.state()
        if (state.release_id, state.outcome) == (self.release_run.release_id, "promoted"):
            self.log.info("the version was promoted already")
            return
        with recorded_stage(self.record, "promote"):
            self._promote(context, self._judge())

    def resume(self, context: Context, event: dict[str, Any], step: int, watched_s: float = 0.0) -> None:
        """Write down what was seen during the pause, and try again."""
        with airflow_failures(self.page), recorded_stage(self.record, "promote", resumed=True):
            self._promote(context, self._watch.record_watched(event, step, watched_s), event["elapsed_s"])

    @cached_property
    def _watch(self) -> CanaryWatch:
        return CanaryWatch(self.parts, self.connections, _STAGE, self.generation)

    def _promote(self, context: Context, judge: CanaryJudge, elapsed_s: float = 0.0) -> None:
        release_run, live = self.release_run, LiveService(self.parts)
        last = len(release_run.spec.rollout.steps) - 1
        permit = RaisePermit(self.store, release_run, self.parts.outbox)
        lease_holder = LeaseHolder(self.parts.lease, release_run, _STAGE, attempt_of(context))
        try:
            permit.require(100)
            state = self.record.state()
            if release_run.stable is None:
                reached = live.reach(first_deploy(release_run), permit=permit.to(100))
            else:
                goal = Promote(release_run.storage_uri)
                reached = live.reach(goal, lease_holder=lease_holder, permit=permit.to(100))
        except ReleaseHeldError as held:
            self.log.info("the promotion waits: %s", held)
            note = f"waits before the promotion. {held.found or held.what}"
            tell_release(context, release_run.model, release_run.version, note)
            self._watch.defer_step(self, context, judge, last, elapsed_s, hold=True)
            return
        except CanaryPausedError as paused:
            self.log.info("the promotion waits: %s", paused.in_short())
            note = "the promotion waits: a person has paused the canary"
            tell_release(context, release_run.model, release_run.version, note)
            self._watch.defer_step(self, context, judge, last, 0.0, hold=True, until_resumed=True)
            return
        traffic = dict(reached.observed.traffic) if reached.observed else {}
        self.record.append(WeightObserved(weight=100, traffic=traffic))
        self.record.append(
            Promoted(storage_uri=release_run.storage_uri, manifest_sha256=state.verified_sha256)
        )
        live.conceal_candidate(reached.observed)
        lease_holder.leave()

    def _judge(self) -> CanaryJudge:
        if self.judge not in ("", "None"):  # what a template makes of no result
            return CanaryJudge.from_json(self.judge)
        rollout = self.release_run.spec.rollout
        judge = CanaryJudge(rollout.analysis)
        judge.begin_step(rollout.steps[-1].weight, rollout.steps[-1].bake_s)
        return judge
