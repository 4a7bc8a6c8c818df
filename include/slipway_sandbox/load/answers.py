"""What clients were answered, one by one, and what follows from it: who was harmed, by whom, and for how long."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path


@dataclass(frozen=True)
class Answer:
    """One request and what came of it.

    `due` is when it should have been sent, `sent` and `received` when it was sent and over, in unix seconds.
    `revision` is None if none was reached: the router itself answered, or nobody did. `error` is None for a
    good answer, and `version` is the model version that gave it. `right` tells whether its value was the expected one;
    None if nobody knows.
    """

    due: float
    sent: float
    received: float
    protocol: str
    revision: str | None
    error: str | None
    version: str | None = None
    right: bool | None = None

    def to_line(self) -> str:
        """Return the answer as a line that `AnswerFile` understands."""
        return json.dumps(asdict(self))


@dataclass(frozen=True)
class Harm:
    """What a candidate did to users: `answers` it gave, `bad` ones among them.

    `first_bad_at` and `last_answer_at` (unix seconds) are when the first bad and the last answer of any kind came.
    """

    answers: int
    bad: int
    first_bad_at: float | None
    last_answer_at: float | None

    @property
    def seconds(self) -> float | None:
        """From the first bad answer to the last answer of any kind; None if no answer was bad."""
        if self.first_bad_at is None or self.last_answer_at is None:
            return None
        return self.last_answer_at - self.first_bad_at


def harm_by(answers: Iterable[Answer], revision: str) -> Harm:
    """Return what the revision's answers were; those that were over first come first."""
    given = sorted((one for one in answers if one.revision == revision), key=lambda one: one.received)
    bad = [one for one in given if one.error is not None]
    return Harm(
        answers=len(given),
        bad=len(bad),
        first_bad_at=bad[0].received if bad else None,
        last_answer_at=given[-1].received if given else None,
    )


def failed_elsewhere(answers: Iterable[Answer], revision: str) -> list[Answer]:
    """Return the failed requests that the revision had no part in: a healthy stable version would have answered."""
    return [one for one in answers if one.error is not None and one.revision != revision]


def rate_rps(answers: Sequence[Answer]) -> float:
    """Return the requests sent in a second, over the time from the first to the last; 0 for fewer than two."""
    moments = sorted(one.sent for one in answers)
    if len(moments) < 2 or moments[-1] == moments[0]:
        return 0.0
    return (len(moments) - 1) / (moments[-1] - moments[0])


class AnswerFile:
    """What clients write to `path`, read while they write."""

    def __init__(self, path: Path) -> None:
        self._lines = GrowingFile(path)

    def new_answers(self) -> list[Answer]:
        """Return what was written since the last call; none where there is no file yet.

        A line that is not whole is left for the next call, and one that a killed client has cut short is left out.
        """
        found = []
        for line in self._lines.new_lines():
            try:
                found.append(Answer(**json.loads(line)))
            except (TypeError, ValueError):
                continue
        return found


class GrowingFile:
    """A file that another process appends lines to."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = 0

    def new_lines(self) -> list[bytes]:
        """Return the whole lines since the last call; none where there is no file yet."""
        try:
            with self._path.open("rb") as file:
                file.seek(self._offset)
                content = file.read()
        except FileNotFoundError:
            return []
        whole = content[: content.rfind(b"\n") + 1]
        self._offset += len(whole)
        return whole.splitlines()
