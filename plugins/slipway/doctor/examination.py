"""What an examination is, and the registry that finds them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import asdict
from typing import ClassVar

from slipway.doctor.installation import Installation, Permission
from slipway_core.doctor.finding import Finding
from slipway_core.doctor.line import Line, Status
from slipway_core.errors import SlipwayError, UserError
from slipway_core.kind_registry import KindRegistry

DEFAULT_LIMIT_S = 30.0


class Examination(ABC):
    """Looks at one part of an installation; it reads, unless `needs` says what must be permitted.

    It yields a line as soon as it knows one. What it raises becomes a line of its own, `unknown`; what it raises as a
    `UserError` is known to be wrong, so `failed`.
    """

    required: ClassVar[tuple[str, ...]] = ("name", "place", "why")
    name: ClassVar[str]
    """What `--only` calls it, and its module."""
    place: ClassVar[int]
    """Where it stands among the others; those of one place are in the order of their names."""
    why: ClassVar[str]
    """Why it matters, for lines that have no better reason."""
    limit_s: ClassVar[float] = DEFAULT_LIMIT_S
    """When it counts as hanging."""
    needs: ClassVar[Permission | None] = None
    """Without this permission it is skipped."""

    @abstractmethod
    def lines(self, installation: Installation) -> Iterator[Line]:
        """Yield what was found, a line for each thing."""

    def line(self, what: str, status: Status, found: str = "", **more: str) -> Line:
        """Return a line of this examination.

        :param more: `expected`, `why` and `remedy`.
        """
        why = more.pop("why", "") or ("" if status is Status.OK else self.why)
        return Line(examination=self.name, what=what, status=status, found=found, why=why, **more)

    def of_finding(self, finding: Finding) -> Line:
        """Return the line that a finding of the domain makes."""
        return self.line(**asdict(finding))

    def ok(self, what: str, found: str) -> Line:
        """Return a line that is well."""
        return self.line(what, Status.OK, found)

    def failed(self, what: str, found: str, *, remedy: str, expected: str = "", **more: str) -> Line:
        """Return a line about what is wrong."""
        return self.line(what, Status.FAILED, found, remedy=remedy, expected=expected, **more)

    def warning(self, what: str, found: str, *, remedy: str, expected: str = "", **more: str) -> Line:
        """Return a line about what could be better."""
        return self.line(what, Status.WARNING, found, remedy=remedy, expected=expected, **more)

    def unknown(self, what: str, found: str, *, remedy: str, expected: str = "", **more: str) -> Line:
        """Return a line about what could not be examined."""
        return self.line(what, Status.UNKNOWN, found, remedy=remedy, expected=expected, **more)

    def skipped(self, what: str, found: str, remedy: str = "") -> Line:
        """Return a line about what was not asked for, or is not used here."""
        return self.line(what, Status.SKIPPED, found, remedy=remedy)

    def of_error(self, what: str, error: SlipwayError) -> Line:
        """Return the line that an error makes: what a person must change has failed, all else is not known."""
        status = Status.FAILED if isinstance(error, UserError) else Status.UNKNOWN
        return self.line(
            what, status, error.in_short(), expected=error.expected or "", remedy=error.remedy or ""
        )


EXAMINATIONS: KindRegistry[Examination] = KindRegistry(
    "examination",
    folder="slipway.doctor.examinations",
    base="slipway.doctor.examination:Examination",
    name_attribute="name",
    group="slipway.examinations",
)


def chosen_examinations(only: tuple[str, ...] = ()) -> list[Examination]:
    """Return the examinations of these names, or all, in their order.

    :raises UnknownKindError: there is none of a name.
    """
    names = only or EXAMINATIONS.names()
    found = [EXAMINATIONS.get(name)() for name in dict.fromkeys(names)]
    return sorted(found, key=lambda one: (one.place, one.name))
