"""The processes of containers as the kernel sees them, from outside, and how long a test waits for a pod."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

from tests.support.containers.node.node_cluster import NodeCluster

LIMIT_S = 60.0


@dataclass(frozen=True)
class Process:
    """A container's first process, as the kernel sees it."""

    status: Mapping[str, str]
    root: str

    @classmethod
    def of(cls, cluster: NodeCluster, container_id: str) -> Process:
        """Look at a container that runs."""
        listed = (line.split() for line in cluster.worker.ctr("tasks", "list").splitlines())
        pid = next(words[1] for words in listed if container_id.endswith(words[0]))
        status = cluster.worker.enclosure.call("cat", f"/proc/{pid}/status").splitlines()
        mounts = cluster.worker.enclosure.call("cat", f"/proc/{pid}/mounts").splitlines()
        root = next(line for line in mounts if line.split()[1] == "/")
        return cls(dict(line.split(":\t", 1) for line in status if ":\t" in line), root.split()[3])


def sibling_processes(pid: int) -> list[psutil.Process]:
    """All processes in the namespace of process ids of another one."""
    wanted = Path(f"/proc/{pid}/ns/pid").readlink()
    found = []
    for one in psutil.process_iter():
        with suppress(OSError):
            if Path(f"/proc/{one.pid}/ns/pid").readlink() == wanted:
                found.append(one)
    return found
