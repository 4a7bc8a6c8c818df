"""Real tritonservers as the pods of a fleet: each ready when its readiness probe would say so."""

from __future__ import annotations

import signal
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import requests

from slipway.fleet.members import Member, Members
from slipway_sandbox.host.ports import LOOPBACK
from slipway_sandbox.services.triton import TritonPorts, TritonServer
from tests.support.conformance.api import Object
from tests.support.conformance.fleet.service import FleetService
from tests.support.conformance.kubelet import Fate
from tests.support.conformance.real_cluster import RealCluster
from tests.support.serving.triton_install import triton_install

# A server that hangs holds the kubelet up for so long at each look.
_PROBE_LIMIT_S = 0.3
_EXIT_TIMEOUT_S = 1


class FleetPods:
    """Runs a tritonserver for each pod of one namespace.

    There is no network of pods: what is sent to a pod's address is led to its server's ports on loopback.

    :param repository: what all servers load models from.
    :param folder: gets the servers' logs.
    """

    def __init__(self, service: FleetService, repository: Path, folder: Path) -> None:
        self.service, self.repository, self._folder = service, repository, folder
        self._install = triton_install()
        self._servers: dict[str, TritonServer] = {}
        self._names: dict[str, str] = {}
        self._addresses: dict[str, TritonServer] = {}
        self._ending = ThreadPoolExecutor(max_workers=4)
        self._is_closed = False

    # --- what a kubelet asks ---

    def fate(self, pod: Object) -> Fate | None:
        """Return how the pod's server is, and start it at the first time; None: the pod is another namespace's."""
        metadata = pod["metadata"]
        if metadata["namespace"] != self.service.namespace or self._is_closed:
            return None
        server = self._servers.get(metadata["uid"])
        if server is None:
            log = self._folder / f"{metadata['name']}.log"
            server = TritonServer(
                self._install,
                self.repository,
                TritonPorts.free(),
                mode="explicit",
                log_path=log,
                exit_timeout_s=_EXIT_TIMEOUT_S,
            )
            server.start()
            self._servers[metadata["uid"]] = server
            self._names[metadata["name"]] = metadata["uid"]
        if address := pod.get("status", {}).get("podIP"):
            self._addresses[address] = server
        return Fate.READY if _is_ready(server, pod) else Fate.UNREADY

    def end(self, uid: str) -> None:
        """End the server of a pod that is gone."""
        server = self._servers.pop(uid, None)
        if server is not None:
            # In another thread: the kubelet has other pods to look at.
            self._ending.submit(server.stop)

    def close(self) -> None:
        """End every server."""
        # The kubelet may still ask, and nothing may begin any more.
        self._is_closed = True
        for uid in list(self._servers):
            self.end(uid)
        self._ending.shutdown()

    # --- what tests ask ---

    def members(self) -> Members:
        """Return the servers behind the Service."""
        return Led(self.service.members, self)

    def lives(self, pod: str) -> bool:
        """Return whether the pod's server answers, and its address leads there."""
        server = self._servers[self._names[pod]]
        return server in self._addresses.values() and server.is_ready()

    def signal(self, pod: str, number: signal.Signals) -> None:
        """Send a signal to the pod's server, unless it was ended with its pod."""
        server = self._servers.get(self._names[pod])
        if server is not None and server.process is not None:
            server.process.send_signal(number)

    def led(self, address: str) -> str:
        """Return where on loopback it is that a pod's address and port lead.

        :raises LookupError: no pod has the address, or it does not listen there.
        """
        host, _, port = address.rpartition(":")
        ports = self._addresses[host].ports
        return f"{LOOPBACK}:{({'8000': ports.http, '8001': ports.grpc})[port]}"


class Led:
    """The members that are looked up in a cluster, each address led to a server on loopback.

    :param members: as a release has them.
    """

    def __init__(self, members: Members, pods: FleetPods) -> None:
        self._members, self._pods = members, pods
        self.require_fencing, self.fence = members.require_fencing, members.fence

    async def current(self) -> Sequence[Member]:
        """Return the members; whoever has just got its address and was not seen by the kubelet yet is left out."""
        found = []
        for one in await self._members.current():
            try:
                http, grpc = (
                    self._pods.led(address)
                    for address in (one.settings.http_address, one.settings.grpc_address)
                )
            except LookupError:
                continue
            settings = replace(one.settings, http_address=http, grpc_address=grpc)
            found.append(replace(one, settings=settings))
        return found


@contextmanager
def fleet_pods(cluster: RealCluster, service: FleetService, repository: Path) -> Iterator[FleetPods]:
    """Have tritonservers as the pods behind a Service while the block runs."""
    logs = cluster.plane.folder / "logs" / service.namespace
    logs.mkdir(parents=True)
    pods = FleetPods(service, repository, logs)
    cluster.kubelet.runtimes.append(pods)
    try:
        yield pods
    finally:
        cluster.kubelet.runtimes.remove(pods)
        pods.close()


def _is_ready(server: TritonServer, pod: Object) -> bool:
    """Ask what the pod's readiness probe asks."""
    (container,) = pod["spec"]["containers"]
    path = container["readinessProbe"]["httpGet"]["path"]
    try:
        url = f"http://{LOOPBACK}:{server.ports.http}{path}"
        answer = requests.get(url, timeout=_PROBE_LIMIT_S, headers={"Connection": "close"})
    except requests.RequestException:
        return False
    return answer.status_code == requests.codes.ok
