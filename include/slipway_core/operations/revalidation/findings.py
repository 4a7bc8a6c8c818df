"""Findings: what was seen amiss with a model, open from the first time until a run finds it gone or a person closes it.

One object a finding, by version and check. What is seen again opens nothing again. A finding that a person has closed
stays closed while exactly that is seen; something else, or the same after it was gone, opens it again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Annotated, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field

from slipway_core.errors import UserError
from slipway_core.operations.documents import OperationsDocument
from slipway_core.operations.layout import findings_prefix
from slipway_core.operations.revalidation.report import Check, CheckResult, Line, ModelReport
from slipway_core.value_types import UtcTime

Status = Literal["suspected", "open", "closed"]
HISTORY_LIMIT = 50
REASON_LIMIT = 500
FINDINGS_LIMIT = 1000
_UNCHECKED = "unchecked-"


class Closing(BaseModel):
    """How a finding was closed: by a run (`by` is None) or by a person, and why."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    at: UtcTime
    run: str
    by: str | None
    reason: Line


class Episode(BaseModel):
    """An earlier time for which the finding was open."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    opened_at: UtcTime
    opened_run: str
    closed: Closing


class RollbackStart(BaseModel):
    """The run of `model_rollback` that was started for a finding, once; `by_run` is the one that started it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    at: UtcTime
    run: str
    to_version: int
    by_run: str


class Finding(OperationsDocument):
    """What is amiss with a model. `suspected`: something could not be checked, too seldom yet to be a finding.

    :ivar version: the version that it is about; None: what is live is not known.
    :ivar is_unchecked: it is that the check could not be made.
    :ivar times: in how many runs in a row it was seen.
    :ivar not_rolled_back: why `on_drift: roll_back` has started no rollback for it.
    """

    called: ClassVar[str] = "finding"
    limit_bytes: ClassVar[int] = 1 << 20

    schema_version: Literal[1] = 1
    model: str
    version: int | None
    check: Check
    is_unchecked: bool
    status: Status
    summary: Line
    details: tuple[Line, ...] = ()
    more: int = 0
    digest: str = ""
    first_seen_at: UtcTime
    last_seen_at: UtcTime
    last_run: str
    times: Annotated[int, Field(ge=1)] = 1
    opened_at: UtcTime | None = None
    opened_run: str = ""
    closed: Closing | None = None
    rollback: RollbackStart | None = None
    not_rolled_back: Line = ""
    earlier: Annotated[tuple[Episode, ...], Field(max_length=HISTORY_LIMIT)] = ()

    @property
    def name(self) -> str:
        """Return by what the finding is called, and its object."""
        return finding_name(self.version, self.check, is_unchecked=self.is_unchecked)

    @property
    def is_open(self) -> bool:
        """Whether it waits for a run or a person."""
        return self.status == "open"


def finding_name(version: int | None, check: Check, *, is_unchecked: bool = False) -> str:
    """Return by what a finding is called: one of a version, or one of the model, whatever is live."""
    if is_unchecked:
        return f"{_UNCHECKED}{check}"
    return check if version is None else f"{version}-{check}"


def finding_key(model: str, name: str) -> str:
    """Return where a finding lies."""
    return f"{findings_prefix(model)}{name}.json"


def settled(known: Mapping[str, Finding], report: ModelReport, *, unchecked_runs: int) -> dict[str, Finding]:
    """Return the findings that a report opens, keeps or closes, by their names; those that stay as they are not.

    :param known: all findings of the model, by name.
    :param unchecked_runs: after so many runs in a row it is a finding that something could not be checked.
    """
    if report.standing in ("in_flight", "not_enabled"):
        return {}
    changes: dict[str, Finding] = {}
    for result in _results(report):
        changes |= _of_result(known, report, result, unchecked_runs)
    if report.standing in ("checked", "nothing_live"):
        changes |= _left_behind(known, report, changes)
    return {name: one for name, one in changes.items() if known.get(name) != one}


def settled_check(
    known: Mapping[str, Finding], report: ModelReport, result: CheckResult, *, unchecked_runs: int
) -> dict[str, Finding]:
    """Return the findings that one check alone opens, keeps or closes; what else is open is not its matter.

    :param known: as those of `settled`, and so is `unchecked_runs`.
    :param report: whose run, time and live version it is.
    """
    changes = _of_result(known, report, result, unchecked_runs)
    return {name: one for name, one in changes.items() if known.get(name) != one}


def _results(report: ModelReport) -> Iterable[CheckResult]:
    """Yield every check, whether it is known what is live among them."""
    checked = {one.check for one in report.checks}
    if report.standing == "could_not_check":
        yield CheckResult(check="live", outcome="could_not_check", summary=report.why)
    elif "live" not in checked:
        yield CheckResult(check="live", outcome="passed", summary=report.why)
    yield from report.checks


