"""The figures of a fleet: `fleet_mixed_version_window_ms`, `fleet_failed_requests`, `fleet_prepare_s`,
`fleet_commit_ms`, of releases in which nothing fails, and `fleet_faults`, of releases with one fault each.
"""

from __future__ import annotations

import functools
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from benchmarks.figure import Figure, MeasureError, median_figure
from benchmarks.fleet.answers import FleetAnswer
from benchmarks.fleet.evidence import Evidence, violations
from benchmarks.fleet.lab import FleetLab, Storage
from benchmarks.fleet.plan import Plan
from benchmarks.fleet.run import FleetRun
from benchmarks.fleet.suite import SERVERS, run_all
from benchmarks.fleet.window import MixedWindow, unseen

RELEASES = 10
WINDOW_RATE_RPS = 40.0
"""To each server: an answer of it every 25 ms, or of any of them every 3 ms."""

FAULT_RUNS = 40
"""Each pair of fault and step once; `python -m benchmarks.fleet --runs 200` are five of each."""

_LEAST_RATE = 0.9
_FAULTS_LIMIT_S = 1500.0


@dataclass(frozen=True)
class Release:
    """What users saw of one release, and what the controller said of it.

    :param load: of the machine when it was taken, by its last minute.
    """

    window: MixedWindow
    requests: int
    failed: int
    prepare_s: float
    commit_ms: float
    load: float


def measure_window() -> Figure:
    """Return the longest window of some releases, see `window`, and that of a fleet that reads from a disk."""
    found, disk = releases(), releases("disk")
    note = f"{_words(found)}; on a disk: {_words(disk)}; {SERVERS} servers at {WINDOW_RATE_RPS:.0f} requests/s each"
    return Figure(
        "fleet_mixed_version_window_ms",
        max(one.window.answered_ms for one in found),
        "ms",
        "models on a disk",
        max(one.window.answered_ms for one in disk),
        note=note,
    )


def _words(found: Sequence[Release]) -> str:
    windows = [one.window.answered_ms for one in found]
    asked = max(one.window.asked_ms for one in found)
    bounds = [one.window.at_most_ms for one in found if one.window.at_most_ms is not None]
    return (
        f"longest of {len(found)}, median {median(windows):.0f}; by when it was asked for {asked:.0f}; between the "
        f"samples at most {max(bounds):.0f}, median {median(bounds):.0f}; load {max(one.load for one in found):.0f}"
    )


def measure_failed() -> Figure:
    """Count the requests that failed during these releases."""
    found = [*releases(), *releases("disk")]
    note = f"of {sum(one.requests for one in found)} during {len(found)} releases"
    return Figure("fleet_failed_requests", float(sum(one.failed for one in found)), "requests", note=note)


def measure_prepare() -> Figure:
    """Return how long it took until all servers had the new version beside the old one, and were verified."""
    return median_figure("fleet_prepare_s", [one.prepare_s for one in releases()], "s")


def measure_commit() -> Figure:
    """Return how long the controller took from the first server that it asked to change to the last that had."""
    return median_figure("fleet_commit_ms", [one.commit_ms for one in releases()], "ms")


def measure_faults() -> Figure:
    """Count the releases with a fault that broke a promise.

    MeasureError where fewer could be run than there should be.
    """
    end = time.monotonic() + _FAULTS_LIMIT_S
    report = run_all(range(1, FAULT_RUNS + 1), goes_on=lambda: time.monotonic() < end)
    if report.runs < FAULT_RUNS:
        raise MeasureError(f"only {report.runs} of {FAULT_RUNS} runs ended within {_FAULTS_LIMIT_S:.0f} s")
    print(report.table())
    note = f"of {report.runs} broke a promise; {report.failed_requests} requests failed"
    return Figure("fleet_faults", float(len(report.broken)), "runs", note=note)


@functools.cache
def releases(storage: Storage = "s3") -> tuple[Release, ...]:
    """Return some releases, one after the other, in which nothing fails; several figures come from the same ones."""
    found = []
    with FleetLab(SERVERS, WINDOW_RATE_RPS, storage=storage) as lab:
        for number in range(RELEASES):
            seen = FleetRun(lab, Plan(number, "nothing", "never", 0, 0.0, 0.0)).run()
            found.append(release_of(seen, WINDOW_RATE_RPS, os.getloadavg()[0]))
            lab.version = seen.settled
    return tuple(found)


def release_of(seen: Evidence, rate_rps: float, load: float) -> Release:
    """Return the figures of a release that was committed.

    MeasureError where it broke a promise, a server was not seen with both versions over both protocols, or there was
    less traffic than there should have been.
    """
    problems = [one for one in violations(seen) if "requests failed" not in one]
    if seen.outcome != "committed":
        problems.append(f"it was {seen.outcome}: {'; '.join(seen.reasons)}")
    problems += unseen(seen.answers, seen.servers, seen.before, seen.target)
    rate = lowest_rate_rps(seen.answers, seen.servers)
    if rate < _LEAST_RATE * rate_rps:
        problems.append(f"only {rate:.0f} requests/s reached a server")
    if problems:
        raise MeasureError("; ".join(problems))
    failed, _ = seen.failed()
    return Release(seen.window, len(seen.answers), len(failed), seen.prepare_s, seen.commit_ms, load)


def lowest_rate_rps(answers: Sequence[FleetAnswer], servers: Sequence[str]) -> float:
    """Return the requests a second to the server that got the fewest."""
    sent = [one.sent for one in answers]
    seconds = max(sent, default=0.0) - min(sent, default=0.0)
    fewest = min(sum(one.server == name for one in answers) for name in servers)
    return fewest / seconds if seconds > 0 else 0.0
