"""What a sandbox that starts is doing: whether its programs get on, and what their logs say at their end."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import psutil

LINES_SHOWN = 12
_LAST_BYTES = 16_384
# What starts needs some seconds of a processor; what hangs and polls has used those soon, and uses little more.
_BEGINS_S, _FINE_STEP_S, _STEP_S = 10.0, 0.5, 30.0
PARTS: dict[str, tuple[str, ...]] = {
    "object store": ("object-store",),
    "router": ("router",),
    "cluster": ("cluster",),
    "staging Triton": ("staging-triton",),
    "guard": ("guard",),
    "Airflow": ("airflow-api-server", "airflow-scheduler", "airflow-dag-processor", "airflow-triggerer"),
}
"""The programs of each part, as their logs are called."""


def movement(pids: Iterable[int]) -> tuple[int, ...]:
    """Return what differs as long as programs get on: in steps, how long each has used a processor.

    A log says less: that of an API server grows with each time that it is asked whether it is ready.

    :param pids: the programs; their children count.
    """
    return tuple(map(_step, map(_processor_s, pids)))


def _step(used_s: float) -> int:
    if used_s < _BEGINS_S:
        return int(used_s / _FINE_STEP_S)
    return int(_BEGINS_S / _FINE_STEP_S) + int((used_s - _BEGINS_S) / _STEP_S)


def _processor_s(pid: int) -> float:
    """Return how long a program and its children have used a processor."""
    try:
        process = psutil.Process(pid)
        family = [process, *process.children(recursive=True)]
    except psutil.Error:
        return 0.0
    return sum(map(_own_processor_s, family))


def _own_processor_s(process: psutil.Process) -> float:
    try:
        used = process.cpu_times()
    except psutil.Error:
        return 0.0
    return float(used.user + used.system)


def log_end(log_dir: Path, program: str) -> str:
    """Return the last lines of a program's log, to be put behind a sentence; "" if it has none."""
    path = log_dir / f"{program}.log"
    try:
        with path.open("rb") as log:
            log.seek(max(path.stat().st_size - _LAST_BYTES, 0))
            lines = log.read(_LAST_BYTES).decode(errors="replace").strip().splitlines()[-LINES_SHOWN:]
    except OSError:
        return ""
    return f"\nThe end of {path}:\n" + "\n".join(lines) if lines else f"\n{path} is empty."
