"""One run as it happens: what is due when, and what was seen so far."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from benchmarks.chaos.evidence import Outage
from benchmarks.chaos.excuses import Excuse
from benchmarks.chaos.plan import Fault, Plan


@dataclass(frozen=True)
class Due:
    """Something to be done at a time (unix seconds); `mends` what a fault broke, and is never left out."""

    at: float
    do: Callable[[], None]
    mends: bool = False


@dataclass
class ChaosRun:
    """One run; `timeline` is what happened when (unix seconds), `happened` the kinds of faults that took place."""

    plan: Plan
    began: float = field(default_factory=time.time)
    timeline: list[tuple[float, str]] = field(default_factory=list)
    due: list[Due] = field(default_factory=list)
    excuses: list[Excuse] = field(default_factory=list)
    outages: list[Outage] = field(default_factory=list)
    happened: list[str] = field(default_factory=list)
    seconds: float = 0.0

    def tell(self, text: str) -> None:
        """Notes it with the time."""
        self.timeline.append((time.time(), text))

    def happen(self, fault: Fault) -> None:
        """Notes that a fault has taken place."""
        self.happened.append(fault.kind)
        self.tell(f"FAULT {fault}")

    def do_due(self) -> None:
        """Does what is due by now, in order."""
        for one in sorted(self.due, key=lambda due: due.at):
            if one.at <= time.time():
                self.due.remove(one)
                one.do()
