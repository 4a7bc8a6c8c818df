"""A run in words, and all of them as a table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from statistics import median

from benchmarks.chaos.evidence import Evidence, failed
from benchmarks.chaos.plan import DIALECTS, KINDS
from benchmarks.chaos.run import ChaosRun


def describe(seen: Evidence, run: ChaosRun, broken: Sequence[str]) -> str:
    """One line; where a promise was broken, all that is known."""
    happened = ", ".join(run.happened) or "nothing happened"
    line = (
        f"seed {run.plan.seed}: {'FAILED' if broken else 'ok'} in {run.seconds:.1f} s, {run.plan.dialect}, "
        f"{seen.outcome}, candidate {run.plan.error_percent:g} % bad, {happened}"
    )
    if not broken:
        return line
    faults = "\n".join(f"    planned: {fault}" for fault in run.plan.faults)
    timeline = "\n".join(f"    {at - run.began:7.2f} s  {text}" for at, text in run.timeline)
    lines = "\n".join(f"  BROKEN: {one}" for one in broken)
    return f"{line}\n{lines}\n{faults}\n{timeline}\n  again: {repeat(run.plan.seed)}"


def repeat(seed: int) -> str:
    """The command that makes the run of a seed once more."""
    return f"make chaos RUNS=1 SEED={seed}"


class Report:
    """Counts over all runs."""

    def __init__(self) -> None:
        self._injected: Counter[str] = Counter()
        self._in_broken_runs: Counter[str] = Counter()
        self._outcomes: Counter[str] = Counter()
        self._seconds: list[float] = []
        self._requests = self._excused = self._failed = 0
        self.broken: dict[int, Sequence[str]] = {}

    def add(self, seen: Evidence, run: ChaosRun, broken: Sequence[str]) -> None:
        """Counts a run."""
        self._outcomes[f"{run.plan.dialect}, {seen.outcome}"] += 1
        self._seconds.append(run.seconds)
        kept, excused = failed(seen)
        self._requests += len(seen.answers)
        self._failed += len(kept)
        self._excused += excused
        for kind in run.happened or ["none"]:
            self._injected[kind] += 1
            self._in_broken_runs[kind] += bool(broken)
        if broken:
            self.broken[run.plan.seed] = broken

    def table(self) -> str:
        """Faults by kind, and the figures of all runs."""
        if not self._seconds:
            return "no run has ended"
        lines = [f"\n{'fault':22}{'injected':>10}{'in broken runs':>16}"]
        lines += [
            f"{kind:22}{self._injected[kind]:>10}{self._in_broken_runs[kind]:>16}"
            for kind in (*KINDS, "none")
            if kind in KINDS or self._injected[kind]
        ]
        for dialect in DIALECTS:
            outcomes = [
                f"{count} {name}" for name, count in sorted(self._outcomes.items()) if dialect in name
            ]
            lines += (
                ["; ".join(one.replace(f"{dialect}, ", f"{dialect} ") for one in outcomes)]
                if outcomes
                else []
            )
        lines += [
            f"{len(self._seconds)} runs, {len(self.broken)} with a broken promise",
            f"{median(self._seconds):.1f} s a run in the median, {max(self._seconds):.1f} s at most",
            f"{self._requests} requests; {self._failed} failed that a healthy stable version would have answered, "
            f"{self._excused} because what they were led to had just been killed",
        ]
        lines += [
            f"seed {seed}: {'; '.join(reasons)}\n  {repeat(seed)}" for seed, reasons in self.broken.items()
        ]
        return "\n".join(lines)
