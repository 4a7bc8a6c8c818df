"""Tritonservers as containers of the node, behind a Service: the kubelet asks their probes, and each has its address.

There is no image of Triton without a registry: the containers are of the empty image that holds a pod's namespaces, and
see this machine's own tritonserver and what it needs, all of it read-only but a copy of the server's folder: its Python
backend sets the rights of a file there.
"""

from __future__ import annotations

import os
import shutil
from dataclasses import replace
from pathlib import Path
from signal import Signals

import requests

from slipway.fleet.members import Members
from slipway_sandbox.host.ports import LOOPBACK
from slipway_sandbox.services.triton import TritonPorts, TritonServer
from tests.support.conformance.api import Object
from tests.support.conformance.fleet.service import FleetService
from tests.support.containers.node.node_cluster import NodeCluster
from tests.support.containers.node.worker import PAUSE_IMAGE
from tests.support.fleet.servers import write_versions
from tests.support.serving.triton_install import triton_install

PORTS = TritonPorts(8000, 8001, 8002)
_EVERYWHERE = "0.0.0.0"
_SYSTEM = ("/bin", "/lib", "/lib64", "/usr")
_ANSWER_LIMIT_S = 1.0


class NodePods:
    """The pods of one namespace.

    :param folder: gets what all servers load models from, and the server's folder.
    """

    def __init__(self, cluster: NodeCluster, service: FleetService, folder: Path) -> None:
        self._cluster, self._folder = cluster, folder
        self.service, self.repository = service, folder / "repository"
        write_versions(self.repository)

    def run_triton(self, spec: Object) -> None:
        """Have the pods of the manifest run this machine's tritonserver."""
        own = triton_install()
        copy = shutil.copytree(own.directory, self._folder / "server")
        install = replace(own, directory=copy)
        server = TritonServer(install, self.repository, PORTS, mode="explicit", exit_timeout_s=1)
        python = Path(_home(install.venv)).parent
        paths = {
            *(str(path) for path in (install.venv, python, self._folder)),
            *install.library_path.split(os.pathsep),
            *_SYSTEM,
        }
        # What lies in another one of them comes after it.
        there = sorted(path for path in paths if Path(path).is_dir())
        volumes = {f"machine-{number}": path for number, path in enumerate(there)}
        spec["automountServiceAccountToken"] = False
        spec["volumes"] = [{"name": name, "hostPath": {"path": path}} for name, path in volumes.items()]
        spec["volumes"].append({"name": "scratch", "emptyDir": {}})
        _give(self._folder, spec["securityContext"]["runAsUser"])
        (container,) = spec["containers"]
        container["image"] = PAUSE_IMAGE
        container["command"] = [word.replace(LOOPBACK, _EVERYWHERE) for word in server.argv()]
        del container["args"]
        container["env"] = [{"name": name, "value": value} for name, value in install.environment({}).items()]
        container["volumeMounts"] = [
            {"name": name, "mountPath": path, "readOnly": path != str(self._folder)}
            for name, path in volumes.items()
        ]
        # Triton's Python backend makes a folder there, wherever TMPDIR leads.
        container["volumeMounts"].append({"name": "scratch", "mountPath": "/tmp"})

    def members(self) -> Members:
        """Return the servers behind the Service, as a release has them."""
        return self.service.members

    def led(self, address: str) -> str:
        """Return the address itself: it leads to the pod."""
        return address

    def lives(self, pod: str) -> bool:
        """Return whether the pod's server answers."""
        address = self.service.api.must("GET", self.service.pod_path(pod))["status"].get("podIP")
        try:
            answer = requests.get(f"http://{address}:{PORTS.http}/v2/health/live", timeout=_ANSWER_LIMIT_S)
        except requests.RequestException:
            return False
        return answer.status_code == requests.codes.ok

    def signal(self, pod: str, number: Signals) -> None:
        """Send a signal to the first process of the pod's container, where there is one."""
        found = self.service.api.get(self.service.pod_path(pod))
        if found is None:
            return
        (status,) = found["status"]["containerStatuses"]
        listed = (line.split() for line in self._cluster.worker.ctr("tasks", "list").splitlines())
        for words in listed:
            if status["containerID"].endswith(words[0]):
                self._cluster.worker.enclosure.call("sh", "-c", f"kill -{int(number)} {words[1]}")


def _give(folder: Path, user: int) -> None:
    """Make a user the owner of a folder and all in it: the containers are not root's."""
    for path in (folder, *folder.rglob("*")):
        os.chown(path, user, user, follow_symlinks=False)


def _home(venv: Path) -> str:
    """Return the folder of the interpreter that an environment was made from."""
    lines = (venv / "pyvenv.cfg").read_text(encoding="utf-8").splitlines()
    return next(line.partition("=")[2].strip() for line in lines if line.startswith("home"))
