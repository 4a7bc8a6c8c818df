"""The canary: the weight is raised step by step, and every window is judged."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, ClassVar

from include.model_release.canary.judge import CanaryJudge
from include.model_release.errors import (
    CanaryEndedError,
    CanaryRefusedError,
    GateRefusedError,
    SlipwayError,
)
from include.model_release.record.events import PendingEvent
from include.model_release.record.kinds import RollbackStarted, WeightIntended, WeightObserved
from include.model_release.rollout.holder_identity import Stage
from slipway.failures import airflow_failures
from slipway.operators.base import recorded_stage
from slipway.operators.traffic import TrafficOperator, attempt_of
from slipway.release_run import ReleaseRun
from slipway.traffic.checkpoint import WatchState
from slipway.triggers.canary import CanaryStepTrigger
from slipway.triggers.first_deploy import FirstDeployTrigger

if TYPE_CHECKING:
    from airflow.sdk import Context

_ENDED = frozenset({"success", "failed", "skipped", "upstream_failed", "removed"})
# What a trigger may take beyond the step's own limits before Airflow gives it up.
_DEFER_GRACE_S = 300


class ShiftTrafficOperator(TrafficOperator):
    """The canary: each step is reached, watched and judged in the triggerer; here it is recorded and decided.

    A task that is run again begins at the first step anew: less traffic and a judge without memory are the safe
    side. Without a stable version there is nothing to compare with: the version is deployed at 100 %.

    :param generation: the InferenceService's generation when the canary was decided on (templated): a task that comes
        late, when the canary was taken back or somebody has changed the spec, starts nothing. Empty: whatever is there.
    """

    template_fields: Sequence[str] = (*TrafficOperator.template_fields, "generation")
    stage: ClassVar[Stage] = "canary"

    def __init__(self, *, generation: str = "", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.generation = generation

    def run(self, context: Context) -> None:
        """Begins the first step, or deploys the first version."""
        release_run = self.release_run
        with recorded_stage(self.record, "canary"):
            if release_run.stable is None:
                self._deploy_first(release_run)
                return
            judge = CanaryJudge(release_run.spec.rollout.analysis)
            self._begin(context, judge, 0)

    def resume(self, context: Context, event: dict[str, Any], step: int) -> str | None:
        """Writes down what the trigger saw, then goes on, ends or refuses.

        :return: the judge's state at the end, for who watches on until the promotion.
        """
        with airflow_failures(), recorded_stage(self.record, "canary", resumed=True):
            judge = self.take_down(event)
            if event["decision"] == "paused":
                # Between two steps nobody watches: the users stay where they are, and the step before goes on.
                self._begin(context, judge, max(0, step - 1))
            elif event["decision"] != "advance":
                self.watch(context, judge, step, event["elapsed_s"])
            elif step + 1 < len(self.release_run.spec.rollout.steps):
                self._begin(context, judge, step + 1)
            self.log.info("every step has passed")
            return judge.to_json()

    def take_down(self, event: dict[str, Any]) -> CanaryJudge:
        """Writes what a trigger saw into the record, and returns the judge as it stands.

        :raises CanaryRefusedError: the judge has had the candidate taken back.
        :raises CanaryEndedError: somebody else has.
        :raises SlipwayError: what the trigger met.
        """
        for seen in _seen(event):
            self._write_down(seen)
        if event["error"] is not None:
            raise SlipwayError.from_dict(event["error"])
        if event["decision"] == "roll_back":
            raise _refused(self.release_run, event)
        return CanaryJudge.from_json(event["judge"])

    def _write_down(self, seen: PendingEvent) -> None:
        """Appends what the trigger saw, under the time at which it saw it."""
        self.record.append(seen.data, at=seen.at)
        document = seen.data.to_document()
        self.log.info("%s: %s", seen.kind, document.get("verdict") or document)

    def _begin(self, context: Context, judge: CanaryJudge, step: int) -> None:
        """Asks whether it may be done, writes what is intended, then lets the trigger do it."""
        release_run = self.release_run
        planned = release_run.spec.rollout.steps[step]
        self.permit.require(planned.weight)
        judge.begin_step(planned.weight, planned.bake_s)
        self.record.append(
            WeightIntended(
                weight=planned.weight,
                storage_uri=release_run.storage_uri,
                stable_storage_uri=None if release_run.stable is None else release_run.stable.storage_uri,
            )
        )
        self.watch(context, judge, step, 0.0)

    def watch(
        self,
        context: Context,
        judge: CanaryJudge,
        step: int,
        elapsed_s: float,
        *,
        hold: bool = False,
        until_resumed: bool = False,
    ) -> None:
        """Goes on in the triggerer, with a judge as it stands.

        :param hold: only watch; the step is over and shall not end for its time.
        :param until_resumed: only watch while a person has paused the canary.
        """
        release_run = self.release_run
        rollout = release_run.spec.rollout
        # A name of its own: a task that is run again must not take over what its predecessor has judged.
        state = WatchState(secrets.token_hex(8), judge.to_json(), elapsed_s)
        self.defer(
            trigger=CanaryStepTrigger(
                release=release_run.model_dump(mode="json"),
                step=step,
                hold=hold,
                state=state.to_dict(),
                generation=int(self.generation) if self.generation.isdecimal() else None,
                aws_conn_id=self.aws_conn_id,
                kubernetes_conn_id=self.kubernetes_conn_id,
                metrics_conn_id=self.metrics_conn_id,
                stage=self.stage,
                attempt=attempt_of(context),
                until_resumed=until_resumed,
            ),
            method_name="resume",
            kwargs={"step": step},
            timeout=timedelta(seconds=rollout.ready_timeout_s + rollout.max_bake_s + _DEFER_GRACE_S),
        )

    def _deploy_first(self, release_run: ReleaseRun) -> None:
        """Asks whether the version may go live, writes that it shall, then lets the trigger bring it up."""
        self.permit.require(100)
        self.record.append(
            WeightIntended(weight=100, storage_uri=release_run.storage_uri, stable_storage_uri=None)
        )
        self.defer(
            trigger=FirstDeployTrigger(
                release=release_run.model_dump(mode="json"), kubernetes_conn_id=self.kubernetes_conn_id
            ),
            method_name="deployed",
            timeout=timedelta(seconds=release_run.spec.rollout.ready_timeout_s + _DEFER_GRACE_S),
        )

    def deployed(self, context: Context, event: dict[str, Any]) -> None:
        """Writes down that the first version has all traffic."""
        with airflow_failures(), recorded_stage(self.record, "canary", resumed=True):
            if event["error"] is not None:
                raise SlipwayError.from_dict(event["error"])
            self.record.append(WeightObserved(weight=100, traffic=event["traffic"]))


class HoldCanaryOperator(ShiftTrafficOperator):
    """Watches on while a person thinks about the promotion; without such a person it has nothing to do.

    :param until_task_id: the task that waits for the person; its end ends the watch.
    :param judge: the judge's state after the last step (templated).
    """

    template_fields: Sequence[str] = (*ShiftTrafficOperator.template_fields, "judge")
    stage: ClassVar[Stage] = "hold"

    def __init__(self, *, until_task_id: str, judge: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.until_task_id = until_task_id
        self.judge = judge

    def run(self, context: Context) -> None:
        """Begins to watch where the steps ended."""
        release_run = self.release_run
        if not release_run.spec.rollout.approval.before_promotion or release_run.stable is None:
            self.log.info("nobody is asked before the promotion")
            return
        with recorded_stage(self.record, "hold"):
            self.permit.require(release_run.spec.rollout.steps[-1].weight)
            judge = CanaryJudge.from_json(self.judge)
            self.watch(context, judge, len(release_run.spec.rollout.steps) - 1, 0.0, hold=True)

    def resume(self, context: Context, event: dict[str, Any], step: int) -> None:
        """Watches on, unless the person has answered."""
        with airflow_failures(), recorded_stage(self.record, "hold", resumed=True):
            judge = self.take_down(event)
            if not self._is_answered(context):
                self.watch(context, judge, step, event["elapsed_s"], hold=True)

    def _is_answered(self, context: Context) -> bool:
        run = context["run_id"]
        states = context["ti"].get_task_states(
            dag_id=context["dag"].dag_id, task_ids=[self.until_task_id], run_ids=[run]
        )
        return states.get(run, {}).get(self.until_task_id) in _ENDED


def _seen(event: dict[str, Any]) -> list[PendingEvent]:
    """What the trigger saw and did, for the record."""
    return [PendingEvent.from_document(document) for document in event["events"]]


def _refused(release_run: ReleaseRun, event: dict[str, Any]) -> GateRefusedError:
    """That the canary is over: by the judge, whose numbers are in the record, or by somebody else, who had a reason."""
    started = [seen.data for seen in _seen(event) if isinstance(seen.data, RollbackStarted)]
    reason, by = (started[-1].reason, started[-1].by) if started else ("no reason was told", "judge")
    canary = f"the canary of {release_run.model!r} version {release_run.version}"
    if by == "judge":
        return CanaryRefusedError(
            f"{canary} was ended by the judge",
            expected="no evidence that it does worse than the stable version",
            found=reason,
            remedy="every window and verdict is in the record; mend the model and release a new version",
        )
    return CanaryEndedError(
        f"{canary} was ended by {by}",
        expected="a canary that its release holds until it is decided on",
        found=reason,
        remedy="it says nothing against the version: mend what ended it, then release it again with `force`",
    )
