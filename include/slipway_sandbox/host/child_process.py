"""What the sandbox's child processes are started with."""

from __future__ import annotations

import ctypes
import signal
import sys
from pathlib import Path

_PR_SET_PDEATHSIG = 1
_LIBC = ctypes.CDLL(None, use_errno=True)


def program_path(name: str) -> str:
    """Return the path of a program of this environment (`airflow`, `supervisord`)."""
    return str(Path(sys.executable).with_name(name))


def end_with_parent() -> None:
    """Ask the kernel to send this process SIGTERM when its parent dies; survives exec."""
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
