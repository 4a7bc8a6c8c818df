"""What the reading of inputs cost and ended with, and what must not have happened."""

from __future__ import annotations

import traceback
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

_ROOT = Path(__file__).resolve().parents[2]
_OWN = Path(__file__).resolve().parent


@dataclass
class Tally:
    """The inputs of one target; `refused` is by error class, `peak_mib` by how much its process grew."""

    inputs: int = 0
    accepted: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    slowest_ms: float = 0.0
    peak_mib: float = 0.0

    def add(self, other: Tally) -> None:
        """Take in what another process counted."""
        self.inputs += other.inputs
        self.accepted += other.accepted
        self.refused += other.refused
        self.slowest_ms = max(self.slowest_ms, other.slowest_ms)
        self.peak_mib = max(self.peak_mib, other.peak_mib)


@dataclass(frozen=True)
class FuzzFinding:
    """An input that was not read as it must be. Findings with the same `place` are taken to be one fault."""

    target: str
    seed: int
    index: int
    kind: str
    place: str
    text: str
    shown: str


def place_of(error: BaseException) -> str:
    """Return file and line where an error came out of the project's code."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [
        frame
        for frame in frames
        if Path(frame.filename).is_relative_to(_ROOT)
        and not Path(frame.filename).is_relative_to(_OWN)
        and ".venv" not in frame.filename
    ]
    if not own:
        return "outside the project"
    return f"{Path(own[-1].filename).relative_to(_ROOT)}:{own[-1].lineno}"


def shown(value: Any, limit: int = 100_000) -> str:
    """Return what repeats an input: its `repr`, cut where it is very long."""
    text = repr(value)
    return text if len(text) <= limit else f"{text[:limit]}… ({len(text)} characters)"
