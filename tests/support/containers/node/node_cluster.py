"""A real cluster of one node: control plane, scheduler, kubelet and containerd, whose pods are containers."""

from __future__ import annotations

import fcntl
import os
import platform
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.support.conformance.api import Api
from tests.support.conformance.build import ETCD, KUBE, NODE, BuildError, build
from tests.support.conformance.control_plane import ControlPlane, programs_of, start_control_plane
from tests.support.conformance.processes import Processes
from tests.support.conformance.scheduling.scheduler import start_scheduler
from tests.support.containers.engine import Engine, NoEngineError
from tests.support.containers.node.enclosure import enclosure
from tests.support.containers.node.relay import Relay
from tests.support.containers.node.worker import CNI_PLUGINS, Worker

PROGRAMS = ("containerd", "ctr", "runc", "catatonit", "ip", "nsenter", "setpriv", "unshare")
LOGS = "logs"
_PLUGINS = ("bridge", "host-local", "loopback")
_INSTALL = (
    "apt-get install --no-install-recommends containerd runc containernetworking-plugins catatonit iproute2"
)


@dataclass(frozen=True)
class NodeCluster:
    """A running cluster."""

    plane: ControlPlane
    worker: Worker
    clean_up: ExitStack

    @property
    def api(self) -> Api:
        """The API for who may do everything."""
        return self.plane.api()

    def relay(self, port: int) -> Relay:
        """Let pods reach a port of loopback, as long as the cluster lasts."""
        relay = Relay(port)
        relay.start()
        self.clean_up.callback(relay.stop)
        return relay


def require_programs() -> None:
    """Refuse to begin where something is missing.

    :raises NoEngineError: it names what to install.
    """
    if platform.system() != "Linux" or os.getuid() != 0:
        raise NoEngineError("A node needs Linux and root: it makes namespaces, control groups and a bridge.")
    missing = [name for name in PROGRAMS if shutil.which(name) is None]
    missing += [str(path) for path in (CNI_PLUGINS / name for name in _PLUGINS) if not path.is_file()]
    if missing:
        raise NoEngineError(f"No node can be made without {', '.join(missing)}. On Debian: {_INSTALL}")


def versions() -> str:
    """Return the versions of what the node is made of."""
    kubernetes, etcd = build(NODE).versions[NODE.main], build(ETCD).versions[ETCD.main]
    found = [f"Kubernetes {kubernetes}", f"etcd {etcd}"]
    for name in ("containerd", "runc"):
        said = subprocess.run(
            [name, "--version"], capture_output=True, text=True, timeout=20, check=True
        ).stdout
        version = re.search(r"\d+\.\d+\.\d+", said)
        found.append(f"{name} {version[0] if version else said.strip()}")
    return ", ".join(found)


@contextmanager
def node_cluster(folder: Path, builder: Engine, images: Mapping[str, str]) -> Iterator[NodeCluster]:
    """Start it over an empty folder; end everything with the context.

    :param images: what the node has, by the names of those that were built; see `Worker.give_images`.
    :raises NoEngineError: something is missing, or another one runs from this folder.
    """
    require_programs()
    folder.mkdir(parents=True, exist_ok=True)
    with ExitStack() as clean_up:
        _lock(folder.with_suffix(".lock"), clean_up)
        _empty(folder)
        clean_up.callback(_empty, folder, but=LOGS)
        try:
            built = programs_of(build(ETCD), build(KUBE), build(NODE))
        except BuildError as error:
            raise NoEngineError(f"The programs of a cluster cannot be built. {error}") from error
        enclosed = clean_up.enter_context(enclosure())
        processes = Processes(folder / LOGS)
        clean_up.callback(processes.stop_all)
        worker = Worker(enclosed, processes, folder)
        worker.start_runtime()
        worker.give_pause_image(builder)
        worker.give_images(builder, images)
        plane = start_control_plane(built, processes, folder / "control-plane", has_kubelets=True)
        start_scheduler(built["kube-scheduler"], processes, plane)
        worker.start_kubelet(built["kubelet"], plane)
        yield NodeCluster(plane, worker, clean_up)


def _empty(folder: Path, but: str = "") -> None:
    """Remove what a node has kept: gigabytes of images."""
    for one in folder.iterdir():
        if one.is_dir() and one.name != but:
            shutil.rmtree(one)
        elif one.name != but:
            one.unlink()


def _lock(path: Path, clean_up: ExitStack) -> None:
    lock = clean_up.enter_context(path.open("w"))
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        raise NoEngineError(f"Another run has a node in {path.parent}.") from error
