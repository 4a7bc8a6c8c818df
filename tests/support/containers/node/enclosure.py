"""Where a node's programs run: process ids and mounts of their own, a bridge and control groups that go with them.

Whatever they start ends with the first process of their namespace, which the kernel ends with this one: containers and
their shims too, also where the tests are killed. Mounts go with it. The bridge and the control groups belong to the
machine, and are taken away by whoever comes next where nobody could.
"""

from __future__ import annotations

import fcntl
import os
import shlex
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil

from tests.support.containers.engine import NoEngineError

BRIDGE, GATEWAY, SUBNET = "slipway-node", "10.88.7.1", "10.88.7.0/24"
# The addresses of Services, of which the API's is the first. There is no kube-proxy: only those answer that are given
# to the bridge.
SERVICES, API_SERVICE = "10.96.0.0/16", "10.96.0.1"
CGROUP = "slipway-node"
LOCK = Path(tempfile.gettempdir()) / "slipway-node.lock"
CGROUPS = Path("/sys/fs/cgroup")
# Where programs of a node write whatever they are asked to: these are empty in the enclosure, and end with it.
PRIVATE = ("/run/containerd", "/var/lib/cni", "/var/lib/kubelet", "/var/log/containers")
_END_LIMIT_S = 20.0


@dataclass(frozen=True)
class Enclosure:
    """The namespaces, by their first process."""

    pid: int

    def command(self, *words: str | Path) -> list[str | Path]:
        """Return the command that runs another one inside."""
        return ["nsenter", "--pid", "--mount", f"--target={self.pid}", "--", *words]

    def call(self, *words: str, limit_s: float = 60.0) -> str:
        """Run a program inside to its end, and return what it says."""
        done = subprocess.run(
            self.command(*words), capture_output=True, text=True, timeout=limit_s, check=False
        )
        assert done.returncode == 0, f"{' '.join(words)}: {done.returncode}\n{done.stderr[-2000:]}"
        return done.stdout


@contextmanager
def enclosure(first: Sequence[str] = ("catatonit", "-P")) -> Iterator[Enclosure]:
    """Make it all, and take it away at the end.

    :param first: the command of the first process.
    :raises NoEngineError: another node runs on this machine.
    """
    with ExitStack() as clean_up:
        clean_up.enter_context(alone(LOCK))
        clean_up.enter_context(_private_folders())
        clean_up.enter_context(_cgroups())
        clean_up.enter_context(_bridge())
        yield clean_up.enter_context(_namespaces(first))


@contextmanager
def alone(path: Path) -> Iterator[None]:
    """Hold a lock of the machine: the bridge and the control groups of another run would be taken for left-overs.

    :raises NoEngineError: another run holds it.
    """
    with path.open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise NoEngineError(f"Another node runs on this machine: it holds {path}.") from error
        yield


@contextmanager
def _namespaces(init: Sequence[str]) -> Iterator[Enclosure]:
    mounts = " && ".join(f"mount -t tmpfs slipway {path}" for path in PRIVATE)
    first = subprocess.Popen(
        [
            # `unshare` itself takes no notice of SIGTERM.
            *("setpriv", "--pdeathsig", "KILL"),
            *("unshare", "--pid", "--mount", "--propagation", "private", "--mount-proc"),
            *("--fork", "--kill-child=SIGKILL", "sh", "-c"),
            # It takes over what is orphaned, as a machine's first process does.
            f"{mounts} && echo ready && exec {shlex.join(init)} >/dev/null",
        ],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
    )
    try:
        assert first.stdout is not None
        assert first.stdout.readline() == b"ready\n", "no namespaces could be made"
        (child,) = psutil.Process(first.pid).children()
        yield Enclosure(child.pid)
    finally:
        first.kill()
        first.wait(_END_LIMIT_S)


@contextmanager
def _private_folders() -> Iterator[None]:
    """Have the folders that are mounted over; those that were made for it go again."""
    made = []
    try:
        for path in map(Path, PRIVATE):
            if not path.is_dir():
                path.mkdir(parents=True)
                made.append(path)
        yield
    finally:
        for path in made:
            path.rmdir()


@contextmanager
def _cgroups() -> Iterator[None]:
    """Have a control group in each hierarchy, below which the kubelet puts all pods."""
    hierarchies = _hierarchies()
    _remove_cgroups(hierarchies)
    try:
        for root in hierarchies:
            (root / CGROUP).mkdir()
        yield
    finally:
        _remove_cgroups(hierarchies)


def _hierarchies() -> list[Path]:
    """Return where control groups are mounted: one place for version 2, one for each controller of version 1."""
    lines = (line.split() for line in Path("/proc/self/mounts").read_text(encoding="utf-8").splitlines())
    return [Path(line[1]) for line in lines if line[2] in ("cgroup", "cgroup2")]


def _remove_cgroups(hierarchies: list[Path]) -> None:
    limit = time.monotonic() + _END_LIMIT_S
    for root in hierarchies:
        folders = [Path(folder) for folder, _, _ in os.walk(root / CGROUP, topdown=False)]
        for folder in folders:
            _remove_cgroup(folder, limit)


def _remove_cgroup(folder: Path, limit: float) -> None:
    """Remove one control group; the kernel lets its last process go a moment after that has ended."""
    while True:
        try:
            folder.rmdir()
        except FileNotFoundError:
            return
        except OSError:
            if time.monotonic() > limit:
                raise
            time.sleep(0.1)
        else:
            return


@contextmanager
def _bridge() -> Iterator[None]:
    """Have the bridge at which pods and this machine meet; nothing leads from there to other networks."""
    _remove_bridge()
    _ip("link", "add", BRIDGE, "type", "bridge")
    try:
        _ip("address", "add", f"{GATEWAY}/{SUBNET.rpartition('/')[2]}", "dev", BRIDGE)
        _ip("address", "add", f"{API_SERVICE}/32", "dev", BRIDGE)
        _ip("link", "set", BRIDGE, "up")
        yield
    finally:
        _remove_bridge()


def _remove_bridge() -> None:
    """Remove the bridge and what leads from it to pods: half-closed connections would hold that for minutes."""
    ports = Path("/sys/class/net") / BRIDGE / "brif"
    names = [one.name for one in ports.iterdir()] if ports.is_dir() else []
    for name in (*names, BRIDGE):
        # What leads to a pod may go with the pod meanwhile.
        subprocess.run(["ip", "link", "delete", name], capture_output=True, timeout=20, check=False)


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True, timeout=20)
