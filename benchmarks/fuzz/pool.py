"""Starts a process for each target, sees that none hangs, and goes on behind an input that killed one."""

from __future__ import annotations

import multiprocessing
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from multiprocessing.connection import Connection
from multiprocessing.context import ForkProcess
from pathlib import Path
from typing import Any

from benchmarks.fuzz.measure import FuzzFinding, Tally, shown
from benchmarks.fuzz.target import Target, input_of
from benchmarks.fuzz.worker import Task, work

# A reader that is stuck in compiled code cannot be stopped when its time is up. Seconds of CPU, for the machine may be
# busy; and of the clock on the wall, for one that waits.
STUCK_CPU_S, STUCK_S = 10.0, 300.0
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_POLL_S = 0.2
_ENDED = object()


@dataclass
class Outcome:
    """What came of one target."""

    target: str
    tally: Tally = field(default_factory=Tally)
    findings: list[FuzzFinding] = field(default_factory=list)


def run(target: Target, *, seed: int, count: int, seconds: float) -> Outcome:
    """Read `count` inputs of a target, or as many as `seconds` suffice for."""
    outcome = Outcome(target.name)
    task = Task(target, seed, 0, count, time.monotonic() + seconds)
    while task.count > 0 and time.monotonic() < task.until_s:
        stopped_at = _watch(task, outcome)
        if stopped_at is None:
            break
        # Whatever it was, the next one is another.
        task = replace(task, first=stopped_at + 1, count=task.first + task.count - stopped_at - 1)
    return outcome


def _watch(task: Task, outcome: Outcome) -> int | None:
    """Run one process to its end; return the number of the input that killed it, None where all were read."""
    context = multiprocessing.get_context("fork")
    place: Any = context.Value("q", task.first, lock=False)
    connection, tells = context.Pipe(duplex=False)
    process = context.Process(target=work, args=(task, place, tells), daemon=True)
    process.start()
    tells.close()
    try:
        return _follow(task, outcome, process, connection, place)
    finally:
        process.kill()
        process.join()
        connection.close()


def _follow(
    task: Task, outcome: Outcome, process: ForkProcess, connection: Connection, place: Any
) -> int | None:
    seen, moved_s, used_s = place.value, time.monotonic(), _cpu_s(process)
    ended = False
    while True:
        for message in _messages(connection):
            if message is None:
                return None
            if message is _ENDED:
                ended = True
                break
            if isinstance(message, FuzzFinding):
                outcome.findings.append(message)
            else:
                outcome.tally.add(message)
            moved_s, used_s = time.monotonic(), _cpu_s(process)
        if place.value != seen:
            seen, moved_s, used_s = place.value, time.monotonic(), _cpu_s(process)
        if ended or time.monotonic() - moved_s > STUCK_S or _cpu_s(process) - used_s > STUCK_CPU_S:
            process.join(_POLL_S)
            kind = f"the process died ({process.exitcode})" if ended else "stuck"
            outcome.findings.append(_killer(task, place.value, kind))
            return int(place.value)


def _cpu_s(process: ForkProcess) -> float:
    """The CPU that a process has used, in seconds; 0 of one that is gone."""
    try:
        fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / _TICKS_PER_S


def _messages(connection: Connection) -> Iterator[Any]:
    """What has been reported since; `_ENDED` where nothing more can be."""
    try:
        while connection.poll(_POLL_S):
            yield connection.recv()
    except (EOFError, OSError):
        yield _ENDED


def _killer(task: Task, index: int, kind: str) -> FuzzFinding:
    value = input_of(task.target, list(task.target.seeds()), task.seed, index)
    return FuzzFinding(task.target.name, task.seed, index, kind, "unknown", "", shown(value))
