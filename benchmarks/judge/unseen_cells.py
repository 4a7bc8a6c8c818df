"""Cells of faults that no count of answers shows: requests that are never answered, and errors inside streams."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.judge.cell import TO_99_EXTENSION_S, Cell, Goal
from benchmarks.judge.traffic import Traffic

RATES_PER_S = (5, 50)


def unseen_faults() -> Iterator[Cell]:
    """Yield them, and beside each good candidates that the same traffic must not fail."""
    found, harmless = (Goal("found", 0.99),), (Goal("failed", 0.01),)
    for rate in RATES_PER_S:
        faults: dict[str, tuple[str, Traffic, tuple[Goal, ...]]] = {
            "given-up": (
                "30 % of the candidate's requests are never answered, clients give up",
                Traffic(rate, candidate_unanswered=0.3),
                found,
            ),
            "hang": (
                "the candidate answers nothing from minute 15 on, clients wait",
                Traffic(rate, candidate_waiting=1.0, fault_begins_s=900),
                found,
            ),
            "given-up-alike": (
                "clients give up 2 % of the requests of both",
                Traffic(rate, unanswered=0.02, candidate_unanswered=0.02),
                harmless,
            ),
            "streams": (
                "30 % of the candidate's streams hold an error",
                Traffic(rate, streamed_per_s=2.0, candidate_stream_errors=0.3),
                found,
            ),
            "streams-same": (
                "no difference, streams are asked beside users",
                Traffic(rate, streamed_per_s=2.0),
                harmless,
            ),
        }
        for name, (title, traffic, goals) in faults.items():
            yield Cell(
                f"{name}-{rate}rps",
                f"{title}, {rate}/s",
                "unseen",
                traffic,
                goals,
                extension_s=TO_99_EXTENSION_S,
            )
