#!/usr/bin/env python3
"""The first process of an emulated container: starts the command, hands on its exit code, leave nothing
behind.

    container_init.py PARENT_PID -- PROGRAM [ARG …]

It adopts every descendant that loses its parent, so that none can slip away by daemonizing. It ends them all
when the command ends, on SIGUSR2, and when the process PARENT_PID, which started it, ends for whatever
reason. SIGTERM is passed on to the command's process group. Exit codes: the command's own, 128 + N if signal
N ended it, 127 or 126 if it could not be started.

Standard library only, and nothing of this repository: it is run by path, isolated, before anything else.
"""

import ctypes
import os
import signal
import sys
from contextlib import suppress
from pathlib import Path

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
HANDLED = {signal.SIGTERM, signal.SIGUSR2, signal.SIGCHLD}
END_NOW = signal.SIGUSR2


def prctl(option: int, value: int) -> None:
    """Call prctl(2) with one argument; raises OSError."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(option, value, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), f"prctl({option}, {value}) failed")


def start(argv: list[str]) -> int:
    """Fork and run `argv` in a session of its own; return its process id."""
    init = os.getpid()
    pid = os.fork()
    if pid:
        return pid
    try:
        prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != init:
            os._exit(128 + signal.SIGKILL)
        os.setsid()
        signal.pthread_sigmask(signal.SIG_SETMASK, set())
        os.execvp(argv[0], argv)  # noqa: S606 - to run what the pod says is what this program is for
    except OSError as error:
        print(f"cannot start {argv[0]}: {error.strerror}", file=sys.stderr, flush=True)
        os._exit(127 if isinstance(error, FileNotFoundError) else 126)


def descendants() -> list[int]:
    """Return the process ids of everything below this process, without those that have ended."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                # The second field, the name, may hold spaces and parentheses.
                state, parent = (entry / "stat").read_bytes().rpartition(b")")[2].split()[:2]
            except OSError:
                continue
            if state != b"Z":
                children.setdefault(int(parent), []).append(int(entry.name))
    found: list[int] = []
    frontier = [os.getpid()]
    while frontier:
        frontier = [child for parent in frontier for child in children.get(parent, [])]
        found += frontier
    return found


def kill_all() -> None:
    """Send SIGKILL to every descendant."""
    for pid in descendants():
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def reap(main: int) -> int | None:
    """Collect all that have ended; return the exit code of `main` if it is among them."""
    code = None
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return code
        if pid == 0:
            return code
        if pid == main:
            code = os.waitstatus_to_exitcode(status)
            code = 128 - code if code < 0 else code


def supervise(main: int) -> int:
    """Wait for `main` while serving signals; return its exit code once nothing of it is left."""
    code = None
    while code is None:
        received = signal.sigwait(HANDLED)
        if received == signal.SIGTERM:
            with suppress(ProcessLookupError):
                os.killpg(main, signal.SIGTERM)
        elif received == END_NOW:
            kill_all()
        code = reap(main)
    while descendants():
        kill_all()
        reap(main)
        signal.sigtimedwait({signal.SIGCHLD}, 0.01)
    return code


def main() -> int:
    """Run the program named on the command line."""
    if len(sys.argv) < 4 or sys.argv[2] != "--":
        print(__doc__, file=sys.stderr)
        return 2
    signal.pthread_sigmask(signal.SIG_BLOCK, HANDLED)
    prctl(PR_SET_CHILD_SUBREAPER, 1)
    prctl(PR_SET_PDEATHSIG, END_NOW)
    # The parent may have ended before this could be reported to it.
    if os.getppid() != int(sys.argv[1]):
        return 128 + signal.SIGKILL
    return supervise(start(sys.argv[3:]))


if __name__ == "__main__":
    sys.exit(main())
