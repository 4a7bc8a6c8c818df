"""The servers behind a Kubernetes Service."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from slipway.fleet import service_members
from slipway.fleet.service_members import ServicePods, endpoints_of
from slipway_core.errors import ClusterUnavailableError, TimedOutError, UserError
from slipway_core.fleet.fleet_file import FENCE_LABEL, ServiceMembers
from tests.support.triton_provider.servers import typed_connection


def endpoint(name: str, address: str, **conditions: bool) -> dict[str, Any]:
    """Return an endpoint as Kubernetes writes it."""
    return {
        "addresses": [address],
        "conditions": conditions,
        "nodeName": "node",
        "targetRef": {"kind": "Pod", "name": name, "namespace": "serving", "uid": f"uid-{name}"},
    }


def a_slice(*endpoints: dict[str, Any], family: str = "IPv4") -> dict[str, Any]:
    """Return a slice as Kubernetes writes it; one without endpoints has null in their place, and no ports."""
    ports = [
        {"name": name, "port": port, "protocol": "TCP"} for name, port in (("grpc", 8001), ("http", 8000))
    ]
    return {
        "addressType": family,
        "endpoints": list(endpoints) or None,
        "ports": ports if endpoints else None,
    }


READY = {"ready": True, "serving": True, "terminating": False}
WAITING = {"ready": False, "serving": False, "terminating": False}
ENDING = {"ready": False, "serving": True, "terminating": True}
SLICES: list[dict[str, Any]] = [
    a_slice(endpoint("pod-a", "10.0.0.1", **READY), endpoint("pod-b", "10.0.0.2", **WAITING)),
    a_slice(endpoint("pod-c", "10.0.0.3", **ENDING)),
    # Kubernetes may name a pod in two slices while it moves it, and people write slices without pods.
    a_slice(endpoint("pod-a", "10.0.0.1"), {"addresses": ["10.0.0.9"], "conditions": {}}),
    a_slice(),
]


class Cluster:
    """The objects that are asked for; what is changed is kept, and a pod that is fenced leaves the slices late.

    :param may: whether pods may be labelled.
    :param stays_for: so many looks at the slices after a pod was labelled still show it.
    """

    def __init__(self, selector: Mapping[str, str] | None, *, may: bool = True, stays_for: float = 2) -> None:
        self._selector, self._may, self._stays_for = selector, may, stays_for
        self.labelled: list[tuple[str, str, dict[str, str]]] = []
        self.looks = 0

    def list(self, kind: Any, namespace: str, *, label_selector: str) -> Any:
        """Return the slices of the Service."""
        assert (kind.plural, namespace) == ("endpointslices", "serving")
        assert label_selector == "kubernetes.io/service-name=triton"
        self.looks += 1
        if self.looks == 1 and self.labelled:
            raise ClusterUnavailableError("the API restarts")
        if not self.labelled or self.looks <= self._stays_for:
            return SimpleNamespace(items=SLICES)
        gone = {name for _, name, _ in self.labelled}
        return SimpleNamespace(items=[_without(gone, one) for one in SLICES])

    def service_selector(self, namespace: str, name: str) -> Mapping[str, str] | None:
        """Return the labels by which the Service selects."""
        assert (namespace, name) == ("serving", "triton")
        return self._selector

    def may(self, verb: str, plural: str, namespace: str) -> bool:
        """Return whether pods may be labelled."""
        assert (verb, plural, namespace) == ("patch", "pods", "serving")
        return self._may

    def label_pod(self, namespace: str, name: str, labels: dict[str, str]) -> bool:
        """Keep what was set."""
        self.labelled.append((namespace, name, labels))
        return True


def _without(names: set[str], one: dict[str, Any]) -> dict[str, Any]:
    left: Sequence[dict[str, Any]] = [
        each for each in one["endpoints"] or () if each.get("targetRef", {}).get("name") not in names
    ]
    return {**one, "endpoints": left or None}


@pytest.fixture
def pods(monkeypatch: pytest.MonkeyPatch) -> ServicePods:
    """The pods behind a Service; the connection has a token."""
    connection = typed_connection(1, token="secret", metrics_port=8002, host="unused")
    monkeypatch.setenv("AIRFLOW_CONN_TRITON_FLEET", connection)
    return ServicePods(ServiceMembers(name="triton", namespace="serving", http_port=9000, grpc_port=9001))


def on(pods: ServicePods, cluster: Cluster) -> Cluster:
    """Have the pods be looked up in a cluster."""
    pods._hook.__dict__["objects"] = cluster
    return cluster


def test_pods_that_are_not_ready_yet_are_members_too() -> None:
    """Each pod once; one that is ending is none, one that does not say is ready."""
    assert endpoints_of(SLICES) == [
        ("pod-a", "10.0.0.1", True),
        ("pod-b", "10.0.0.2", False),
        ("10.0.0.9", "10.0.0.9", True),
    ]


def test_pod_with_two_addresses_is_asked_at_the_same_one_always() -> None:
    """A Service with two families has slices of both, in any order; one of names is none of a pod's."""
    six = a_slice(endpoint("pod-a", "fd00::1", **READY), family="IPv6")
    four = a_slice(endpoint("pod-a", "10.0.0.1", **READY))
    named = a_slice({"addresses": ["triton.example"], "conditions": {}}, family="FQDN")
    assert endpoints_of([six, four, named]) == endpoints_of([four, six]) == [("pod-a", "10.0.0.1", True)]
    assert endpoints_of([six]) == [("pod-a", "fd00::1", True)]


