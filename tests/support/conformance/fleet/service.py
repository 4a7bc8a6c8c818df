"""The Service of `include/manifests/fleet/`, whose EndpointSlices the real controller writes, and its users."""

from __future__ import annotations

import itertools
import json
import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import requests

from slipway.fleet.context import members_of
from slipway.fleet.members import Members
from slipway_core.fleet.fleet_file import FleetFile, ServiceMembers
from tests.support.conformance.api import Object
from tests.support.conformance.control_plane import ControlPlane
from tests.support.conformance.manifests import FOLDER, objects_of
from tests.support.conformance.rights import AIRFLOW
from tests.support.fleet.servers import MODEL
from tests.support.triton_provider.servers import typed_connection

RBAC = FOLDER / "fleet" / "rbac.yaml"
SERVERS = FOLDER / "fleet" / "servers.yaml"
NAME = "triton"
LABEL = "slipway.dev/serving"
_PODS_TRITON = "conformance_fleet"
_ANSWER_LIMIT_S = 1.0
# The model that the manifest's probe names.
_DOCUMENTED_MODEL = "digits"


@dataclass(frozen=True)
class Endpoint:
    """A pod as a slice names it."""

    pod: str
    address: str
    is_ready: bool
    is_ending: bool


class FleetService:
    """A namespace in which Airflow's account has the rights of `rbac.yaml`.

    :param namespace: its name.
    """

    def __init__(self, plane: ControlPlane, namespace: str) -> None:
        self.plane = plane
        self.api = plane.api()
        self.namespace = namespace
        plane.add_service_account(namespace, AIRFLOW)
        kubeconfig = plane.kubeconfig(f"airflow-{namespace}", plane.token_of(namespace, AIRFLOW))
        connection = {"conn_type": "kubernetes", "extra": {"kube_config_path": str(kubeconfig)}}
        self._connection_id = f"conformance_fleet_{namespace.replace('-', '_')}"
        os.environ[f"AIRFLOW_CONN_{self._connection_id.upper()}"] = json.dumps(connection)

    def grant(self) -> None:
        """Give Airflow's account the rights."""
        for manifest in objects_of(RBAC, self.namespace):
            self.api.apply(manifest)

    def take_rule(self, resource: str) -> None:
        """Take a rule out of the Role."""
        path = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{self.namespace}/roles/slipway-fleet"
        rules = self.api.must("GET", path)["rules"]
        self.api.merge(path, {"rules": [one for one in rules if resource not in one["resources"]]})

    def deploy(self, replicas: int, run: Callable[[Object], None] = lambda spec: None) -> None:
        """Apply the manifest of Service and Deployment.

        :param run: changes the pods' spec.
        """
        for one in objects_of(SERVERS, self.namespace):
            manifest = json.loads(json.dumps(one).replace(_DOCUMENTED_MODEL, MODEL))
            if manifest["kind"] == "Deployment":
                manifest["spec"]["replicas"] = replicas
                run(manifest["spec"]["template"]["spec"])
            self.api.apply(manifest)

    @property
    def members(self) -> Members:
        """The members as a fleet's file has them."""
        service = ServiceMembers(
            name=NAME,
            namespace=self.namespace,
            triton_conn_id=_PODS_TRITON,
            kubernetes_conn_id=self._connection_id,
        )
        return members_of(FleetFile(fleet="pair", model=MODEL, service=service))

    def slices(self) -> list[Object]:
        """Return the Service's slices."""
        path = f"/apis/discovery.k8s.io/v1/namespaces/{self.namespace}/endpointslices"
        return self.api.items(f"{path}?labelSelector=kubernetes.io/service-name={NAME}")

    def endpoints(self) -> list[Endpoint]:
        """Return what the slices name, in their order, each time that they name it."""
        return [
            Endpoint(
                one["targetRef"]["name"],
                one["addresses"][0],
                one["conditions"]["ready"],
                one["conditions"]["terminating"],
            )
            for each in self.slices()
            for one in each["endpoints"] or ()
        ]

    def named(self, *, ready: bool | None = None) -> set[str]:
        """Return the pods that the slices name.

        :param ready: those that are, or are not; None: all.
        """
        return {one.pod for one in self.endpoints() if ready in (None, one.is_ready)}

    def pod_path(self, pod: str = "") -> str:
        """Return where a pod lies."""
        return f"/api/v1/namespaces/{self.namespace}/pods/{pod}".removesuffix("/")

    def close(self) -> None:
        """Give the namespace back."""
        os.environ.pop(f"AIRFLOW_CONN_{self._connection_id.upper()}", None)
        self.api.ask("DELETE", f"/api/v1/namespaces/{self.namespace}")


@contextmanager
def fleet_service(plane: ControlPlane, namespace: str) -> Iterator[FleetService]:
    """Have an empty namespace for one test; Airflow's account has no rights there yet."""
    os.environ[f"AIRFLOW_CONN_{_PODS_TRITON.upper()}"] = typed_connection(1, host="unused")
    service = FleetService(plane, namespace)
    try:
        yield service
    finally:
        service.close()
        del os.environ[f"AIRFLOW_CONN_{_PODS_TRITON.upper()}"]


@dataclass(frozen=True)
class Answered:
    """One request of a user.

    :param at_s: when it was sent, on the monotonic clock.
    :param version: by the answer's own word; "": there was none.
    """

    at_s: float
    pod: str
    version: str
    failure: str = ""


class ServiceUsers(threading.Thread):
    """Asks the ready pods of the slices in turn, as a node's proxy leads new connections, without a pause.

    :param led: returns where it is that an address and port lead.
    """

    def __init__(self, service: FleetService, led: Callable[[str], str] = lambda address: address) -> None:
        super().__init__(name="users-of-the-service", daemon=True)
        self._service, self._led = service, led
        self._ended = threading.Event()
        self.asked: list[Answered] = []

    def run(self) -> None:
        """Ask until the end."""
        for number in itertools.count():
            if self._ended.is_set():
                return
            ready = sorted(
                (one for one in self._service.endpoints() if one.is_ready), key=lambda one: one.pod
            )
            if ready:
                self._ask(ready[number % len(ready)])

    def _ask(self, endpoint: Endpoint) -> None:
        body = {"inputs": [{"name": "x", "shape": [1, 2], "datatype": "FP32", "data": [1, 2]}]}
        at_s, url = time.monotonic(), f"/v2/models/{MODEL}/infer"
        try:
            address = self._led(f"{endpoint.address}:8000")
            answer = requests.post(f"http://{address}{url}", json=body, timeout=_ANSWER_LIMIT_S)
            answer.raise_for_status()
            asked = Answered(at_s, endpoint.pod, answer.json()["model_version"])
        except (requests.RequestException, LookupError) as error:
            asked = Answered(at_s, endpoint.pod, "", f"{type(error).__name__}: {error}")
        self.asked.append(asked)

    def failures(self, but_of: Sequence[str] = ()) -> list[Answered]:
        """Return the requests that failed, those to some pods not counted."""
        return [one for one in self.asked if one.failure and one.pod not in but_of]

    def versions_since(self, at_s: float) -> Counter[str]:
        """Return how many answers each version has given to what was sent since."""
        return Counter(one.version for one in tuple(self.asked) if one.at_s >= at_s and one.version)

    def __enter__(self) -> ServiceUsers:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self.join()
