"""All lines of one call of `slipway doctor`, as they are kept in the bucket and shown on the page."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from datetime import timedelta
from enum import IntEnum
from typing import Annotated, ClassVar

from pydantic import Field

from slipway_core.doctor.line import Line, Status
from slipway_core.operations.documents import OperationsDocument
from slipway_core.value_types import UtcTime

REPORT_KEY = "operations/doctor/last.json"
"""The last report of the DAG, written over each time."""
OLD_AFTER = timedelta(hours=26)
"""The DAG runs daily: an older report says that it does not."""
_LINES_LIMIT = 1000
# What needs a person first comes first.
_ORDER = (Status.FAILED, Status.UNKNOWN, Status.WARNING, Status.SKIPPED, Status.OK)


class DoctorCode(IntEnum):
    """The exit code of `slipway doctor`."""

    OK = 0
    FAILED = 1
    """Something is wrong."""
    UNKNOWN = 2
    """Nothing is known to be wrong, but something could not be examined."""


class DoctorReport(OperationsDocument):
    """What was found, in the order of the examinations.

    :param began_at: when the first examination began (UTC).
    :param ended_at: when the last one ended (UTC).
    :param where: in which process: a task of Airflow, or a person's command.
    """

    called: ClassVar[str] = "report of slipway doctor"
    limit_bytes: ClassVar[int] = 4 << 20

    began_at: UtcTime
    ended_at: UtcTime
    where: Annotated[str, Field(max_length=300)]
    lines: Annotated[tuple[Line, ...], Field(max_length=_LINES_LIMIT)]

    @property
    def counts(self) -> dict[Status, int]:
        """How many lines have each status; those that need a person come first."""
        return counts(self.lines)

    @property
    def code(self) -> DoctorCode:
        """The exit code that the lines make."""
        return code_of(self.lines)


def counts(lines: Iterable[Line]) -> dict[Status, int]:
    """Return how many lines have each status; those that need a person come first."""
    found = Counter(line.status for line in lines)
    return {status: found[status] for status in _ORDER}


def code_of(lines: Iterable[Line]) -> DoctorCode:
    """Return the exit code that lines make; no line at all is nothing examined."""
    found = counts(lines)
    if found[Status.FAILED]:
        return DoctorCode.FAILED
    if found[Status.UNKNOWN] or not any(found.values()):
        return DoctorCode.UNKNOWN
    return DoctorCode.OK


def summary(lines: Iterable[Line]) -> str:
    """Return the counts in a sentence: `1 failed, 2 unknown, 30 ok`."""
    return ", ".join(f"{count} {status}" for status, count in counts(lines).items() if count) or "no line"
