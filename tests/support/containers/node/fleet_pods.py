"""Tritonservers as containers of the node, behind a Service: the kubelet asks their probes, and each has its address.

There is no image of Triton without a registry: the containers are of the empty image that holds a pod's namespaces, and
see this machine's own tritonserver and the libraries that it needs, read-only.
"""

from __future__ import annotations

import os
from pathlib import Path
from signal import Signals

import requests
from slipway.fleet.members import Members

from include.sandbox.services.triton import TritonPorts, TritonServer
from tests.support.conformance.api import Object
from tests.support.conformance.fleet.service import FleetService
from tests.support.containers.node.node_cluster import NodeCluster
from tests.support.containers.node.worker import PAUSE_IMAGE
from tests.support.serving.triton_install import triton_install
from tests.support.store.connections import LOOPBACK

PORTS = TritonPorts(8000, 8001, 8002)
_EVERYWHERE = "0.0.0.0"
_SYSTEM = ("/lib", "/lib64", "/usr/lib")
_ANSWER_LIMIT_S = 1.0


class NodePods:
    """The pods of one namespace.

    :param repository: what all servers load models from.
    """

    def __init__(self, cluster: NodeCluster, service: FleetService, repository: Path) -> None:
        self._cluster = cluster
        self.service, self.repository = service, repository

    def run_triton(self, spec: Object) -> None:
        """Have the pods of the manifest run this machine's tritonserver."""
        install = triton_install()
        server = TritonServer(install, self.repository, PORTS, mode="explicit", exit_timeout_s=1)
        paths = {
            *install.library_path.split(os.pathsep),
            *_SYSTEM,
            str(install.directory),
            str(self.repository),
        }
        there = sorted(path for path in paths if Path(path).is_dir())
        spec["automountServiceAccountToken"] = False
        spec["volumes"] = [
            {"name": f"machine-{number}", "hostPath": {"path": path}} for number, path in enumerate(there)
        ]
        (container,) = spec["containers"]
        container["image"] = PAUSE_IMAGE
        container["command"] = [word.replace(LOOPBACK, _EVERYWHERE) for word in server.argv()]
        del container["args"]
        container["env"] = [{"name": name, "value": value} for name, value in install.environment({}).items()]
        container["volumeMounts"] = [
            {"name": f"machine-{number}", "mountPath": path, "readOnly": True}
            for number, path in enumerate(there)
        ]

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
