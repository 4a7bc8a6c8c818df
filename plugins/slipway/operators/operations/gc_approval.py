"""Four eyes before the first run that deletes in a bucket."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from airflow.providers.standard.exceptions import HITLRejectException
from airflow.providers.standard.operators.hitl import ApprovalOperator
from airflow.sdk.definitions.param import ParamsDict
from airflow.sdk.exceptions import AirflowSkipException

from slipway.airflow_run import triggered_by
from slipway.failures import airflow_failures
from slipway.hooks.s3_store import ModelStoreHook
from slipway.operators.approval import COMMENT, comment_param, person_of
from slipway.operators.operations.gc import ANSWER_LIMIT_S, read_approval
from slipway_core.errors import GateRefusedError, UserError
from slipway_core.four_eyes import is_other_person
from slipway_core.operations.audit import GcApproval
from slipway_core.operations.layout import GC_APPROVAL_KEY
from slipway_core.record.shown import Shown
from slipway_core.written_numbers import counted

if TYPE_CHECKING:
    from airflow.sdk import Context

_PATIENCE = timedelta(days=3)


class ApproveRetentionOperator(ApprovalOperator):
    """Asks another person than who started the run whether the plan may be carried out.

    A dry run, and one that deletes nothing, skips what comes after. Once a run was agreed to in this bucket later runs
    pass. The agreement is kept in the bucket: that, and not the end of this task, is what deleting asks for.

    :param bucket: the bucket (templated).
    :param shown: what the task that shows the plan returned, as JSON (templated).
    """

    template_fields: Sequence[str] = ("bucket", "shown", *ApprovalOperator.template_fields)

    def __init__(self, *, bucket: str, shown: str, aws_conn_id: str = "aws_default", **kwargs: Any) -> None:
        super().__init__(
            subject="Delete old versions of models? This is the first deletion in this bucket.",
            fail_on_reject=True,
            response_timeout=_PATIENCE,
            execution_timeout=None,
            **kwargs,
        )
        self.params = ParamsDict({COMMENT: comment_param()})
        self.bucket = bucket
        self.shown = shown
        self.aws_conn_id = aws_conn_id

    def execute(self, context: Context) -> Any:
        """Wait for a person, or pass, or skip the deletion.

        :raises AirflowFailException: nobody has agreed in this bucket yet, and no person has started the run.
        """
        shown = json.loads(self.shown)
        if context["params"]["dry_run"]:
            raise AirflowSkipException(
                f"dry run: {counted(shown['versions'], 'version')} would be deleted. See {shown['page']}"
            )
        if not shown["versions"]:
            raise AirflowSkipException("nothing is to be deleted")
        with airflow_failures():
            if read_approval(self._store) is not None:
                self.log.info("a run was approved in this bucket before")
                return None
            if triggered_by(context) is None:
                raise UserError(
                    "a person must start the first run that deletes in a bucket",
                    expected="one person who starts it, and another who approves it",
                    found="a run of the schedule",
                    remedy="start repository_gc by hand with dry_run off",
                )
        self.body = (
            f"{counted(shown['versions'], 'version')}, {shown['size']}. "
            f"What would be deleted, what would be kept, and why: {shown['page']}\n\n"
            f"Started by {triggered_by(context)}; another person must agree. Plan: SHA-256 {shown['plan_sha256']}"
        )
        return super().execute(context)

    def execute_complete(self, context: Context, event: dict[str, Any]) -> Any:
        """Keep the person's agreement in the bucket.

        :raises AirflowFailException: the person declined the plan.
        """
        with airflow_failures():
            by, comment = person_of(event)
            try:
                answer = super().execute_complete(context, event)
            except HITLRejectException as rejection:
                raise GateRefusedError(
                    f"{by or 'somebody with an unknown name'} declined the deletion"
                    f"{f': {comment}' if comment else ', without a comment'}",
                    remedy="nothing was deleted. Ask the person who declined which versions must be kept, and pin "
                    "those",
                ) from rejection
            started_by = triggered_by(context)
            if started_by is None or not is_other_person(by, (started_by,)):
                self.log.warning(
                    "%s started this run and cannot approve it: another person must",
                    by or "somebody unknown",
                )
                return ApprovalOperator.execute(self, context)  # the question is open again
            shown = json.loads(self.shown)
            agreed = GcApproval(
                run=context["run_id"],
                started_by=started_by,
                approved_by=by,
                at=datetime.now(UTC),
                plan_sha256=shown["plan_sha256"],
                comment=comment,
                shown=tuple(Shown.model_validate(one) for one in shown["shown"]),
            )
            if not self._store.write_once(GC_APPROVAL_KEY, agreed.to_bytes()):
                self.log.info("another run was approved in this bucket in the meantime")
            return answer

    @property
    def _store(self) -> ModelStoreHook:
        return ModelStoreHook(self.bucket, self.aws_conn_id, answer_limit_s=ANSWER_LIMIT_S)
