"""What one run of `model_revalidation` has found of one model: check by check, and what could not be checked."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Annotated, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field

from slipway_core.operations.documents import OperationsDocument
from slipway_core.value_types import UtcTime

Check = Literal[
    "live", "published", "configuration", "signature", "answers", "latency", "inputs", "benchmark"
]
Outcome = Literal["passed", "differs", "could_not_check", "no_reference", "left_out"]
Standing = Literal["checked", "in_flight", "nothing_live", "could_not_check", "not_enabled"]

DETAILS_LIMIT = 50
_TEXT_LIMIT = 2000

Line = Annotated[str, Field(max_length=_TEXT_LIMIT)]
Number = float | int | None


class CheckResult(BaseModel):
    """One check. `summary` is a sentence for people, with figures; `details` name what differs, the same text each day.

    `more` counts the details that are left out, `digest` is of all of them.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    check: Check
    outcome: Outcome
    summary: Line
    details: tuple[Line, ...] = ()
    more: int = 0
    digest: str = ""
    numbers: dict[str, Number] = {}

    @property
    def is_amiss(self) -> bool:
        """Whether a person should look: it differs, or nobody can tell."""
        return self.outcome in ("differs", "could_not_check")


def passed(check: Check, summary: str, **numbers: Number) -> CheckResult:
    """Return the result of a check that found what was expected."""
    return CheckResult(check=check, outcome="passed", summary=clipped(summary), numbers=numbers)


def differs(check: Check, summary: str, details: Iterable[str], **numbers: Number) -> CheckResult:
    """Return the result of a check that found something else.

    :param details: what differs, in words that stay the same while it is the same.
    """
    every = sorted({clipped(one) for one in details})
    return CheckResult(
        check=check,
        outcome="differs",
        summary=clipped(summary),
        details=tuple(every[:DETAILS_LIMIT]),
        more=max(0, len(every) - DETAILS_LIMIT),
        digest=hashlib.sha256("\n".join(every).encode()).hexdigest(),
        numbers=numbers,
    )


def could_not_check(check: Check, error: object) -> CheckResult:
    """Return the result of a check that could not read what it needs; that is never a pass."""
    return CheckResult(check=check, outcome="could_not_check", summary=clipped(str(error)))


def no_reference(check: Check, summary: str, **numbers: Number) -> CheckResult:
    """Return the result of a check that has nothing from the release to compare with."""
    return CheckResult(check=check, outcome="no_reference", summary=clipped(summary), numbers=numbers)


def left_out(check: Check, summary: str) -> CheckResult:
    """Return the result of a check that cannot be made of such a model."""
    return CheckResult(check=check, outcome="left_out", summary=clipped(summary))


def clipped(text: str) -> str:
    """Return a text that fits a report."""
    return text if len(text) <= _TEXT_LIMIT else f"{text[: _TEXT_LIMIT - 1]}…"


class ModelReport(OperationsDocument):
    """A run's report on one model. `why` says in words how the model stands; `version` is the live one, if known."""

    called: ClassVar[str] = "report of model_revalidation"

    schema_version: Literal[1] = 1
    run: str
    model: str
    at: UtcTime
    standing: Standing
    why: Line = ""
    service: str = ""
    version: int | None = None
    checks: tuple[CheckResult, ...] = ()

    @property
    def is_as_released(self) -> bool:
        """Whether everything that can be compared was compared, and is as it was."""
        return self.standing == "checked" and all(
            one.outcome in ("passed", "left_out") for one in self.checks
        )

    @property
    def not_checked(self) -> tuple[str, ...]:
        """Return in words what could not be checked."""
        if self.standing == "could_not_check":
            return (self.why,)
        return tuple(f"{one.check}: {one.summary}" for one in self.checks if one.outcome == "could_not_check")


class RunReport(OperationsDocument):
    """A whole run: how each model stands, and which findings are open."""

    called: ClassVar[str] = "report of a run of model_revalidation"

    schema_version: Literal[1] = 1
    run: str
    at: UtcTime
    started_by: str | None
    models: tuple[str, ...]
    not_looked_at: tuple[str, ...] = ()
