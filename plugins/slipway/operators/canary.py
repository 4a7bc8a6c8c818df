"""The canary: the weight is raised step by step, and every window is judged."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from functools import cached_property
from typing import TYPE_CHECKING, Any, NoReturn

from slipway.extra_links import EVIDENCE_LINKS
from slipway.failures import airflow_failures
from slipway.operators.base import ReleaseOperator, recorded_stage
from slipway.operators.canary_watch import DEFER_GRACE_S, CanaryWatch
from slipway.release_run import ReleaseRun
from slipway.run_note import tell_release
from slipway.traffic.raise_permit import RaisePermit
from slipway.traffic.streams.preflight import require_streams_read
from slipway.triggers.first_deploy import FirstDeployTrigger
from slipway.triggers.hold import HoldChangedTrigger
from slipway_core.canary.judge import CanaryJudge
from slipway_core.errors import ReleaseHeldError, SlipwayError
from slipway_core.record.kinds import WeightIntended, WeightObserved
from slipway_core.reports.canary.files import CANARY_PAGE

if TYPE_CHECKING:
    from airflow.sdk import Context

_ENDED = frozenset({"success", "failed", "skipped", "upstream_failed", "removed"})


class ShiftTrafficOperator(ReleaseOperator):
    """The canary: each step is reached, watched and judged in the triggerer; here it is recorded and decided.

    A task that is run again begins at the first step anew: less traffic and a judge without memory are the safe
    side. Without a stable version there is nothing to compare with: the version is deployed at 100 %.

    :param generation: the InferenceService's generation when the canary was decided on (templated): a task that comes
        late, when the canary was taken back or somebody has changed the spec, starts nothing. Empty: whatever is there.
    """

    template_fields: Sequence[str] = (*ReleaseOperator.template_fields, "generation")
    evidence_file = CANARY_PAGE
    operator_extra_links = EVIDENCE_LINKS

    def __init__(self, *, generation: str = "", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.generation = generation

    def run(self, context: Context) -> None:
        """Begin the first step, or deploy the first version."""
        with recorded_stage(self.record, "canary"):
            self._start(context)

    def try_again(self, context: Context, event: Any = None) -> None:
        """Ask once more whether the canary may begin, after what held it has changed."""
        with airflow_failures(self.page), recorded_stage(self.record, "canary", resumed=True):
            self._start(context)

    def resume_held(self, context: Context, event: dict[str, Any], step: int, watched_s: float = 0.0) -> None:
        """Write down what was seen while the next step was held, and ask once more whether it may begin."""
        with airflow_failures(self.page), recorded_stage(self.record, "canary", resumed=True):
            judge = self._watch.record_watched(event, step, watched_s)
            self._begin(context, judge, step + 1, event["elapsed_s"])

    def resume(
        self, context: Context, event: dict[str, Any], step: int, watched_s: float = 0.0
    ) -> str | None:
        """Write down what the trigger saw, then go on, end or refuse.

        :returns: the judge's state at the end, for who watches on until the promotion.
        """
        with airflow_failures(self.page), recorded_stage(self.record, "canary", resumed=True):
            judge = self._watch.record_watched(event, step, watched_s)
            if event["decision"] == "paused":
                # Between two steps nobody watches: the users stay where they are, and the step before goes on.
                self._begin(context, judge, max(0, step - 1), is_paused=True)
            elif event["decision"] == "held":
                self._begin(context, self._back_at(judge, step - 1), step)
            elif event["decision"] != "advance":
                self._watch.defer_step(self, context, judge, step, event["elapsed_s"])
            elif step + 1 < len(self.release_run.spec.rollout.steps):
                self._begin(context, judge, step + 1)
            self.log.info("every step has passed")
            self._watch.hand_over(context)
            return judge.to_json()

    @cached_property
    def _watch(self) -> CanaryWatch:
        return CanaryWatch(self.parts, self.connections, "canary", self.generation)

    def _start(self, context: Context) -> None:
        release_run = self.release_run
        if release_run.stable is None:
            self._deploy_first(context, release_run)
            return
        require_streams_read(self.parts)
        self._begin(context, CanaryJudge(release_run.spec.rollout.analysis), 0)

    def _begin(
        self,
        context: Context,
        judge: CanaryJudge,
        step: int,
        elapsed_s: float = 0.0,
        *,
        is_paused: bool = False,
    ) -> None:
        """Ask whether it may be done, write what is intended, then let the trigger do it.

        Where it is held, the step before goes on being watched and judged; before the first one there is nothing to
        watch.

        :param elapsed_s: how long the step before has been watched, where it is over already.
        :param is_paused: whether a person wants the canary to stay there.
        """
        release_run = self.release_run
        planned = release_run.spec.rollout.steps[step]
        try:
            RaisePermit(self.store, release_run, self.parts.outbox).require(planned.weight)
        except ReleaseHeldError as held:
            self._tell(context, f"waits before {planned.weight} %. {held.found or held.what}")
            if step == 0:
                self._wait(held)
            self.log.info("the canary stays at its weight: %s", held)
            self._watch.defer_step(
                self, context, judge, step - 1, elapsed_s, hold=True, method_name="resume_held"
            )
        where = f"{planned.weight} %, step {step + 1} of {len(release_run.spec.rollout.steps)}"
        self._tell(context, f"paused by a person at {where}" if is_paused else f"canary at {where}")
        judge.begin_step(planned.weight, planned.bake_s)
        self.record.append(
            WeightIntended(
                weight=planned.weight,
                storage_uri=release_run.storage_uri,
                stable_storage_uri=None if release_run.stable is None else release_run.stable.storage_uri,
            )
        )
        self._watch.defer_step(self, context, judge, step, 0.0)

    def _back_at(self, judge: CanaryJudge, step: int) -> CanaryJudge:
        """Return the judge as it watches the step before one that could not begin; before the first one, as it is."""
        if step >= 0:
            planned = self.release_run.spec.rollout.steps[step]
            judge.begin_step(planned.weight, planned.bake_s)
        return judge

    def _deploy_first(self, context: Context, release_run: ReleaseRun) -> None:
        """Ask whether the version may go live, write that it shall, then let the trigger bring it up."""
        try:
            RaisePermit(self.store, release_run, self.parts.outbox).require(100)
        except ReleaseHeldError as held:
            self._tell(context, f"waits before the first deployment. {held.found or held.what}")
            self._wait(held)
        self.record.append(
            WeightIntended(weight=100, storage_uri=release_run.storage_uri, stable_storage_uri=None)
        )
        self.defer(
            trigger=FirstDeployTrigger(
                release=release_run.model_dump(mode="json"),
                kubernetes_conn_id=self.kubernetes_conn_id,
                aws_conn_id=self.aws_conn_id,
            ),
            method_name="deployed",
            timeout=timedelta(seconds=release_run.spec.rollout.ready_timeout_s + DEFER_GRACE_S),
        )

    def _tell(self, context: Context, text: str) -> None:
        """Tell where the release stands, in the run's note."""
        tell_release(context, self.release_run.model, self.release_run.version, text)

    def _wait(self, held: ReleaseHeldError) -> NoReturn:
        """Wait, in the triggerer, until what holds the release may have changed."""
        self.log.info("the version has no users yet: %s", held)
        release_run = self.release_run
        self.defer(
            trigger=HoldChangedTrigger.of(
                release_run.bucket,
                release_run.model,
                release_run.version,
                release_run.spec.rollout.release_windows,
                self.aws_conn_id,
            ),
            method_name="try_again",
        )

    def deployed(self, context: Context, event: dict[str, Any]) -> None:
        """Write down that the first version has all traffic; where it was held meanwhile, wait, and ask again."""
        with airflow_failures(self.page), recorded_stage(self.record, "canary", resumed=True):
            if event.get("held"):
                self._deploy_first(context, self.release_run)
            if event["error"] is not None:
                raise SlipwayError.from_dict(event["error"])
            self.record.append(WeightObserved(weight=100, traffic=event["traffic"]))


