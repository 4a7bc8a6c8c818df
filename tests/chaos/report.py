"""A run in words, and all of them as a table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from statistics import median

from tests.chaos.evidence import Evidence, failed, open_stages, state_of
from tests.chaos.plan import KINDS
from tests.chaos.world import Run


def describe(seen: Evidence, run: Run, broken: Sequence[str]) -> str:
    """One line; where a promise was broken, all that is known."""
    state = state_of(seen)
    outcome = "no record" if isinstance(state, str) else state.outcome
    happened = ", ".join(run.happened) or "nothing happened"
    line = (
        f"seed {run.plan.seed}: {'FAILED' if broken else 'ok'} in {run.seconds:.1f} s, {outcome}, "
        f"candidate {run.plan.error_percent:g} % bad, {happened}{_left(seen)}"
    )
    if not broken:
        return line
    faults = "\n".join(f"    planned: {fault}" for fault in run.plan.faults)
    timeline = "\n".join(f"    {at - run.began:7.2f} s  {text}" for at, text in run.timeline)
    told = "\n".join(f"  BROKEN: {one}" for one in broken)
    return f"{line}\n{told}\n{faults}\n{timeline}\n  again: make chaos RUNS=1 SEED={run.plan.seed}"


def _left(seen: Evidence) -> str:
    stages = "".join(f", stage {name} left open" for name in open_stages(state_of(seen)))
    return f"{stages}{', lease left' if seen.lease_left else ''}"


class Report:
    """Counts over all runs."""

    def __init__(self) -> None:
        self._runs: Counter[str] = Counter()
        self._broken: Counter[str] = Counter()
        self._outcomes: Counter[str] = Counter()
        self._seconds: list[float] = []
        self._requests = self._excused = self._failed = self._leases_left = self._open_stages = 0
        self.broken: list[int] = []

    def add(self, seen: Evidence, run: Run, broken: Sequence[str]) -> None:
        """Counts a run."""
        state = state_of(seen)
        self._outcomes["no record" if isinstance(state, str) else state.outcome] += 1
        self._seconds.append(run.seconds)
        self._leases_left += seen.lease_left
        self._open_stages += bool(open_stages(state))
        kept, excused = failed(seen)
        self._requests += len(seen.answers)
        self._failed += len(kept)
        self._excused += excused
        for kind in run.happened or ["nothing"]:
            self._runs[kind] += 1
            self._broken[kind] += bool(broken)
        if broken:
            self.broken.append(run.plan.seed)

    def table(self) -> str:
        """Runs and broken promises by fault, and the figures of all."""
        if not self._seconds:
            return "no run has ended"
        lines = [f"\n{'fault':22}{'runs':>6}{'broken':>8}"]
        lines += [
            f"{kind:22}{self._runs[kind]:>6}{self._broken[kind]:>8}"
            for kind in (*KINDS, "nothing")
            if kind in KINDS or self._runs[kind]
        ]
        outcomes = ", ".join(f"{count} {name}" for name, count in sorted(self._outcomes.items()))
        lines += [
            f"{len(self._seconds)} runs ({outcomes}), {len(self.broken)} with a broken promise",
            f"{median(self._seconds):.1f} s a run in the median, {max(self._seconds):.1f} s at most",
            f"{self._requests} requests; {self._failed} failed that a healthy stable version would have answered, "
            f"{self._excused} because the only router or server was killed",
        ]
        if self._leases_left:
            lines.append(
                f"{self._leases_left} leases outlived their release, until the next one took them away"
            )
        if self._open_stages:
            lines.append(f"{self._open_stages} records in which a stage never ended")
        if self.broken:
            lines.append(f"seeds: {' '.join(map(str, self.broken))}")
        return "\n".join(lines)
