"""Waiting for a model's first version to come up without holding a worker."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from typing import Any

from airflow.triggers.base import BaseTrigger, TriggerEvent

from airflow_provider_triton.triggers.pace import Pace
from slipway.blocking_calls import BlockingCalls
from slipway.release_context import Connections, ReleaseContext
from slipway.traffic.raise_permit import RaisePermit
from slipway.traffic.reconciler import first_deploy, reconcile_async
from slipway.triggers.timing import STORE_TIMEOUT_S
from slipway_core.errors import ReleaseHeldError, SlipwayError
from slipway_core.rollout.actions import Wait
from slipway_core.rollout.reconciler import Reconciliation

log = logging.getLogger(__name__)

# A server takes seconds to come up, and nobody serves users better for seeing it sooner.
POLL_S = 1.0
# One call: its requests have limits of their own.
_CALL_LIMIT_S = 60.0


class _TroubleLog:
    """Logs what holds the version's pods up, whenever that changes; nothing but the goal suffices."""

    def __init__(self) -> None:
        self._logged = ""

    def __call__(self, seen: Reconciliation) -> bool:
        """Take note of an observation."""
        action = seen.action
        if isinstance(action, Wait) and action.failure and action.reason != self._logged:
            self._logged = action.reason
            log.info("%s", action.reason)
        return False


class FirstDeployTrigger(BaseTrigger):
    """Creates the InferenceService and waits until its first version is seen to have all traffic.

    What it does follows from what it observes, so a triggerer that takes it over simply goes on.

    It is asked whether the version may go live right before the InferenceService is created or changed.

    Yields one event: ``traffic`` (percent by revision), ``error`` (`SlipwayError.to_dict()` or None) and ``held``
    (whether a freeze or a closed release window kept it from beginning).

    :param release: the `ReleaseRun` as a mapping.
    """

    def __init__(
        self, *, release: dict[str, Any], kubernetes_conn_id: str, aws_conn_id: str = "aws_default"
    ) -> None:
        super().__init__()
        self.release = release
        self.kubernetes_conn_id = kubernetes_conn_id
        self.aws_conn_id = aws_conn_id

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Return what the triggerer needs to make this trigger again."""
        return (
            f"{type(self).__module__}.{type(self).__qualname__}",
            {
                "release": self.release,
                "kubernetes_conn_id": self.kubernetes_conn_id,
                "aws_conn_id": self.aws_conn_id,
            },
        )

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Look and act in a thread, since the Kubernetes client blocks; between two looks it holds none."""
        pace = Pace()
        parts = ReleaseContext(self.release, Connections(self.aws_conn_id, self.kubernetes_conn_id))
        event: dict[str, Any] = {"traffic": {}, "error": None, "held": False}
        try:
            permit = RaisePermit(parts.make_store(STORE_TIMEOUT_S), parts.release_run)
            reached = await reconcile_async(
                BlockingCalls("the cluster's API", _CALL_LIMIT_S),
                parts.service,
                first_deploy(parts.release_run),
                timeout_s=parts.release_run.spec.rollout.ready_timeout_s,
                poll_s=POLL_S,
                permit=permit.to(100),
                suffices=_TroubleLog(),
            )
        except ReleaseHeldError as held:
            event["held"], event["error"] = True, held.to_dict()
        except SlipwayError as error:
            event["error"] = error.to_dict()
        else:
            event["traffic"] = dict(reached.observed.traffic) if reached.observed else {}
        await pace.until_due()
        yield TriggerEvent(event)
