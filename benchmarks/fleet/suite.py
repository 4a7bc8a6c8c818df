"""Many releases with a fault each, and what came of all of them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from benchmarks.fleet.evidence import Evidence, violations
from benchmarks.fleet.lab import ROOT, FleetLab
from benchmarks.fleet.plan import draw
from benchmarks.fleet.report import Report, describe
from benchmarks.fleet.run import FleetRun

SERVERS = 8
RATE_RPS = 20.0


def run_all(
    seeds: Sequence[int],
    *,
    servers: int = SERVERS,
    rate_rps: float = RATE_RPS,
    root: Path = ROOT,
    goes_on: Callable[[], bool] = lambda: True,
) -> Report:
    """Run each seed's plan and return the report; a line about each goes to standard error.

    After a broken promise its logs are kept in a folder beside `root`, and the next run begins in a fresh fleet.

    :param goes_on: asked before each run; what is left when it says no is not run.
    """
    report, left = Report(), list(seeds)
    while left and goes_on():
        with FleetLab(servers, rate_rps, root) as lab:
            while left and goes_on():
                seed = left.pop(0)
                run = FleetRun(lab, draw(seed, servers))
                seen = run.run()
                broken = broken_of(run, seen)
                report.add(seen, broken)
                description = describe(seen, broken, run.timeline)
                print(f"[{report.runs}/{len(seeds)}] {description}", file=sys.stderr, flush=True)
                if broken:
                    lab.keep_logs(root.with_name(f"{root.name}-broken") / str(seed))
                    break
                lab.version = seen.settled
    return report


def broken_of(run: FleetRun, seen: Evidence) -> list[str]:
    """Return the promises that were broken, also by the release that brings in who does not count."""
    broken = violations(seen)
    joined = None if broken else run.join(seen)
    if joined is not None:
        broken = [f"when the others joined: {one}" for one in violations(joined)]
        broken += [f"{server} has not joined: {why}" for server, why in joined.not_counted.items()]
    return broken
