"""The log of a release as a story: windows that say the same are told once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from include.model_release.read_model.release_view import LogLine

Tone = Literal["", "good", "bad", "soft"]

_WINDOW = "window_judged"
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
    for line in reversed(log):
        last = chapters[-1] if chapters else None
        if last is not None and line.kind == last.line.kind == _WINDOW:
            chapters[-1] = Chapter(last.line, last.tone, (*last.before, line))
        else:
            chapters.append(Chapter(line, _TONES.get(line.kind, "")))
    return tuple(chapters)
