"""Why a program did not pass, and its exit code."""

from __future__ import annotations

import traceback
from dataclasses import asdict, dataclass
from typing import Any

# Every other kind means a bad input.
BAD_INPUT = 3
EXIT_CODES = {
    "SlipwayError": 1,
    "BenchmarkRefusedError": 4,
    "ParityRefusedError": 4,
    "SignedWithoutIdentityError": 4,
    "SigningRefusedError": 4,
    "ServerUnavailableError": 75,
    "StoreUnavailableError": 75,
    "TimedOutError": 75,
    "TransientError": 75,
}


@dataclass(eq=False)
class PodError(Exception):
    """Why this program did not pass, in the words of the project's error tree.

    Kind and text are given by place, the rest by name: so an error can travel between processes.
    """

    kind: str
    what: str
    expected: str | None = None
    found: str | None = None
    remedy: str | None = None

    def __str__(self) -> str:
        details = [("Expected", self.expected), ("Found", self.found), ("Remedy", self.remedy)]
        sentences = [self.what, *(f"{label}: {text}" for label, text in details if text)]
        return " ".join(f"{sentence.rstrip('.')}." for sentence in sentences)

    @property
    def exit_code(self) -> int:
        """Return what the program ends with."""
        return EXIT_CODES.get(self.kind, BAD_INPUT)

    def to_json(self) -> dict[str, Any]:
        """Return the value as JSON holds it."""
        return asdict(self)


def unexpected(error: BaseException, subject: str = "converter") -> PodError:
    """Return the error for what the program did not foresee; the log gets the traceback."""
    traceback.print_exception(error)
    what = f"The {subject} failed in a way it does not know"
    found = f"{type(error).__name__}: {first_line(error)}"
    remedy = "read the pod's log for the traceback, and report it"
    return PodError("SlipwayError", what, found=found, remedy=remedy)


def first_line(error: BaseException) -> str:
    """Return the first line of an error's text that says something, shortened."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return (lines[0] if lines else type(error).__name__)[:300]