def test_pod_that_ends_is_none_though_an_old_slice_shows_it_ready() -> None:
    """While a pod moves between slices one of them may be behind."""
    old, new = (a_slice(endpoint("pod-a", "10.0.0.1", **one)) for one in (READY, ENDING))
    assert endpoints_of([old, new]) == endpoints_of([new, old]) == []


def test_each_pod_is_asked_at_its_own_address(pods: ServicePods, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the connection's token and the Service's ports."""
    on(pods, Cluster({}))
    with monkeypatch.context() as patched:
        patched.setitem(SLICES[3], "endpoints", [endpoint("pod-d", "fd00::4", **READY)])
        patched.setitem(SLICES[3], "addressType", "IPv6")
        members = {one.name: one for one in asyncio.run(pods.current())}
    first, last = members["pod-a"].settings, members["pod-d"].settings
    assert (first.http_address, first.grpc_address) == ("10.0.0.1:9000", "10.0.0.1:9001")
    assert (first.control, first.inference) == ("grpc", "grpc")
    assert first.metrics_address == "10.0.0.1:8002"
    assert first.headers == {"Authorization": "Bearer secret"}
    assert last.http_address == "[fd00::4]:9000"
    assert members["pod-b"].is_ready is False


def test_fenced_pod_is_waited_for_until_no_slice_names_it(pods: ServicePods) -> None:
    """Its label changes, by which the Service finds it; the slices follow later, and a look that fails is repeated."""
    cluster = on(pods, Cluster({"app": "triton", FENCE_LABEL: "true"}))
    asyncio.run(pods.fence("pod-b", "no answer"))
    assert cluster.labelled == [("serving", "pod-b", {FENCE_LABEL: "false"})]
    assert cluster.looks == 3


def test_pod_that_does_not_leave_the_service_is_not_fenced(
    pods: ServicePods, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the slices name it to the end, that is said: users may be sent to it."""
    monkeypatch.setattr(service_members, "_LEAVE_LIMIT_S", 0.5)
    on(pods, Cluster({FENCE_LABEL: "true"}, stays_for=float("inf")))
    began = time.monotonic()
    with pytest.raises(TimedOutError, match="'pod-b' has not left the Service 'triton'"):
        asyncio.run(pods.fence("pod-b", "no answer"))
    assert time.monotonic() - began < 10


def test_pod_is_not_fenced_by_a_label_that_changes_nothing(pods: ServicePods) -> None:
    """A Service that does not select by the label would go on to send it requests: that is said instead."""
    cluster = on(pods, Cluster({"app": "triton"}))
    for asked in (pods.fence("pod-b", "no answer"), pods.require_fencing()):
        with pytest.raises(UserError, match="does not select by the label"):
            asyncio.run(asked)
    assert cluster.labelled == []


def test_service_that_is_not_there_is_said_so(pods: ServicePods) -> None:
    """Its name in the fleet's file is wrong, or the namespace is."""
    on(pods, Cluster(None))
    with pytest.raises(UserError, match="'serving' has no Service 'triton'"):
        asyncio.run(pods.require_fencing())


def test_right_to_fence_is_asked_for_beforehand(pods: ServicePods) -> None:
    """Whoever may not label pods learns that before a server is away; nothing is changed by it."""
    cluster = on(pods, Cluster({FENCE_LABEL: "true"}))
    asyncio.run(pods.require_fencing())
    assert cluster.labelled == []
    on(pods, Cluster({FENCE_LABEL: "true"}, may=False))
    with pytest.raises(UserError, match="the right to patch pods in the namespace 'serving'"):
        asyncio.run(pods.require_fencing())