class HoldCanaryOperator(ReleaseOperator):
    """Watches on while a person thinks about the promotion; without such a person it has nothing to do.

    :param until_task_id: the task that waits for the person; its end ends the watch.
    :param judge: the judge's state after the last step (templated).
    :param generation: as that of `ShiftTrafficOperator`.
    """

    template_fields: Sequence[str] = (*ReleaseOperator.template_fields, "generation", "judge")
    evidence_file = CANARY_PAGE
    operator_extra_links = EVIDENCE_LINKS

    def __init__(self, *, until_task_id: str, judge: str, generation: str = "", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.until_task_id = until_task_id
        self.judge = judge
        self.generation = generation

    def run(self, context: Context) -> None:
        """Begin to watch where the steps ended."""
        release_run = self.release_run
        rollout = release_run.spec.rollout
        if not rollout.approval.before_promotion or release_run.stable is None:
            self.log.info("no approval is required before the promotion")
            return
        with recorded_stage(self.record, "hold"):
            RaisePermit(self.store, release_run, self.parts.outbox).require(rollout.steps[-1].weight)
            judge = CanaryJudge.from_json(self.judge)
            self._watch.defer_step(self, context, judge, len(rollout.steps) - 1, 0.0, hold=True)

    def resume(self, context: Context, event: dict[str, Any], step: int, watched_s: float = 0.0) -> None:
        """Watch on, unless the person has answered."""
        with airflow_failures(self.page), recorded_stage(self.record, "hold", resumed=True):
            judge = self._watch.record_watched(event, step, watched_s)
            if not self._is_answered(context):
                self._watch.defer_step(self, context, judge, step, event["elapsed_s"], hold=True)
            self._watch.hand_over(context)

    @cached_property
    def _watch(self) -> CanaryWatch:
        return CanaryWatch(self.parts, self.connections, "hold", self.generation)

    def _is_answered(self, context: Context) -> bool:
        run = context["run_id"]
        states = context["ti"].get_task_states(
            dag_id=context["dag"].dag_id, task_ids=[self.until_task_id], run_ids=[run]
        )
        return states.get(run, {}).get(self.until_task_id) in _ENDED
