"""The memory of a server and of all that it started, from /proc."""

from __future__ import annotations

from pathlib import Path

PROC = Path("/proc")
KIB_PER_MIB = 1024
# Of /proc/PID/stat, behind the name in parentheses: state, parent, group, session.
SESSION = 3


def resident_mib(session: int) -> float:
    """Return the private memory in use of a session's processes, in MiB; 0 where none is left.

    Files that are mapped do not count: their pages come and go with use. Shared memory counts once, as the session
    leader has it mapped.
    """
    return sum(_of(pid, leader=pid == session) for pid in _members(session)) / KIB_PER_MIB


def _members(session: int) -> list[int]:
    found = []
    for path in PROC.iterdir():
        if not path.name.isdecimal():
            continue
        try:
            fields = (path / "stat").read_text().rpartition(")")[2].split()
        except OSError:  # it has ended meanwhile
            continue
        if int(fields[SESSION]) == session:
            found.append(int(path.name))
    return found


def _of(pid: int, *, leader: bool) -> int:
    wanted = {"RssAnon", "RssShmem"} if leader else {"RssAnon"}
    try:
        lines = (PROC / str(pid) / "status").read_text().splitlines()
    except OSError:
        return 0
    parts = (line.split() for line in lines if line.partition(":")[0] in wanted)
    return sum(int(part[1]) for part in parts)
