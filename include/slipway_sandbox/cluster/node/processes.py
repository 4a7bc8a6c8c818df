"""Finding and ending local processes by a mark in their environment: the last net under the pods."""

from __future__ import annotations

import logging
import os
import signal
from pathlib import Path

log = logging.getLogger(__name__)

# Every process of a pod carries both in its environment: which container it is of, and which emulator started
# it.
CONTAINER_MARK = "SLIPWAY_POD_CONTAINER"
CLUSTER_MARK = "SLIPWAY_CLUSTER_STATE"


def marked_processes(name: str, value: str) -> list[int]:
    """Return the ids of all other processes with `name=value` in the environment they were started with."""
    mark = f"{name}={value}".encode()
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            if mark in (entry / "environ").read_bytes().split(b"\0"):
                found.append(int(entry.name))
        except OSError:
            continue
    return found


def kill_marked(name: str, value: str) -> int:
    """Send SIGKILL to all other processes with the mark, until none is left; return how many there were."""
    killed: set[int] = set()
    # What is killed may have forked meanwhile; what has ended but is not collected has no environment any
    # more.
    while pids := set(marked_processes(name, value)) - killed:
        for pid in pids:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
            except PermissionError:
                log.warning("Could not end process %d: it belongs to another user.", pid)
        killed |= pids
    return len(killed)
