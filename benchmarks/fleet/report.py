"""A run in words, and all of them as a table: what was counted by fault and step, and what can be repeated."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from statistics import median

from benchmarks.fleet.evidence import Evidence
from benchmarks.fleet.plan import KINDS, STEPS


def describe(seen: Evidence, broken: Sequence[str], timeline: Sequence[tuple[float, str]] = ()) -> str:
    """Return one line; where a promise was broken, all that is known."""
    fault = str(seen.plan) if seen.happened else f"{seen.plan}, which did not take place"
    kept, excused = seen.failed()
    line = (
        f"seed {seen.plan.seed}: {'FAILED' if broken else 'ok'} in {seen.seconds:.1f} s, {seen.before} → "
        f"{seen.target} {' → '.join(seen.outcomes)}, window {seen.window.answered_ms:.0f} ms, {len(kept)} failed, "
        f"{excused} excused; {fault}"
    )
    if not broken:
        return line
    began = timeline[0][0] if timeline else 0.0
    happened = "".join(f"\n    {at - began:7.2f} s  {text}" for at, text in timeline)
    lines = "".join(f"\n  BROKEN: {one}" for one in broken)
    reasons = "".join(f"\n  the controller: {one}" for one in seen.reasons)
    return f"{line}{lines}{reasons}{happened}\n  again: {repeat(seen.plan.seed)}"


def repeat(seed: int) -> str:
    """Return the command that makes the run of a seed once more."""
    return f"python -m benchmarks.fleet --runs 1 --seed {seed}"


class Report:
    """Counts over all runs."""

    def __init__(self) -> None:
        self._cells: Counter[tuple[str, str]] = Counter()
        self._broken_cells: Counter[tuple[str, str]] = Counter()
        self._idle = self._crashed = 0
        self._outcomes: Counter[str] = Counter()
        self._seconds: list[float] = []
        self._windows: list[float] = []
        self._requests = self._excused = self._failed = 0
        self.broken: dict[int, Sequence[str]] = {}

    @property
    def runs(self) -> int:
        """How many runs were counted."""
        return len(self._seconds)

    @property
    def failed_requests(self) -> int:
        """How many requests failed without an excuse."""
        return self._failed

    def add(self, seen: Evidence, broken: Sequence[str]) -> None:
        """Count a run."""
        kept, excused = seen.failed()
        cell = (seen.plan.kind, seen.plan.step)
        if seen.happened:
            self._cells[cell] += 1
            self._broken_cells[cell] += bool(broken)
        else:
            self._idle += 1
        self._crashed += seen.crashed
        self._outcomes[seen.outcome] += 1
        self._seconds.append(seen.seconds)
        self._windows.append(seen.window.answered_ms)
        self._requests += len(seen.answers)
        self._failed += len(kept)
        self._excused += excused
        if broken:
            self.broken[seen.plan.seed] = broken

    def table(self) -> str:
        """Return the counts by fault and step, and the figures of all runs."""
        if not self._seconds:
            return "no run has ended"
        lines = [f"\n{'fault':24}" + "".join(f"{step:>10}" for step in STEPS) + f"{'broken':>10}"]
        for kind in KINDS:
            counts = "".join(f"{self._cells[kind, step]:>10}" for step in STEPS)
            broken = sum(self._broken_cells[kind, step] for step in STEPS)
            lines.append(f"{kind:24}{counts}{broken:>10}")
        outcomes = ", ".join(f"{count} {name}" for name, count in sorted(self._outcomes.items()))
        lines += [
            f"{self.runs} runs ({outcomes}), {len(self.broken)} with a broken promise; in {self._idle} the release "
            "had ended before its fault",
            f"{median(self._seconds):.1f} s a run in the median, {max(self._seconds):.1f} s at most; window of mixed "
            f"versions {median(self._windows):.0f} ms in the median, {max(self._windows):.0f} ms at most",
            f"{self._requests} requests: {self._failed} failed that a server without a release would have answered, "
            f"{self._excused} of a server that was dead or hung",
        ]
        if self._crashed:
            lines.append(f"{self._crashed} stalled servers crashed when they went on, and were started again")
        lines += [
            f"seed {seed}: {'; '.join(reasons)}\n  {repeat(seed)}" for seed, reasons in self.broken.items()
        ]
        return "\n".join(lines)
