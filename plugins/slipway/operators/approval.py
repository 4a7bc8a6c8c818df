"""A person's word before the first percent of traffic, or before the promotion, where the release asks for it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Literal

from airflow.providers.standard.exceptions import HITLRejectException
from airflow.providers.standard.operators.hitl import ApprovalOperator

from include.model_release.approval_words import approval_body
from include.model_release.errors import GateRefusedError
from slipway.failures import airflow_failures
from slipway.operators.base import ReleaseStep, recorded_stage
from slipway.ticket import TICKET_TEMPLATE

if TYPE_CHECKING:
    from airflow.sdk import Context

_PATIENCE = timedelta(days=3)
_QUESTIONS = {
    "canary": "Release {{ params.model }} version {{ params.version }} to live traffic?",
    "promotion": "Give {{ params.model }} version {{ params.version }} all traffic?",
}
_STAGES = {"canary": "approve", "promotion": "approve_promotion"}


class ApproveReleaseOperator(ReleaseStep, ApprovalOperator):
    """Asks in the Airflow UI, or over its REST API, whether the release may go on.

    Passes at once where the release does not ask for approval. A rejection refuses the release.

    :param before: what the person is asked before: the ``canary`` or the ``promotion``.
    :param candidate_url: where the person can try the candidate (templated); empty where it is not up yet.
    """

    template_fields: Sequence[str] = ("release", "candidate_url", *ApprovalOperator.template_fields)

    def __init__(
        self,
        *,
        before: Literal["canary", "promotion"] = "canary",
        release: str = TICKET_TEMPLATE,
        candidate_url: str = "",
        aws_conn_id: str = "aws_default",
        **kwargs: Any,
    ) -> None:
        super().__init__(
            subject=_QUESTIONS[before],
            fail_on_reject=True,
            response_timeout=_PATIENCE,
            execution_timeout=None,
            **kwargs,
        )
        self.before = before
        self.release = release
        self.candidate_url = candidate_url
        self.aws_conn_id = aws_conn_id

    @property
    def is_asked_for(self) -> bool:
        """Whether the release file, or the form, wants a person's word here."""
        approval = self.ticket.spec.rollout.approval
        return approval.before_canary if self.before == "canary" else approval.before_promotion

    def execute(self, context: Context) -> Any:
        """Waits for a person, or passes."""
        if not self.is_asked_for:
            self.log.info("the release asks for no approval")
            return None
        prefix = self.ticket.evidence_prefix
        self.body = approval_body(
            self.record.state(),
            evidence_uri=self.ticket.uri(prefix),
            validation=self.store.read_json(f"{prefix}validation.json"),
            benchmark=self.store.read_json(f"{prefix}benchmark/verdict.json"),
            candidate_url=self.candidate_url,
        )
        with recorded_stage(self.record, _STAGES[self.before]):
            return super().execute(context)

    def execute_complete(self, context: Context, event: dict[str, Any]) -> Any:
        """Goes on with the person's answer."""
        with airflow_failures(), recorded_stage(self.record, _STAGES[self.before], resumed=True):
            try:
                return super().execute_complete(context, event)
            except HITLRejectException as rejection:
                raise GateRefusedError(
                    f"a person rejected version {self.ticket.version} of {self.ticket.model!r}",
                    expected=self.APPROVE,
                    found=self.REJECT,
                    remedy="ask the one who answered; the stable version is still live",
                ) from rejection
