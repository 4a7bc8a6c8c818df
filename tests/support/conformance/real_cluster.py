"""The whole cluster of the lane: the real programs, and by hand what none of them does."""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from tests.support.conformance.api import Api, Object
from tests.support.conformance.build import (
    ETCD,
    KNATIVE,
    KSERVE,
    KUBE,
    MONITORING,
    PROMETHEUS_OPERATOR,
    build,
)
from tests.support.conformance.control_plane import ADMIN, ControlPlane, programs_of, start_control_plane
from tests.support.conformance.custom_resources import install_custom_resources
from tests.support.conformance.gateway import Gateway
from tests.support.conformance.knative import (
    INGRESS_CLASS,
    install_knative,
    knative_settings,
    pretend_activator,
    start_knative,
)
from tests.support.conformance.knative import NAMESPACE as KNATIVE_NAMESPACE
from tests.support.conformance.kserve import NAMESPACE as KSERVE_NAMESPACE
from tests.support.conformance.kserve import install_kserve, start_kserve
from tests.support.conformance.kubelet import Kubelet, PodFates
from tests.support.conformance.processes import Processes

# Nobody pulls it.
_QUEUE_IMAGE = "knative/queue:none"
_numbers = itertools.count(1)
# "": objects of the whole cluster.
_SHARED = ("", KSERVE_NAMESPACE, KNATIVE_NAMESPACE)


@dataclass(frozen=True)
class Cluster:
    """A running cluster, as its administrator sees it."""

    plane: ControlPlane
    processes: Processes

    @property
    def api(self) -> Api:
        """The API for who may do everything."""
        return self.plane.api(ADMIN)

    def new_namespace(self, labels: Mapping[str, str] | None = None, name: str = "") -> str:
        """Make an empty namespace and return its name."""
        name = name or f"models-{next(_numbers)}"
        self.api.apply(
            {
                "apiVersion": "v1",
                "kind": "Namespace",
                "metadata": {"name": name, "labels": dict(labels or {})},
            }
        )
        return name

    def remove_shared(self, objects: Iterable[Object]) -> None:
        """Delete those of objects that are in no namespace of a test's own: other tests would find them."""
        for one in objects:
            if one["metadata"].get("namespace", "") in _SHARED and one["kind"] != "Namespace":
                self.api.ask("DELETE", self.api.path_of(one))

    def add_service_account(self, namespace: str, name: str) -> None:
        """Make a service account that may do nothing yet."""
        self.plane.add_service_account(namespace, name)

    def token_of(self, namespace: str, service_account: str) -> str:
        """Return a new token of a service account, as a pod gets one."""
        return self.plane.token_of(namespace, service_account)


@dataclass(frozen=True)
class RealCluster(Cluster):
    """A cluster without nodes, and what tests steer in it.

    :param fates: which pods become ready.
    :param kubelet: what runs in pods in truth.
    :param gateway: when routes are taken.
    """

    fates: PodFates
    kubelet: Kubelet
    gateway: Gateway


def start_real_cluster(folder: Path, clean_up: ExitStack) -> RealCluster:
    """Start everything in an order in which each program finds what it looks for once.

    :param folder: gets logs, certificates and data.
    :param clean_up: ends everything that was started, also where the start itself fails.
    """
    processes = Processes(folder / "logs")
    clean_up.callback(processes.stop_all)
    # The path of a Unix socket is short.
    sockets = Path(clean_up.enter_context(tempfile.TemporaryDirectory(prefix="slipway-")))
    plane = start_control_plane(programs_of(build(ETCD), build(KUBE)), processes, folder)
    api = plane.api()
    knative, kserve = build(KNATIVE), build(KSERVE)
    install_knative(knative, api, knative_settings(_QUEUE_IMAGE, INGRESS_CLASS))
    pretend_activator(api)
    start_knative(knative, plane, processes, sockets)
    install_kserve(kserve, api)
    rules = build(MONITORING).manifests[PROMETHEUS_OPERATOR]
    install_custom_resources(api, *sorted(rules.rglob("*.yaml")))
    start_kserve(kserve, plane, processes)
    fates = PodFates()
    kubelet, gateway = Kubelet(plane.api(), fates), Gateway(plane.api())
    for thread in (kubelet, gateway):
        thread.start()
        clean_up.callback(thread.stop)
    return RealCluster(plane, processes, fates, kubelet, gateway)
