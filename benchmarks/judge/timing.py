"""What a verdict costs."""

from __future__ import annotations

import time
from dataclasses import dataclass
from statistics import median

import numpy as np

from benchmarks.judge.canary_run import SlipwayCanary
from benchmarks.judge.cell import PLANS
from benchmarks.judge.cells import CELLS
from benchmarks.judge.traffic import draw

WINDOWS = 150
VERDICT_LIMIT_MS = 5.0


@dataclass(frozen=True)
class Timing:
    """Milliseconds, medians over canaries of `WINDOWS` windows with Envoy's latency buckets: for the verdict on
    the last window, and for all windows from the first.
    """

    verdict_ms: float
    fold_ms: float

    @property
    def reached(self) -> bool:
        """Whether one verdict over 150 windows costs less than the limit."""
        return self.verdict_ms < VERDICT_LIMIT_MS


def measure_timing(canaries: int = 20) -> Timing:
    """Fold that many canaries and look at the clock."""
    cell, plan = CELLS["same-50rps-from2"], PLANS["2"]
    folds, lasts = [], []
    for number in range(canaries):
        recording = draw(cell.traffic, plan, cell.latency_models[0], np.random.default_rng(number))
        windows = list(recording.windows())
        assert len(windows) == WINDOWS
        judge = SlipwayCanary(plan)
        began = time.perf_counter()
        for window in windows[:-1]:
            judge.observe(window)
        before_last = time.perf_counter()
        judge.observe(windows[-1])
        ended = time.perf_counter()
        folds.append(1000 * (ended - began))
        lasts.append(1000 * (ended - before_last))
    return Timing(verdict_ms=median(lasts), fold_ms=median(folds))
