"""The words that every gate ends with.

`pass`: every requirement is met. `warn`: every requirement that the release file enforces is met, but not all of them.
`fail`: the version must not continue. `inconclusive`: undecided, and the release file refuses undecided versions.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Literal

GateOutcome = Literal["pass", "warn", "fail", "inconclusive"]


def gate_outcome(
    failures: Collection[object], undecided: Collection[object], warnings: Collection[object]
) -> GateOutcome:
    """Return the outcome of a gate that found these; what fails clearly counts before what is not decided."""
    if failures:
        return "fail"
    if undecided:
        return "inconclusive"
    return "warn" if warnings else "pass"
