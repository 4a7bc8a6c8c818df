"""Examinations carried out side by side, each with its limit: what hangs is a line, and the rest goes on."""

from __future__ import annotations

import logging
import queue
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from airflow.sdk.exceptions import AirflowNotFoundException

from slipway.doctor.examination import Examination
from slipway.doctor.installation import Installation
from slipway_core.doctor.line import Line
from slipway_core.doctor.report import DoctorReport
from slipway_core.errors import SlipwayError

log = logging.getLogger(__name__)

AT_ONCE = 6
"""How many examinations run at once."""
_LINES_LIMIT = 200
"""How many lines one examination may have; a report with thousands helps nobody."""


@dataclass(frozen=True)
class _Said:
    """A line of an examination that runs; None: it has ended."""

    index: int
    line: Line | None


def examine(
    installation: Installation,
    examinations: Sequence[Examination],
    show: Callable[[Line], None] = lambda line: None,
    *,
    where: str = "",
    at_once: int = AT_ONCE,
) -> DoctorReport:
    """Carry the examinations out; return their lines in the order of the examinations.

    One that does not end within its limit is given up: its thread is left to itself, the lines that it has found
    count, and a line says that it hangs.

    :param show: is given each line as soon as it is known.
    :param where: in which process, for the report.
    """
    began_at = datetime.now(UTC)
    found: list[list[Line]] = [[] for _ in examinations]
    said: queue.Queue[_Said] = queue.Queue()
    waiting = list(range(len(examinations)))
    until: dict[int, float] = {}

    def add(index: int, line: Line) -> None:
        lines = found[index]
        if len(lines) < _LINES_LIMIT:
            lines.append(line)
        elif len(lines) == _LINES_LIMIT:
            lines.append(_too_many(examinations[index]))
        else:
            return
        show(lines[-1])

    while waiting or until:
        while waiting and len(until) < at_once:
            index = waiting.pop(0)
            until[index] = time.monotonic() + examinations[index].limit_s
            _begin(index, examinations[index], installation, said)
        nearest = min(until.values())
        try:
            one = said.get(timeout=max(0.0, nearest - time.monotonic()))
        except queue.Empty:
            pass
        else:
            # What one says that was given up already is nobody's.
            if one.index in until:
                if one.line is None:
                    del until[one.index]
                    if not found[one.index]:
                        add(one.index, _silent(examinations[one.index]))
                else:
                    add(one.index, one.line)
        for index in [index for index, end in until.items() if end <= time.monotonic()]:
            del until[index]
            add(index, _hanging(examinations[index]))
    lines = tuple(line for of_one in found for line in of_one)
    return DoctorReport(began_at=began_at, ended_at=datetime.now(UTC), where=where[:300], lines=lines)


def _begin(index: int, one: Examination, installation: Installation, said: queue.Queue[_Said]) -> None:
    def work() -> None:
        try:
            for line in _lines_of(one, installation):
                said.put(_Said(index, line))
        finally:
            said.put(_Said(index, None))

    # A daemon: one that hangs for ever does not keep the process.
    threading.Thread(target=work, name=f"slipway doctor {one.name}", daemon=True).start()


def _lines_of(one: Examination, installation: Installation) -> Iterator[Line]:
    """Yield the lines of an examination; what it raises is the last one."""
    if one.needs is not None and one.needs not in installation.permitted:
        command = f"slipway doctor --only {one.name} --{one.needs}"
        yield one.skipped(one.name.replace("_", " "), f"it is done only with --{one.needs}", remedy=command)
        return
    try:
        yield from one.lines(installation)
    except AirflowNotFoundException as error:
        yield one.unknown(one.name, str(error), remedy="slipway doctor --only connections")
    except SlipwayError as error:
        yield one.of_error(one.name, error)
    except Exception as error:  # whatever a client raises, the installation was not looked at
        log.info("the examination %s ended with an error", one.name, exc_info=True)
        # No text of an error that nobody has read: it may hold an address with a password.
        place = traceback.extract_tb(error.__traceback__)[-1]
        found = f"it ended with {type(error).__name__}, in {Path(place.filename).name}, line {place.lineno}"
        yield one.unknown(one.name, found, remedy="check what it asks, and the connection that leads there")


def _too_many(one: Examination) -> Line:
    """Return the line in place of all further ones: what it leaves out may have failed."""
    return one.unknown(
        one.name,
        f"only the first {_LINES_LIMIT} lines are shown",
        remedy="mend what has failed among them, then examine it again",
    )


def _silent(one: Examination) -> Line:
    return one.unknown(
        one.name,
        "it ended without a line, so nothing is known",
        remedy=f"report this, with the output of `slipway doctor --only {one.name} -o json`",
    )


def _hanging(one: Examination) -> Line:
    return one.unknown(
        one.name,
        f"it had not ended after {one.limit_s:g} s and was given up",
        expected=f"an answer within {one.limit_s:g} s",
        remedy=f"see whether the server answers that it asks, then `slipway doctor --only {one.name}`",
    )
