"""The words that every gate ends with.

`pass`: all that was asked is met. `warn`: it is met as far as the release file insists; something else is told.
`fail`: the version shall not go further. `inconclusive`: it cannot be told, and the release file asks to be sure.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Literal

GateOutcome = Literal["pass", "warn", "fail", "inconclusive"]


def gate_outcome(
    failures: Collection[object], undecided: Collection[object], warnings: Collection[object]
) -> GateOutcome:
    """Return the outcome of a gate that found these; what fails surely counts before what is not decided."""
    if failures:
        return "fail"
    if undecided:
        return "inconclusive"
    return "warn" if warnings else "pass"
