"""Waiting for a model's first version to come up without holding a worker."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from airflow.triggers.base import BaseTrigger, TriggerEvent

from include.model_release.errors import SlipwayError
from slipway.hooks.kserve import KServeHook
from slipway.rollout_driver import drive, first_deploy
from slipway.ticket import ReleaseTicket

# An event that comes before Airflow has seen the task's process end makes it take the task for dead.
_SHORTEST_S = 3.0


class FirstDeployTrigger(BaseTrigger):
    """Creates the InferenceService and waits until its first version is seen to have all traffic.

    What it does follows from what it observes, so a triggerer that takes it over simply goes on.

    Yields one event: ``traffic`` (percent by revision) and ``error`` (`SlipwayError.to_dict()` or None).

    :param release: the `ReleaseTicket` as a mapping.
    """

    def __init__(self, *, release: dict[str, Any], kubernetes_conn_id: str) -> None:
        super().__init__()
        self.release = release
        self.kubernetes_conn_id = kubernetes_conn_id

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """What the triggerer needs to make this trigger again."""
        return (
            f"{type(self).__module__}.{type(self).__qualname__}",
            {"release": self.release, "kubernetes_conn_id": self.kubernetes_conn_id},
        )

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Drives in a thread: the Kubernetes client blocks."""
        ticket = ReleaseTicket.parse(self.release)
        rollout = ticket.spec.rollout
        service = KServeHook(rollout.inference_service, rollout.namespace, self.kubernetes_conn_id)
        try:
            turn, _ = await asyncio.gather(
                asyncio.to_thread(drive, service, first_deploy(ticket), timeout_s=rollout.ready_timeout_s),
                asyncio.sleep(_SHORTEST_S),
            )
        except SlipwayError as error:
            yield TriggerEvent({"traffic": {}, "error": error.to_dict()})
        else:
            traffic = dict(turn.observed.traffic) if turn.observed else {}
            yield TriggerEvent({"traffic": traffic, "error": None})
