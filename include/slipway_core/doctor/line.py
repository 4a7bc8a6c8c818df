"""One line of an examination: what was looked at, what was found, and the command that mends it."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, StringConstraints

_LIMIT = 1000


class Status(StrEnum):
    """What a line came to."""

    OK = "ok"
    WARNING = "warning"
    """It works, but not as it should, or not for everything."""
    FAILED = "failed"
    """A release would fail, or would be less safe than it looks."""
    SKIPPED = "skipped"
    """It was not asked for, or does not apply here."""
    UNKNOWN = "unknown"
    """It could not be examined. That is never ok."""


# What needs a person stands out in a log.
_WORDS = {Status.FAILED: "FAILED", Status.UNKNOWN: "UNKNOWN", Status.WARNING: "WARNING"}
_INDENT = " " * 9


def _clip(text: str) -> str:
    return text if len(text) <= _LIMIT else f"{text[: _LIMIT - 1]}…"


_Text = Annotated[str, AfterValidator(_clip)]
_Name = Annotated[str, StringConstraints(min_length=1, max_length=60, pattern=r"^[a-z][a-z0-9_]*$")]


class Line(BaseModel):
    """What one examination says of one thing. Texts are cut at 1000 characters, and no secret is in any of them.

    :param examination: the examination's name.
    :param what: what was looked at, such as "connection aws_default".
    :param found: what was found.
    :param expected: what should be found; "" where that is plain.
    :param why: why it matters.
    :param remedy: the command that mends it, or what else to do; "" for a line that needs nothing.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    examination: _Name
    what: _Text
    status: Status
    found: _Text = ""
    expected: _Text = ""
    why: _Text = ""
    remedy: _Text = ""

    def as_text(self) -> str:
        """Return it in lines for a terminal or a log: what is not well takes several."""
        first = f"{_WORDS.get(self.status, self.status.value):<9}{self.examination}: {self.what}"
        lines = [f"{first}: {self.found}" if self.found else first]
        if self.status is not Status.OK:
            labels = (("expected", self.expected), ("why", self.why), ("mend", self.remedy))
            lines += [f"{_INDENT}{label + ':':<10}{text}" for label, text in labels if text]
        return "\n".join(lines)

    def as_json(self) -> dict[str, Any]:
        """Return it as values that JSON has."""
        return self.model_dump(mode="json")
