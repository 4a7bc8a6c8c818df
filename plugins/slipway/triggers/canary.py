"""Watching one step of a canary without holding a worker."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from airflow.triggers.base import BaseTrigger, TriggerEvent

from include.model_release.canary import CanaryJudge, CanaryPlan
from include.model_release.errors import SlipwayError
from slipway.canary_watch import StepWatch
from slipway.hooks.kserve import KServeHook
from slipway.hooks.metrics import EnvoyMetricsHook
from slipway.ticket import ReleaseTicket


class CanaryStepTrigger(BaseTrigger):
    """Brings the candidate to one weight, watches it there and judges each window.

    Yields one event, a mapping: ``decision`` (what the plan says to do now; ``continue`` reports what was seen so
    far; ``failed`` comes with an error), ``judge`` (the judge's state), ``elapsed_s`` (in this step), ``events``
    (for the record: ``kind``, ``at``, ``data``) and ``error`` (`SlipwayError.to_dict()` or None).

    A verdict against the candidate is carried out before it is told: the trigger itself takes the weight to 0, so
    that no user waits for a worker. Everything it does follows from what it observes; two of it do no harm.

    :param release: the `ReleaseTicket` as a mapping.
    :param step: index of the step in the plan.
    :param judge: the judge's state as JSON.
    :param elapsed_s: how long the step has been watched before.
    """

    def __init__(
        self,
        *,
        release: dict[str, Any],
        step: int,
        judge: str,
        elapsed_s: float,
        kubernetes_conn_id: str,
        metrics_conn_id: str,
    ) -> None:
        super().__init__()
        self.release = release
        self.step = step
        self.judge = judge
        self.elapsed_s = elapsed_s
        self.kubernetes_conn_id = kubernetes_conn_id
        self.metrics_conn_id = metrics_conn_id

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """What the triggerer needs to make this trigger again."""
        return (
            f"{type(self).__module__}.{type(self).__qualname__}",
            {
                "release": self.release,
                "step": self.step,
                "judge": self.judge,
                "elapsed_s": self.elapsed_s,
                "kubernetes_conn_id": self.kubernetes_conn_id,
                "metrics_conn_id": self.metrics_conn_id,
            },
        )

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Watches the step and yields what came of it."""
        watch, decision, failure = self._watch(), "failed", None
        try:
            decision = await watch.run()
        except SlipwayError as error:
            failure = error.to_dict()
        yield TriggerEvent(
            {
                "decision": decision,
                "judge": watch.judge.to_json(),
                "elapsed_s": watch.elapsed_s,
                "events": watch.events,
                "error": failure,
            }
        )

    async def on_kill(self) -> None:
        """A person has stopped the task: users come first, the rest of the rollback is the teardown's."""
        await self._watch().shield()

    def _watch(self) -> StepWatch:
        ticket = ReleaseTicket.parse(self.release)
        rollout = ticket.spec.rollout
        return StepWatch(
            ticket,
            CanaryPlan.from_rollout(rollout),
            self.step,
            CanaryJudge.from_json(self.judge),
            self.elapsed_s,
            KServeHook(rollout.inference_service, rollout.namespace, self.kubernetes_conn_id),
            EnvoyMetricsHook(self.metrics_conn_id),
        )
