"""The request to Airflow for an act of a person: values in, a request out. Nothing is sent here."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass
from datetime import datetime

from slipway_core.acts.act import EVIDENCE_LONGEST, REASON_LONGEST, REASON_SHORTEST, Act, Field
from slipway_core.acts.table import ACTS
from slipway_core.errors import UserError
from slipway_core.identifiers import parse_version, validate_model_name

COMMENT = "comment"
_RUN_ID_LONGEST = 250

Value = str | int | bool | None


@dataclass(frozen=True)
class Question:
    """The task of a run that waits for a person."""

    dag_id: str
    run_id: str
    task_id: str
    map_index: int = -1


@dataclass(frozen=True)
class ActInput:
    """What a person has entered. The `Act` says which of it is needed.

    :param until: when a freeze ends, with its time zone.
    :param finding: a finding's name, such as ``3-published``.
    :param evidence: the address, or the key in the bucket, of the page that the person has looked at.
    :param release_id: the run of the release to stop.
    """

    model: str | None = None
    version: int | None = None
    reason: str = ""
    until: datetime | None = None
    finding: str = ""
    evidence: str = ""
    force: bool = False
    wait_for_approval: bool = False
    newer: bool = False
    emergency: bool = False
    question: Question | None = None
    release_id: str = ""


@dataclass(frozen=True)
class StartRun:
    """Start a run of a workflow.

    :param conf: the run's parameters; omitted ones take the form's defaults.
    """

    workflow: str
    conf: Mapping[str, Value]
    note: str = ""


@dataclass(frozen=True)
class FailRun:
    """Mark a run as failed: its teardowns still run, which roll back and close the record."""

    workflow: str
    run_id: str
    note: str = ""


@dataclass(frozen=True)
class Answer:
    """Answer the question that a run waits for."""

    question: Question
    chosen: str
    comment: str = ""


Request = StartRun | FailRun | Answer


def request_of(name: str, entered: ActInput) -> Request:
    """Return the request to Airflow.

    :raises UserError: something that the act needs is missing or invalid; the message says which.
    """
    act = ACTS[name]
    require_filled_in(name, entered)
    if act.means == "answer":
        assert entered.question is not None  # noqa: S101  checked right above
        return Answer(entered.question, act.answer, entered.reason.strip())
    if act.means == "fail_run":
        return FailRun(act.workflow, entered.release_id, note=entered.reason.strip())
    return StartRun(act.workflow, _conf(act, entered), note=entered.reason.strip())


def require_filled_in(name: str, entered: ActInput, *, apart_from: Container[Field] = ()) -> None:
    """Return if what an act needs is given.

    :param apart_from: what is not known yet.
    :raises UserError: one is missing or invalid; the message says which.
    """
    act = ACTS[name]
    for field in act.fields:
        if field not in apart_from:
            _CHECKS.get(field, _unchecked)(act, entered)


def _conf(act: Act, entered: ActInput) -> dict[str, Value]:
    """Return the run's parameters; empty fields are left to the form's defaults."""
    given: dict[str, Value] = {
        "model": entered.model,
        "version": entered.version,
        "action": act.action or None,
        "reason": entered.reason.strip() or None,
        "until": None if entered.until is None else entered.until.isoformat(),
        "finding": entered.finding or None,
        "evidence": entered.evidence.strip() or None,
        "force": entered.force or None,
        "wait_for_approval": entered.wait_for_approval or None,
        "newer": entered.newer or None,
        "emergency": entered.emergency or None,
    }
    taken = {"action", *act.fields}
    return {name: value for name, value in given.items() if name in taken and value is not None}


def _require_model(act: Act, entered: ActInput) -> None:
    if entered.model is not None:
        validate_model_name(entered.model)
    elif "model" in act.required:
        raise _missing(act, "no model given", "the name of a release file")


def _require_version(act: Act, entered: ActInput) -> None:
    if entered.version is not None:
        parse_version(entered.version)
    elif "version" in act.required:
        raise _missing(act, "no version given", "a whole number of 1 or more")


def _require_reason(act: Act, entered: ActInput) -> None:
    length = len(entered.reason.strip())
    is_needed = "reason" in act.required or (length > 0 and not act.any_reason)
    if length > REASON_LONGEST or (is_needed and length < REASON_SHORTEST):
        raise _missing(
            act,
            "the reason is too long" if length > REASON_LONGEST else "a reason is needed",
            f"{REASON_SHORTEST} to {REASON_LONGEST} characters; others will read them under your name",
            found=f"too {'long' if length > REASON_LONGEST else 'short'} ({length})",
        )


def _require_until(act: Act, entered: ActInput) -> None:
    if entered.until is None or entered.until.tzinfo is None:
        raise _missing(act, "a freeze must have an end", "a time with its time zone")


def _require_finding(act: Act, entered: ActInput) -> None:
    if not 3 <= len(entered.finding) <= 100:
        raise _missing(act, "no finding given", "its name as the model's page shows it, such as 3-published")


def _require_evidence(act: Act, entered: ActInput) -> None:
    if len(entered.evidence.strip()) > EVIDENCE_LONGEST:
        raise _missing(act, "the address of the page is too long", f"at most {EVIDENCE_LONGEST} characters")


def _require_question(act: Act, entered: ActInput) -> None:
    if entered.question is None:
        raise _missing(act, "no open approval given", "an entry of the approvals")


def _require_release(act: Act, entered: ActInput) -> None:
    if not 0 < len(entered.release_id) <= _RUN_ID_LONGEST:
        raise _missing(act, "no release given", "the run of a release that is under way")


def _unchecked(_act: Act, _entered: ActInput) -> None:
    """A field that can only be true or false needs no check."""


_CHECKS: dict[Field, Callable[[Act, ActInput], None]] = {
    "model": _require_model,
    "version": _require_version,
    "reason": _require_reason,
    "until": _require_until,
    "finding": _require_finding,
    "evidence": _require_evidence,
    "question": _require_question,
    "release_id": _require_release,
}


def _missing(act: Act, what: str, expected: str, *, found: str = "none") -> UserError:
    return UserError(
        f"{act.title}: {what}", expected=expected, found=found, remedy="fill it in and try again"
    )
