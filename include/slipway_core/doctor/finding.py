"""What a pure look at an answer found: a status and its texts, of which an examination makes a line."""

from __future__ import annotations

from dataclasses import dataclass

from slipway_core.doctor.line import Status


@dataclass(frozen=True)
class Finding:
    """The parts of a `Line` that do not depend on who examined; `why` "" leaves the examination's own."""

    what: str
    status: Status
    found: str = ""
    expected: str = ""
    why: str = ""
    remedy: str = ""


def fine(what: str, found: str) -> Finding:
    """Return a finding that is well."""
    return Finding(what, Status.OK, found)
