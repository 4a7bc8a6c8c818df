"""What is kept forever of what was done after the release day: who did it, who agreed, when, by which plan."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import Field

from slipway_core.errors import UserError
from slipway_core.four_eyes import is_other_person
from slipway_core.operations.documents import OperationsDocument
from slipway_core.operations.layout import Act
from slipway_core.record.shown import ShownThen
from slipway_core.value_types import Sha256, UtcTime

Line = Annotated[str, Field(max_length=2000)]


class AuditEntry(OperationsDocument):
    """One thing that was done to a version; written once, never changed."""

    called: ClassVar[str] = "entry of the audit"

    act: Act
    model: str
    version: int
    run: str
    at: UtcTime
    by: str | None
    approved_by: str | None = None
    plan_sha256: Sha256 | None = None
    reason: str
    objects: int | None = None
    size_bytes: int | None = None


class GcApproval(OperationsDocument):
    """A person's agreement to the first run of `repository_gc` that deletes something in this bucket.

    `shown` is what was in front of that person: the page and the plan.
    """

    called: ClassVar[str] = "agreement of a person"
    limit_bytes: ClassVar[int] = 16 << 10

    run: Line
    started_by: Annotated[Line, Field(min_length=1)]
    approved_by: Annotated[Line, Field(min_length=1)]
    at: UtcTime
    plan_sha256: Sha256
    comment: Line = ""
    shown: ShownThen = ()


def require_approved(approval: GcApproval | None, run: str, plan_sha256: str) -> GcApproval:
    """Return the agreement under which a run may delete: to this run's plan, or to an earlier run of this bucket.

    :param approval: what lies in the bucket; None: nothing.
    :raises UserError: there is none, it is to another plan of this run, or of who started the run.
    """
    if approval is None:
        found = "none"
    elif not is_other_person(approval.approved_by, (approval.started_by,)):
        found = f"one of {approval.approved_by}, who started that run"
    elif approval.run == run and approval.plan_sha256 != plan_sha256:
        found = f"one to another plan of this run, {approval.plan_sha256}"
    else:
        return approval
    raise UserError(
        "nothing is deleted: the first real run in this bucket has no approval",
        expected="an approval of the plan that was shown, by a person other than the one who started it",
        found=found,
        remedy="Start a new run with dry_run off, and let another person approve it.",
    )
