"""A process is stopped, and it is waited for until that has happened."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from tests.support.waiting import wait_until

_LIMIT_S = 30.0


def stop(pid: int) -> None:
    """Stop a process: a thread that runs while the signal is sent may still answer, so each one is looked at."""
    os.kill(pid, signal.SIGSTOP)
    wait_until(lambda: _all_stopped(pid), f"all threads of {pid} have stopped", _LIMIT_S)


def _all_stopped(pid: int) -> bool:
    """Tell whether each thread's state is T, see proc_pid_stat(5)."""
    try:
        states = [_state(path) for path in Path(f"/proc/{pid}/task").glob("*/stat")]
    except FileNotFoundError:  # a thread has ended meanwhile
        return False
    return all(state == "T" for state in states)


def _state(path: Path) -> str:
    return path.read_text().rpartition(")")[2].split()[0]
