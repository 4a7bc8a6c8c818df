"""Find and end what a sandbox has left running, also when whoever should have ended it was killed.

A process belongs to a sandbox when its environment says so (`SLIPWAY_SANDBOX=ROOT`), when it is in the
session of the
sandbox's supervisor (some programs overwrite their environment), or when it descends from one that does.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

import psutil

from slipway_sandbox.host.files import replace_file
from slipway_sandbox.host.settings import MARKER

BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
END_GRACE_S = 5.0
KILL_GRACE_S = 5.0


@dataclass(frozen=True)
class SessionRecord:
    """The supervisor's session: its id, which is the supervisor's pid, when that process started, and in which boot."""

    session_id: int
    started_at: float
    boot_id: str

    @staticmethod
    def of(pid: int) -> SessionRecord:
        """Return the record of a process that leads its session."""
        return SessionRecord(pid, psutil.Process(pid).create_time(), _boot_id())

    def save(self, path: Path) -> None:
        """Write the record where `load` finds it."""
        replace_file(path, json.dumps(asdict(self)) + "\n", private=True)

    @staticmethod
    def load(path: Path) -> SessionRecord | None:
        """Return the record, or None when there is none of this boot."""
        try:
            record = SessionRecord(**json.loads(path.read_text(encoding="utf-8")))
        except (OSError, ValueError, TypeError):
            return None
        return record if record.boot_id == _boot_id() else None

    def leader(self) -> psutil.Process | None:
        """Return the supervisor, if it still runs."""
        try:
            process = psutil.Process(self.session_id)
            alive = process.create_time() == self.started_at and process.status() != psutil.STATUS_ZOMBIE
        except psutil.NoSuchProcess:
            return None
        return process if alive else None

    def is_current(self) -> bool:
        """Return whether the session id still means this session.

        It does unless another process has come to have that pid.
        """
        try:
            return bool(psutil.Process(self.session_id).create_time() == self.started_at)
        except psutil.NoSuchProcess:
            # The kernel gives no pid away that is still some session's id.
            return True


def find_sandbox_processes(root: Path, record: SessionRecord | None) -> list[psutil.Process]:
    """Return all processes of the sandbox at `root`, except this one and those it descends from."""
    session = record.session_id if record is not None and record.is_current() else None
    found: dict[int, psutil.Process] = {}
    for process in psutil.process_iter():
        if _belongs(process, str(root), session):
            for one in (process, *_descendants(process)):
                found[one.pid] = one
    for one in (os.getpid(), *(parent.pid for parent in psutil.Process().parents())):
        found.pop(one, None)
    return list(found.values())


def end_processes(
    processes: Iterable[psutil.Process], grace_s: float = END_GRACE_S, kill_grace_s: float = KILL_GRACE_S
) -> list[psutil.Process]:
    """Ask processes to end, kill those that have not after `grace_s`.

    Returns those that survive even that.
    """
    remaining = [process for process in processes if _signal(process, "terminate")]
    _, remaining = psutil.wait_procs(remaining, timeout=grace_s)
    remaining = [process for process in remaining if _signal(process, "kill")]
    _, remaining = psutil.wait_procs(remaining, timeout=kill_grace_s)
    return [
        process for process in remaining if process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    ]


def _belongs(process: psutil.Process, root: str, session: int | None) -> bool:
    try:
        if process.status() == psutil.STATUS_ZOMBIE:
            return False
        if session is not None and os.getsid(process.pid) == session:
            return True
        return bool(process.environ().get(MARKER) == root)
    except (psutil.Error, OSError):
        # It has just ended, or is somebody else's.
        return False


def _descendants(process: psutil.Process) -> list[psutil.Process]:
    try:
        children: list[psutil.Process] = process.children(recursive=True)
    except psutil.Error:
        return []
    return children


def _signal(process: psutil.Process, name: str) -> bool:
    try:
        getattr(process, name)()
    except psutil.NoSuchProcess:
        return False
    return True


def _boot_id() -> str:
    return BOOT_ID.read_text(encoding="ascii").strip()
