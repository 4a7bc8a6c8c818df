"""What the emulated API tells of a pod: its log, its processes, how it ended."""

from __future__ import annotations

import re
from collections.abc import Callable

from kubernetes import client
from kubernetes.client.rest import ApiException

from tests.support.cluster.emulator import NAMESPACE, is_alive
from tests.support.waiting import wait_until

Ended = Callable[[str], client.V1Pod]
# A main process that ignores SIGTERM, a child, and a grandchild that has daemonized itself: sessions of their
# own all three. It prints their process ids once all of them run.
FAMILY = """
import os, signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
child = subprocess.Popen(["sleep", "600"], start_new_session=True)
reader, writer = os.pipe()
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.write(writer, str(os.getpid()).encode())
        os.execvp("sleep", ["sleep", "600"])
    os._exit(0)
print("family", os.getpid(), child.pid, os.read(reader, 20).decode(), flush=True)
time.sleep(600)
"""


def log_of(core: client.CoreV1Api, name: str, **query: object) -> str:
    """The log of a pod as text; empty as long as its container waits to start."""
    try:
        raw = core.read_namespaced_pod_log(name, NAMESPACE, _preload_content=False, **query)
    except ApiException as error:
        if "is waiting to start" in error.body or "does not have a host" in error.body:
            return ""
        raise
    return str(raw.data.decode())


def family_of(core: client.CoreV1Api, name: str) -> list[int]:
    """The process ids that a pod running FAMILY printed."""

    def printed() -> list[int]:
        found = re.search(r"family (\d+) (\d+) (\d+)", log_of(core, name))
        return [int(pid) for pid in found.groups()] if found else []

    pids: list[int] = wait_until(printed, "the pod has started its children")
    assert all(is_alive(pid) for pid in pids)
    return pids


def terminated(ended: client.V1Pod) -> client.V1ContainerStateTerminated:
    """How the pod's first container ended."""
    return ended.status.container_statuses[0].state.terminated


def is_gone(core: client.CoreV1Api, name: str) -> Callable[[], bool]:
    """A condition: there is no such pod any more."""

    def gone() -> bool:
        try:
            core.read_namespaced_pod(name, NAMESPACE)
        except ApiException as error:
            return bool(error.status == 404)
        return False

    return gone
