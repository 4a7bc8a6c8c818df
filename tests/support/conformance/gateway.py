"""What no program of the lane does: a Gateway's and an ingress's controller. Tests say when they work, and if at all.

A KIngress or an HTTPRoute that is *taken* is one whose status says that it is served, by generation. Users are led by
what was taken last.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

from slipway_core.errors import SlipwayError
from tests.support.conformance.api import MERGE_PATCH, Api, Object

log = logging.getLogger(__name__)

_LOOK_EVERY_S = 0.1
_CONTROLLER = "conformance.slipway.dev/by-hand"
_INGRESSES = "/apis/networking.internal.knative.dev/v1alpha1"
_ROUTES = "/apis/gateway.networking.k8s.io/v1"
_REVISION_HEADER = "Knative-Serving-Revision"


@dataclass
class GatewayBehaviour:
    """How the gateway treats one namespace."""

    lag_s: float = 0.0
    is_dead: bool = False
    # Leads users in truth: percent by revision. What it cannot do yet is not taken yet.
    lead: Callable[[Mapping[str, int]], None] | None = None
    # By name: percent by revision of the KIngress that was taken last.
    served: dict[str, dict[str, int]] = field(default_factory=dict)


class Gateway(threading.Thread):
    """Takes HTTPRoutes and KIngresses: at once, late, or never."""

    def __init__(self, api: Api) -> None:
        super().__init__(name="gateway-by-hand", daemon=True)
        self._api = api
        self._stop_wanted = threading.Event()
        self._behaviour: dict[str, GatewayBehaviour] = {}
        self._first_seen_s: dict[tuple[str, int], float] = {}

    def of(self, namespace: str) -> GatewayBehaviour:
        """Return how it treats a namespace; what is changed there counts from the next look on."""
        return self._behaviour.setdefault(namespace, GatewayBehaviour())

    def run(self) -> None:
        """Look at all routes, again and again."""
        while not self._stop_wanted.wait(_LOOK_EVERY_S):
            try:
                for ingress in self._api.items(f"{_INGRESSES}/ingresses"):
                    self._take_ingress(ingress)
                for route in self._api.items(f"{_ROUTES}/httproutes"):
                    self._take_route(route)
            except Exception:  # the thread must outlive whatever it is: tests would wait for its routes
                log.exception("the routes could not be looked at")

    def stop(self) -> None:
        """End the thread."""
        self._stop_wanted.set()
        self.join()

    def _is_due(self, metadata: Object) -> bool:
        now_s, behaviour = time.monotonic(), self.of(metadata["namespace"])
        first_s = self._first_seen_s.setdefault((metadata["uid"], metadata["generation"]), now_s)
        return not behaviour.is_dead and now_s - first_s >= behaviour.lag_s

    def _take_ingress(self, ingress: Object) -> None:
        metadata, status = ingress["metadata"], ingress.get("status", {})
        is_taken = (
            status.get("observedGeneration") == metadata["generation"] and "publicLoadBalancer" in status
        )
        if is_taken or not self._is_due(metadata):
            return
        balancer = {"ingress": [{"domainInternal": "gateway.knative-serving.svc.cluster.local"}]}
        taken = {
            "observedGeneration": metadata["generation"],
            "publicLoadBalancer": balancer,
            "privateLoadBalancer": balancer,
            "conditions": [
                {"type": kind, "status": "True", "lastTransitionTime": _now()}
                for kind in ("LoadBalancerReady", "NetworkConfigured", "Ready")
            ],
        }
        path = f"{_INGRESSES}/namespaces/{metadata['namespace']}/ingresses/{metadata['name']}/status"
        # Led first, said then: whoever believes the status must find it true.
        behaviour, shares = self.of(metadata["namespace"]), shares_of(ingress)
        if behaviour.lead is not None:
            try:
                behaviour.lead(shares)
            except (LookupError, SlipwayError) as error:
                log.warning("users cannot be led to %s yet: %s", shares, error)
                return
        behaviour.served[metadata["name"]] = shares
        self._api.ask("PATCH", path, {"status": taken}, content=MERGE_PATCH)

    def _take_route(self, route: Object) -> None:
        metadata, generation = route["metadata"], route["metadata"]["generation"]
        said = [
            condition.get("observedGeneration")
            for parent in route.get("status", {}).get("parents", [])
            for condition in parent.get("conditions", [])
        ]
        if (said and set(said) == {generation}) or not self._is_due(metadata):
            return
        conditions = [
            {
                "type": kind,
                "status": "True",
                "reason": kind,
                "message": "",
                "observedGeneration": generation,
                "lastTransitionTime": _now(),
            }
            for kind in ("Accepted", "ResolvedRefs")
        ]
        parents = [
            {"parentRef": parent, "controllerName": _CONTROLLER, "conditions": conditions}
            for parent in route["spec"]["parentRefs"]
        ]
        path = f"{_ROUTES}/namespaces/{metadata['namespace']}/httproutes/{metadata['name']}/status"
        self._api.ask("PATCH", path, {"status": {"parents": parents}}, content=MERGE_PATCH)


def shares_of(ingress: Object) -> dict[str, int]:
    """Return the percent of users by revision that a KIngress asks for; hosts of tags lead no users."""
    own_host = f"{ingress['metadata']['name']}.{ingress['metadata']['namespace']}"
    shares: dict[str, int] = {}
    for rule in ingress["spec"].get("rules", []):
        if any(host == own_host or host.startswith(f"{own_host}.") for host in rule["hosts"]):
            shares = {}
            for path in rule["http"]["paths"]:
                for split in path["splits"]:
                    revision = split.get("appendHeaders", {}).get(_REVISION_HEADER) or split["serviceName"]
                    shares[revision] = shares.get(revision, 0) + split["percent"]
    return shares


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
