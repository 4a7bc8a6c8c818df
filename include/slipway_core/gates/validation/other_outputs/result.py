"""What was found of an output that is not scored."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from slipway_core.gates.validation.scores import Array

Status = Literal["pass", "warn", "fail", "not_looked_at"]


@dataclass(frozen=True)
class OutputResult:
    """One output: its status, what it was measured by, and what was seen, in words."""

    name: str
    status: Status
    measure: str
    summary: str

    def to_dict(self) -> dict[str, str]:
        """Return it as JSON holds it."""
        return {"output": self.name, "status": self.status, "measure": self.measure, "summary": self.summary}

    @classmethod
    def from_dict(cls, value: Mapping[str, str]) -> OutputResult:
        """Return what `to_dict` made; an unknown status fails."""
        known: dict[str, Status] = {"pass": "pass", "warn": "warn", "not_looked_at": "not_looked_at"}
        return cls(value["output"], known.get(value["status"], "fail"), value["measure"], value["summary"])


@dataclass(frozen=True)
class OutputAnswers:
    """One version's answers in all outputs: rows first, by output.

    :ivar scored: the outputs that are scored, as the server gave them.
    :ivar others: all others that could be read.
    :ivar unread: why the rest could not, by output.
    """

    scored: Mapping[str, Array] = field(default_factory=dict)
    others: Mapping[str, Array] = field(default_factory=dict)
    unread: Mapping[str, str] = field(default_factory=dict)


def not_looked_at(results: Sequence[OutputResult]) -> list[str]:
    """Return the names of the outputs that were not checked."""
    return [one.name for one in results if one.status == "not_looked_at"]


def report_parts(results: Sequence[OutputResult]) -> dict[str, Any]:
    """Return what the validation report says of them."""
    return {
        "other_outputs": [one.to_dict() for one in results],
        "not_looked_at": not_looked_at(results),
    }
