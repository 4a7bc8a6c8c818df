"""Tells what is happening while it happens: a spinner on a terminal, a line for each change elsewhere."""

from __future__ import annotations

import time
from types import TracebackType

from rich.console import Console
from rich.markup import escape
from rich.status import Status

from slipway_core.record.events import Event
from slipway_core.record.kinds import (
    StageFinished,
    StageStarted,
    StepFinished,
    WeightIntended,
    WeightObserved,
    WindowJudged,
)
from slipway_sandbox.demo.chapters import Chapter, ChapterResult

_STYLE = {"promoted": "green", "rolled_back": "yellow", "refused": "yellow"}
_WORDS = {
    "release_started": "admitted",
    "rollback_started": "rolling back",
    "rolled_back": "rolled back",
    "promoted": "promoted",
    "release_finished": "concluded",
}


class Narrator:
    """Writes to `console`; a context manager, since a spinner must be taken away again.

    `latest` is the last thing said of the present chapter.
    """

    def __init__(self, console: Console) -> None:
        self._console = console
        self._status: Status | None = console.status("") if console.is_terminal else None
        self._began = time.monotonic()
        self._prefix = ""
        self.latest = ""

    def __enter__(self) -> Narrator:
        if self._status is not None:
            self._status.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._status is not None:
            self._status.stop()

    def begin(self, chapter: Chapter) -> None:
        """Say that a chapter begins."""
        self._prefix = f"version {chapter.version}"
        self.latest = ""
        starter = "by REST" if chapter.started_by == "rest" else "by its event in S3"
        self._console.print(
            f"[bold]Version {chapter.version}[/]: {escape(chapter.title)} [dim]({starter})[/]"
        )

    def now(self, text: str) -> None:
        """Say what is going on; the same text is said once."""
        if text == self.latest:
            return
        self.latest = text
        if self._status is not None:
            self._status.update(f"{self._prefix}: {escape(text)}")
        else:
            self._console.print(f"  {self._clock()}  {escape(text)}", highlight=False, soft_wrap=True)

    def event(self, event: Event) -> None:
        """Say what the newest event of the release's record means."""
        self.now(in_words(event))

    def end(self, result: ChapterResult) -> None:
        """Say how a chapter has ended."""
        outcome = result.state.outcome if result.state is not None else "no record"
        style = _STYLE.get(outcome, "red") if result.as_expected else "red"
        self._console.print(f"  {self._clock()}  [{style}]{escape(outcome)}[/]", highlight=False)

    def _clock(self) -> str:
        return f"{time.monotonic() - self._began:5.0f} s"


def in_words(event: Event) -> str:
    """Return an event of the record as a few words for a person who waits."""
    match event.data:
        case StageStarted(stage=stage):
            return f"{stage} ..."
        case StageFinished(stage=stage, outcome=outcome):
            return f"{stage}: {outcome}"
        case WeightIntended(weight=weight):
            return f"shifting to {weight} %"
        case WeightObserved(weight=weight):
            return f"{weight} % of the traffic on the candidate"
        case WindowJudged(verdict={"status": status}):
            return f"canary: {status}"
        case WindowJudged():
            return "canary"
        case StepFinished(weight=weight, verdict=verdict):
            return f"canary at {weight} %: {verdict}"
        case _:
            return _WORDS.get(event.kind, event.kind.replace("_", " "))
