"""What people did, as the records of versions and the documents beside them tell it: the lines of an audit.

What a release does by itself is no line.
"""

from __future__ import annotations

from collections.abc import Iterator

from slipway_core.operations.audit import AuditEntry, GcApproval
from slipway_core.operations.freezes import Freeze, Lifted
from slipway_core.operations.live_history import is_way_back
from slipway_core.operations.revalidation.findings import Closing, Finding
from slipway_core.read_model.stored import Line, Part, Version, cut
from slipway_core.record.events import Event
from slipway_core.record.kinds import (
    Approved,
    HoldOverridden,
    KnownEvent,
    ReleaseStarted,
    RollbackStarted,
    StageFinished,
    VersionRejected,
    VersionUnrejected,
)
from slipway_core.record.stage_names import ASKED_BEFORE
from slipway_core.value_types import UtcTime

RECORD_KINDS = frozenset(
    kind.kind
    for kind in (
        Approved,
        HoldOverridden,
        ReleaseStarted,
        RollbackStarted,
        StageFinished,
        VersionRejected,
        VersionUnrejected,
    )
)
"""Only events of these kinds tell of a person."""

# The stages in which a person is asked.
_AUDITED = {
    "deletion-begun": "started deleting files",
    "deletion-finished": "deleted files",
    "pinned": "pinned",
    "unpinned": "unpinned",
    "paused": "paused the canary",
    "resumed": "resumed the canary",
}


class PersonAct(Part):
    """One act of a person.

    `model` is "" for every model, `version` None if it is about none. `by` is "" if the record does not name
    the person. `agreed_by` is another person whose agreement it needed. `source` is the key of what tells it.
    """

    at: UtcTime
    by: Line
    act: Line
    model: Line = ""
    version: Version | None = None
    reason: Line = ""
    agreed_by: Line = ""
    run: Line = ""
    source: Line = ""


def acts_of_event(event: Event) -> Iterator[PersonAct]:
    """Yield what a person did by an event of a record; nothing, or one act."""
    act_of_person = _act_of(event.data) if isinstance(event.data, KnownEvent) else None
    if act_of_person is not None:
        by, act, reason = act_of_person
        yield PersonAct(
            at=event.at,
            by=cut(by),
            act=act,
            model=cut(event.model),
            version=event.version,
            reason=cut(reason),
            run=cut(event.release_id),
            source=event.key,
        )


def acts_of_freeze(one: Freeze, lifted: Lifted | None, lifted_key: str) -> Iterator[PersonAct]:
    """Yield who froze, and who lifted it before its end.

    :param lifted_key: where the lifting lies.
    """
    until = f"until {one.until:%Y-%m-%d %H:%M} UTC: {one.reason}"
    model = one.model or ""
    yield PersonAct(at=one.at, by=cut(one.by), act="froze", model=model, reason=cut(until), source=one.key)
    if lifted is not None:
        yield PersonAct(
            at=lifted.at,
            by=cut(lifted.by),
            act="lifted a freeze",
            model=model,
            reason=cut(lifted.reason),
            source=lifted_key,
        )


def act_of_audit(entry: AuditEntry, key: str) -> PersonAct:
    """Return what an entry of `operations/audit/` tells."""
    return PersonAct(
        at=entry.at,
        by=cut(entry.by),
        act=_AUDITED.get(entry.act, cut(entry.act)),
        model=cut(entry.model),
        version=entry.version,
        reason=cut(entry.reason),
        agreed_by=cut(entry.approved_by),
        run=cut(entry.run),
        source=key,
    )


def act_of_gc_approval(approval: GcApproval, key: str) -> PersonAct:
    """Return who agreed to the first deletion in a bucket."""
    return PersonAct(
        at=approval.at,
        by=cut(approval.approved_by),
        act="approved the first deletion in this bucket",
        reason=cut(approval.comment),
        run=cut(approval.run),
        source=key,
    )


def acts_of_finding(finding: Finding, key: str) -> Iterator[PersonAct]:
    """Yield who closed a finding, now and earlier; a run that closes one is nobody."""
    closings: list[Closing] = [one.closed for one in finding.earlier]
    if finding.closed is not None and finding.closed not in closings:
        closings.append(finding.closed)
    for closing in closings:
        if closing.by:
            yield PersonAct(
                at=closing.at,
                by=cut(closing.by),
                act=f"closed the finding {cut(finding.name, 200)}",
                model=cut(finding.model),
                version=finding.version,
                reason=cut(closing.reason),
                run=cut(closing.run),
                source=key,
            )


def _act_of(data: KnownEvent) -> tuple[str | None, str, str | None] | None:
    """Return who, what and why; None if it is no act of a person."""
    match data:
        case ReleaseStarted() if data.triggered_by:
            act = "started a rollback" if is_way_back(data) else "started a release"
            return data.triggered_by, act, data.reason
        case Approved():
            return data.by, f"approved before the {data.before}", data.reason
        case StageFinished() if data.stage in ASKED_BEFORE and data.outcome == "refused":
            return data.by, "declined an approval", data.reason
        case VersionRejected() if data.by:
            return data.by, "rolled back" if data.stage == "rollback" else "rejected", data.reason
        case VersionUnrejected():
            return data.by, "lifted the rejection", data.reason
        case HoldOverridden():
            return data.by, "overrode a hold for the version", data.reason
        case RollbackStarted() if data.by == "a person":
            return None, "rolled the candidate back", data.reason
        case _:
            return None
