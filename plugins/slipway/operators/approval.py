"""A person's word before the first percent of traffic, where the release asks for it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow.providers.standard.exceptions import HITLRejectException
from airflow.providers.standard.operators.hitl import ApprovalOperator

from include.model_release.errors import GateRefusedError
from slipway.failures import airflow_failures
from slipway.operators.base import ReleaseStep, recorded_stage
from slipway.ticket import TICKET_TEMPLATE

if TYPE_CHECKING:
    from airflow.sdk import Context

_PATIENCE = timedelta(days=3)


class ApproveReleaseOperator(ReleaseStep, ApprovalOperator):
    """Asks in the Airflow UI, or over its REST API, whether the release may go on to live traffic.

    Passes at once where the release does not ask for approval. A rejection refuses the release.
    """

    template_fields: Sequence[str] = ("release", *ApprovalOperator.template_fields)

    def __init__(
        self, *, release: str = TICKET_TEMPLATE, aws_conn_id: str = "aws_default", **kwargs: Any
    ) -> None:
        super().__init__(
            subject="Release {{ params.model }} version {{ params.version }} to live traffic?",
            body="It has passed its gates on staging. The reports are in the bucket, below "
            "`models/{{ params.model }}/{{ params.version }}/evidence/`.",
            fail_on_reject=True,
            response_timeout=_PATIENCE,
            execution_timeout=None,
            **kwargs,
        )
        self.release = release
        self.aws_conn_id = aws_conn_id

    def execute(self, context: Context) -> Any:
        """Waits for a person, or passes."""
        if not self.ticket.spec.rollout.approval.before_canary:
            self.log.info("the release asks for no approval")
            return None
        with recorded_stage(self.record, "approve"):
            return super().execute(context)

    def execute_complete(self, context: Context, event: dict[str, Any]) -> Any:
        """Goes on with the person's answer."""
        with airflow_failures(), recorded_stage(self.record, "approve", resumed=True):
            try:
                return super().execute_complete(context, event)
            except HITLRejectException as rejection:
                raise GateRefusedError(
                    f"a person rejected version {self.ticket.version} of {self.ticket.model!r}",
                    expected=self.APPROVE,
                    found=self.REJECT,
                    remedy="ask the one who answered; the stable version is still live",
                ) from rejection