def _of_result(
    known: Mapping[str, Finding], report: ModelReport, result: CheckResult, unchecked_runs: int
) -> dict[str, Finding]:
    name = finding_name(report.version, result.check)
    unchecked = finding_name(None, result.check, is_unchecked=True)
    if result.outcome == "could_not_check":
        return {unchecked: _seen(known.get(unchecked), report, result, opens_after=unchecked_runs)}
    changes = _gone(known, unchecked, report, "it could be checked again")
    if result.outcome == "differs":
        changes[name] = _seen(known.get(name), report, result, opens_after=1)
    elif result.outcome == "passed":
        changes |= _gone(known, name, report, "a run found it gone")
        if result.check == "live":
            changes |= _gone(known, "live", report, "a run found it gone")
    return changes


def _left_behind(
    known: Mapping[str, Finding], report: ModelReport, changes: Mapping[str, Finding]
) -> dict[str, Finding]:
    """Close what is said of versions that are not live any more."""
    found: dict[str, Finding] = {}
    for name, one in known.items():
        is_past = one.version is not None and one.version != report.version and not one.is_unchecked
        if is_past and name not in changes:
            found |= _gone(known, name, report, f"version {one.version} is no longer live")
    return found


def _seen(before: Finding | None, report: ModelReport, result: CheckResult, *, opens_after: int) -> Finding:
    is_unchecked = result.outcome == "could_not_check"
    now = {
        "summary": result.summary,
        "details": result.details,
        "more": result.more,
        "digest": result.digest,
        "last_seen_at": report.at,
        "last_run": report.run,
    }
    opening = {"status": "open", "opened_at": report.at, "opened_run": report.run}
    if before is None:
        first = Finding.model_validate(
            {
                "model": report.model,
                "version": None if is_unchecked else report.version,
                "check": result.check,
                "is_unchecked": is_unchecked,
                "status": "suspected",
                "first_seen_at": report.at,
                **now,
            }
        )
        return first.model_copy(update=opening) if opens_after <= 1 else first
    if before.last_run == report.run and before.digest == result.digest:
        return before  # an earlier try of this task has written it
    times = before.times + (before.last_run != report.run)
    if before.status == "open":
        return before.model_copy(update={**now, "times": times})
    if before.status == "suspected":
        opened = opening if times >= opens_after else {}
        return before.model_copy(update={**now, "times": times, **opened})
    if _is_accepted(before) and before.digest == result.digest:
        return before.model_copy(update={**now, "times": times})
    again = {
        **now,
        "first_seen_at": report.at,
        "times": 1,
        "closed": None,
        "rollback": None,
        "not_rolled_back": "",
    }
    again["earlier"] = _history(before)
    anew = {"status": "suspected", "opened_at": None, "opened_run": ""} if opens_after > 1 else opening
    return before.model_copy(update={**again, **anew})


def _gone(known: Mapping[str, Finding], name: str, report: ModelReport, reason: str) -> dict[str, Finding]:
    """Close a finding that was not seen; with it ends what a person has said of it."""
    before = known.get(name)
    if before is None or (before.status == "closed" and not _is_accepted(before)):
        return {}
    closing = Closing(at=report.at, run=report.run, by=None, reason=reason)
    earlier = _history(before) if _is_accepted(before) else before.earlier
    return {name: before.model_copy(update={"status": "closed", "closed": closing, "earlier": earlier})}


def closed_by(before: Finding, *, who: str | None, reason: str, run: str, now: datetime) -> Finding:
    """Return the finding as a person closes it.

    :param who: the person.
    :raises UserError: the person is unknown, or it is not open.
    """
    if who is None:
        raise UserError(
            "it is unknown who closes the finding",
            expected="a run that a person has started",
            found="a run without a user",
            remedy="start it in the UI or over REST, under your own name",
        )
    if before.status != "open":
        if before.closed is not None and before.closed.run == run:
            return before  # an earlier try of this task
        raise UserError(
            f"the finding {before.name!r} of {before.model!r} is not open",
            expected="an open finding",
            found=status_words(before),
            remedy="look at the newest page of model_revalidation",
        )
    closing = Closing(at=now, run=run, by=who[:200], reason=reason[:REASON_LIMIT])
    return before.model_copy(update={"status": "closed", "closed": closing})


def status_words(finding: Finding) -> str:
    """Return in words how a finding stands."""
    if finding.closed is None or finding.status != "closed":
        return f"{finding.status} since {finding.opened_at or finding.first_seen_at:%Y-%m-%d %H:%M}"
    who = finding.closed.by or "a run"
    return f"closed on {finding.closed.at:%Y-%m-%d %H:%M} by {who}: {finding.closed.reason}"


def _is_accepted(finding: Finding) -> bool:
    return finding.status == "closed" and finding.closed is not None and finding.closed.by is not None


def _history(before: Finding) -> tuple[Episode, ...]:
    if before.closed is None or before.opened_at is None:
        return before.earlier
    episode = Episode(opened_at=before.opened_at, opened_run=before.opened_run, closed=before.closed)
    return (*before.earlier, episode)[-HISTORY_LIMIT:]
