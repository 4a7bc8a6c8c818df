"""A person's word before the first percent of traffic, or before the promotion, where the release asks for it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Literal

from airflow.providers.standard.exceptions import HITLRejectException
from airflow.providers.standard.operators.hitl import ApprovalOperator
from airflow.sdk.definitions.param import Param, ParamsDict

from slipway.extra_links import EVIDENCE_LINKS
from slipway.failures import airflow_failures
from slipway.operators.base import ReleaseStep, recorded_stage
from slipway.release_record.shown import shown_of
from slipway.release_run import RELEASE_RUN_TEMPLATE
from slipway.run_note import tell_release
from slipway_core.errors import VersionDeclinedError
from slipway_core.four_eyes import are_two_people, is_other_person
from slipway_core.operations.notices.of_release import approval_notice
from slipway_core.record.kinds import Approved
from slipway_core.reports.approval import approval_body

if TYPE_CHECKING:
    from airflow.sdk import Context

_PATIENCE = timedelta(days=3)
_QUESTIONS = {
    "canary": "Release {{ params.model }} version {{ params.version }} to live traffic?",
    "promotion": "Give {{ params.model }} version {{ params.version }} all traffic?",
}
_STAGES = {"canary": "approve", "promotion": "approve_promotion"}
COMMENT = "comment"


class ApproveReleaseOperator(ReleaseStep, ApprovalOperator):
    """Asks in the Airflow UI, or over its REST API, whether the release may go on.

    Passes at once where the release's record asks for none. A rejection refuses the release. An agreement is written
    into the record, with the person's name and comment: that, and not the end of this task, is what a raise asks for.
    Where another person than who started the run must agree, that one's own agreement is not taken, and the question
    stays open.

    :param before: what the person is asked before: the ``canary`` or the ``promotion``.
    :param candidate_url: where the person can try the candidate (templated); empty where it is not up yet.
    """

    template_fields: Sequence[str] = ("release", "candidate_url", *ApprovalOperator.template_fields)
    evidence_file = "validation.html"
    operator_extra_links = EVIDENCE_LINKS

    def __init__(
        self,
        *,
        before: Literal["canary", "promotion"] = "canary",
        release: str = RELEASE_RUN_TEMPLATE,
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
        self.params = ParamsDict({COMMENT: comment_param()})
        self.before = before
        self.release = release
        self.candidate_url = candidate_url
        self.aws_conn_id = aws_conn_id

    def execute(self, context: Context) -> Any:
        """Waits for a person, or passes."""
        with airflow_failures(self.page):
            self.require_admitted()
        state = self.record.state()
        if state.required is None or self.before not in state.required.approvals:
            self.log.info("no approval is required before the %s", self.before)
            return None
        prefix = self.release_run.evidence_prefix
        self.body = approval_body(
            state,
            evidence_uri=self.release_run.uri(prefix),
            validation=self.store.read_json(f"{prefix}validation.json"),
            benchmark=self.store.read_json(f"{prefix}benchmark/verdict.json"),
            candidate_url=self.candidate_url,
        )
        with recorded_stage(self.record, _STAGES[self.before]):
            self.parts.outbox.tell(
                approval_notice(
                    state,
                    self.record.events(),
                    before=self.before,
                    at=datetime.now(UTC),
                    evidence=self.release_run.uri(prefix),
                    dag_id=self.dag_id,
                )
            )
            asked = f"needs approval before the {self.before}"
            tell_release(context, self.release_run.model, self.release_run.version, asked)
            return super().execute(context)

    def execute_complete(self, context: Context, event: dict[str, Any]) -> Any:
        """Goes on with the person's answer.

        :raises VersionDeclinedError: the person declined the version.
        """
        with airflow_failures(self.page), recorded_stage(self.record, _STAGES[self.before], resumed=True):
            self.require_admitted()
            by, comment = person_of(event)
            state = self.record.state()
            try:
                answer = super().execute_complete(context, event)
            except HITLRejectException as rejection:
                who = by or "somebody with an unknown name"
                raise VersionDeclinedError(
                    f"{who} declined version {self.release_run.version} of {self.release_run.model!r} "
                    f"before the {self.before}{f': {comment}' if comment else ', without a comment'}",
                    remedy="the stable version is still live. Ask the person who declined what must change",
                    by=by,
                ) from rejection
            by_other = state.required is not None and state.required.by_other
            if by_other and not is_other_person(by, (state.triggered_by,)):
                self.log.warning(
                    "%s started this run and cannot approve it: another person must",
                    by or "somebody unknown",
                )
                return ApprovalOperator.execute(self, context)  # the question is open again
            self.record.append(
                Approved(
                    before=self.before,
                    by=by,
                    manifest_sha256=state.verified_sha256,
                    reason=comment or None,
                    shown=shown_of(self.store, self.record.events()),
                )
            )
            if by_other and not are_two_people(self._agreed(), state.triggered_by):
                self.log.warning(
                    "%s approved; no person started this release, so a second person must approve too", by
                )
                return ApprovalOperator.execute(self, context)
            return answer

    def _agreed(self) -> list[str]:
        """Return who has agreed to this manifest by now."""
        state = self.record.state()
        return [
            one.by
            for one in state.approvals
            if one.before == self.before and one.manifest_sha256 == state.verified_sha256
        ]


def comment_param() -> Param:
    """What the form asks the person for, beside the answer."""
    return Param(
        "", type="string", maxLength=500, title="Comment", description="The reason; it goes into the record."
    )


def person_of(event: dict[str, Any]) -> tuple[str, str]:
    """Name and comment of who answered; "" where they are unknown."""
    user = event.get("responded_by_user") or {}
    return str(user.get("name") or ""), str((event.get("params_input") or {}).get(COMMENT) or "")
