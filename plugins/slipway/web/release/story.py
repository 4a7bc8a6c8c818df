"""The log of a release as a story: windows in a row are one chapter, and a reason stands where it first came up."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from slipway_core.read_model.release_view import LogLine

Tone = Literal["", "good", "bad", "soft"]

_WINDOW = "window_judged"
# Of a sentence that was cut, so many characters of the reason tell which one it is.
_RECOGNISED = 40
_TONES: dict[str, Tone] = {
    "promoted": "good",
    "approved": "good",
    "rollback_started": "bad",
    "version_rejected": "bad",
    _WINDOW: "soft",
}


@dataclass(frozen=True)
class Chapter:
    """A line of the log; of windows in a row the newest one, with those `before` it, newest first."""

    line: LogLine
    tone: Tone
    before: tuple[LogLine, ...] = ()


def story_of(log: Sequence[LogLine]) -> tuple[Chapter, ...]:
    """Return the log, newest first."""
    chapters: list[Chapter] = []
    for line in reversed(_each_reason_once(log)):
        last = chapters[-1] if chapters else None
        if last is not None and line.kind == last.line.kind == _WINDOW:
            chapters[-1] = Chapter(last.line, last.tone, (*last.before, line))
        else:
            chapters.append(Chapter(line, _TONES.get(line.kind, "")))
    return tuple(chapters)


def _each_reason_once(log: Sequence[LogLine]) -> list[LogLine]:
    """Return the log, oldest first, without the reasons that an earlier line of the same attempt has given already.

    One verdict ends a step, begins a rollback, rejects the version and ends the release: four lines with one reason.
    """
    given: list[str] = []
    lines: list[LogLine] = []
    for line in log:
        if lines and lines[-1].release_id != line.release_id:
            given = []
        text = line.sentence.rstrip(".")
        before = next((before for reason in given if (before := _before(text, reason))), None)
        if before is None:
            _, colon, reason = text.partition(": ")
            if colon:
                given.append(reason)
            lines.append(line)
        else:
            lines.append(line.model_copy(update={"sentence": f"{before}."}))
    return lines


def _before(text: str, reason: str) -> str:
    """Return what stands before `reason` at the end of a sentence, which may have been cut; "" for another end."""
    if text.endswith(f": {reason}"):
        return text[: -len(reason) - 2]
    before, _, rest = text.partition(f": {reason[:_RECOGNISED]}")
    is_cut = text.endswith("…") and len(reason) > _RECOGNISED
    return before if is_cut and reason.startswith(f"{reason[:_RECOGNISED]}{rest[:-1]}") else ""
