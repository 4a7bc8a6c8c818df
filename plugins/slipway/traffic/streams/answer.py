"""What came of one streamed request, and what asks one."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

# What one answer may hold: more is a fault of who sends it.
RESPONSES_LIMIT = 10_000
ANSWER_BYTES_LIMIT = 64 * 1024 * 1024
_TEXT_LIMIT = 200


@dataclass(frozen=True)
class StreamedAnswer:
    """An answer that was read to its end, or to where it became invalid.

    :param seconds: from the request to the last response.
    :param responses: how many of them held outputs.
    :param fault: why the answer is an error; "" where it is good.
    """

    seconds: float
    responses: int
    fault: str = ""

    @property
    def latency_ms(self) -> float:
        """Milliseconds a response: answers of different length, which is no fault, can be compared by it."""
        return 1000.0 * self.seconds / max(1, self.responses)


class StreamAsker(Protocol):
    """Streams requests to one revision."""

    async def ask(self, body: bytes) -> StreamedAnswer:
        """Send one request and read its answer; every way to go wrong is a fault of the answer."""

    async def close(self) -> None:
        """Give back what connects it."""


def missing_outputs(wanted: Iterable[str], seen: Iterable[str], responses: int) -> str:
    """Return the fault of an answer whose responses, all together, lack an output; "" where they have all."""
    missing = sorted({*wanted} - {*seen})
    return f"no output {', '.join(missing)} in {responses} responses" if missing else ""


def clipped(text: str) -> str:
    """Return what a server has written as one short line."""
    line = " ".join(text.split())
    return line if len(line) <= _TEXT_LIMIT else f"{line[:_TEXT_LIMIT]}…"
