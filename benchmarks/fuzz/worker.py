"""Reads the inputs of one target in a process of its own, with limits on time and memory for each."""

from __future__ import annotations

import logging
import resource
import signal
import time
import warnings
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any, Protocol

from benchmarks.fuzz.measure import FuzzFinding, Tally, place_of, shown
from benchmarks.fuzz.minimise import minimised
from benchmarks.fuzz.target import Target, input_of

CPU_LIMIT_S = 1.0
# Address space beyond what the process has before it reads an input.
MEMORY_LIMIT_MIB = 512
_REPORT_EVERY_S = 0.5
_FINDINGS_LIMIT = 20
_MIB = 1024 * 1024


class TooSlowError(BaseException):
    """Raised in the reader when its time is up; no `except Exception` takes it for an error of its own."""


class Place(Protocol):
    """Which input is being read; the process that watches can see it."""

    value: int


@dataclass(frozen=True)
class Task:
    """Which inputs to read: from number `first`, `count` of them, or until `until_s` by the monotonic clock."""

    target: Target
    seed: int
    first: int
    count: int
    until_s: float


def work(task: Task, place: Place, connection: Connection) -> None:
    """Read the inputs and send tallies and findings; the last thing sent is None."""
    logging.disable()
    warnings.simplefilter("ignore")
    seeds = list(task.target.seeds())
    began_s = time.monotonic()
    for value in seeds:
        # What the first reading loads and keeps is nobody's cost. A seed that fails is found below.
        with suppress(Exception):
            task.target.read(value)
    until_s = task.until_s + time.monotonic() - began_s
    signal.signal(signal.SIGPROF, _time_is_up)
    began_kib = _peak_kib()
    tally, reported_s, places = Tally(), time.monotonic(), set()
    for index in range(task.first, task.first + task.count):
        if time.monotonic() >= until_s:
            break
        place.value = index
        value = input_of(task.target, seeds, task.seed, index)
        error, took_ms = timed(task.target, value)
        _count(tally, error, took_ms, task.target)
        kind = fault(task.target, error, took_ms)
        if kind and len(places) < _FINDINGS_LIMIT:
            where = place_of(error) if error is not None else "slow"
            if (kind, where) not in places:
                places.add((kind, where))
                connection.send(_finding(task, index, value, error, kind, where))
        if time.monotonic() - reported_s > _REPORT_EVERY_S:
            tally.peak_mib = (_peak_kib() - began_kib) / 1024
            connection.send(tally)
            tally, reported_s = Tally(), time.monotonic()
    tally.peak_mib = (_peak_kib() - began_kib) / 1024
    connection.send(tally)
    connection.send(None)


def timed(target: Target, value: Any) -> tuple[BaseException | None, float]:
    """Read one input; return the error that came out, if any, and the milliseconds of CPU that it took."""
    caught: BaseException | None = None
    began = time.process_time()
    hard = resource.getrlimit(resource.RLIMIT_AS)[1]
    try:
        try:
            resource.setrlimit(resource.RLIMIT_AS, (_address_space() + MEMORY_LIMIT_MIB * _MIB, hard))
            signal.setitimer(signal.ITIMER_PROF, CPU_LIMIT_S)
            target.read(value)
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
            resource.setrlimit(resource.RLIMIT_AS, (hard, hard))
    except (Exception, TooSlowError) as error:
        caught = error
    return caught, 1000 * (time.process_time() - began)


def fault(target: Target, error: BaseException | None, took_ms: float) -> str:
    """Return what is wrong with how an input was read; "" where nothing is."""
    if isinstance(error, TooSlowError) or took_ms > 1000 * CPU_LIMIT_S:
        return f"more than {CPU_LIMIT_S:g} s of CPU"
    if error is None or isinstance(error, target.typed):
        return ""
    return type(error).__name__


def _count(tally: Tally, error: BaseException | None, took_ms: float, target: Target) -> None:
    tally.inputs += 1
    tally.slowest_ms = max(tally.slowest_ms, took_ms)
    if error is None:
        tally.accepted += 1
    else:
        kind = type(error).__name__
        tally.refused[getattr(error, "kind", kind) if isinstance(error, target.typed) else f"!{kind}"] += 1


def _finding(
    task: Task, index: int, value: Any, error: BaseException | None, kind: str, where: str
) -> FuzzFinding:
    def fails_alike(candidate: Any) -> bool:
        again, took_ms = timed(task.target, candidate)
        alike = fault(task.target, again, took_ms) == kind
        return alike and (again is None or error is None or place_of(again) == where)

    small = minimised(value, fails_alike)
    text = "" if error is None else shown(str(error), 300)
    return FuzzFinding(task.target.name, task.seed, index, kind, where, text, shown(small))


def _time_is_up(_signal: int, _frame: object) -> None:
    raise TooSlowError


def _address_space() -> int:
    with open("/proc/self/statm", encoding="ascii") as statistics:  # noqa: PTH123 - no file of a disk
        return int(statistics.read().split()[0]) * resource.getpagesize()


def _peak_kib() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def seeds_that_fail(target: Target) -> Sequence[str]:
    """Return the errors with which a target refuses its own seeds; there should be none."""
    found = []
    for value in target.seeds():
        try:
            target.read(value)
        except Exception as error:
            found.append(f"{target.name}: {type(error).__name__}: {error}")
    return found
