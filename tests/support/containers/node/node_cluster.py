"""A real cluster of one node: control plane, scheduler, kubelet and containerd, whose pods are containers."""

from __future__ import annotations

import fcntl
import os
import platform
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from slipway_sandbox.host.ports import LOOPBACK
from tests.support.conformance.api import Api
from tests.support.conformance.build import ETCD, KUBE, NODE, BuildError, build
from tests.support.conformance.control_plane import ControlPlane, programs_of, start_control_plane
from tests.support.conformance.processes import Processes
from tests.support.conformance.scheduling.scheduler import start_scheduler
from tests.support.containers.engine import NoEngineError
from tests.support.containers.node.enclosure import API_SERVICE, GATEWAY, enclosure
from tests.support.containers.node.relay import Relay
from tests.support.containers.node.runtime_programs import (
    CNI_PLUGINS,
    PLUGINS,
    RuntimePrograms,
    installed_programs,
)
from tests.support.containers.node.worker import Worker

# Of packages that nearly every machine has, and of those that run containers.
BASIC_PROGRAMS = ("ip", "nsenter", "setpriv", "unshare")
PROGRAMS = ("containerd", "ctr", "runc", "catatonit", *BASIC_PROGRAMS)
LOGS = "logs"
_API_PORT = 443
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

    def relay(self, port: int, target: str = LOOPBACK, at: tuple[str, int] = (GATEWAY, 0)) -> Relay:
        """Carry what one address takes to another, as long as the cluster lasts.

        By default pods reach a port of loopback so.
        """
        relay = Relay(port, target, at)
        relay.start()
        self.clean_up.callback(relay.stop)
        return relay


def require_root(programs: Sequence[str] = BASIC_PROGRAMS, plugins: Sequence[str] = ()) -> None:
    """Refuse to begin where something is missing that is not built here.

    :raises NoEngineError: it names what to install.
    """
    if platform.system() != "Linux" or os.getuid() != 0:
        raise NoEngineError("A node needs Linux and root: it makes namespaces, control groups and a bridge.")
    missing = [name for name in programs if shutil.which(name) is None]
    missing += [str(path) for path in (CNI_PLUGINS / name for name in plugins) if not path.is_file()]
    if missing:
        raise NoEngineError(f"No node can be made without {', '.join(missing)}. On Debian: {_INSTALL}")


def require_programs() -> None:
    """Refuse to begin where a program that runs containers is missing too.

    :raises NoEngineError: it names what to install.
    """
    require_root(PROGRAMS, PLUGINS)


def versions(programs: RuntimePrograms | None = None) -> str:
    """Return the versions of what the node is made of."""
    programs = programs or installed_programs()
    assert programs is not None
    kubernetes, etcd = build(NODE).versions[NODE.main], build(ETCD).versions[ETCD.main]
    found = [f"Kubernetes {kubernetes}", f"etcd {etcd}"]
    for name, program in (("containerd", programs.containerd), ("runc", programs.runc)):
        said = subprocess.run(
            [program, "--version"], capture_output=True, text=True, timeout=20, check=True
        ).stdout
        version = re.search(r"\d+\.\d+\.\d+", said)
        found.append(f"{name} {version[0] if version else said.strip()}")
    return ", ".join(found)


@contextmanager
def node_cluster(
    folder: Path,
    give_images: Callable[[Worker], None],
    programs: RuntimePrograms | None = None,
    machine: tuple[Path, ...] = (),
) -> Iterator[NodeCluster]:
    """Start it over an empty folder; end everything with the context.

    :param give_images: gives the node its images, that of a pod's namespaces among them.
    :param programs: what runs containers; None: the machine's packages.
    :param machine: folders of this machine that every container sees.
    :raises NoEngineError: something is missing, or another one runs from this folder.
    """
    require_root()
    programs = programs or installed_programs()
    if programs is None:
        require_programs()
    assert programs is not None
    folder.mkdir(parents=True, exist_ok=True)
    with ExitStack() as clean_up:
        _lock(folder.with_suffix(".lock"), clean_up)
        _empty(folder)
        clean_up.callback(_empty, folder, but=LOGS)
        try:
            built = programs_of(build(ETCD), build(KUBE), build(NODE))
        except BuildError as error:
            raise NoEngineError(f"The programs of a cluster cannot be built. {error}") from error
        enclosed = clean_up.enter_context(enclosure(programs.first))
        processes = Processes(folder / LOGS)
        clean_up.callback(processes.stop_all)
        worker = Worker(enclosed, processes, folder, programs, machine)
        worker.start_runtime()
        give_images(worker)
        plane = start_control_plane(
            built, processes, folder / "control-plane", has_kubelets=True, addresses=(API_SERVICE,)
        )
        start_scheduler(built["kube-scheduler"], processes, plane)
        worker.start_kubelet(built["kubelet"], plane)
        cluster = NodeCluster(plane, worker, clean_up)
        # What pods find in KUBERNETES_SERVICE_HOST.
        cluster.relay(int(plane.url.rpartition(":")[2]), at=(API_SERVICE, _API_PORT))
        yield cluster


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
