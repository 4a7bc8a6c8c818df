"""The servers behind a Kubernetes Service."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pytest
from slipway.fleet.service_members import ServicePods, endpoints_of

from include.model_release.errors import UserError
from include.model_release.fleet.fleet_file import FENCE_LABEL, ServiceMembers
from tests.support.triton_hook.servers import typed_connection


def endpoint(name: str, address: str, **conditions: bool) -> dict[str, Any]:
    """Return an endpoint as Kubernetes writes it."""
    return {"addresses": [address], "conditions": conditions, "targetRef": {"kind": "Pod", "name": name}}


SLICES: list[dict[str, Any]] = [
    {
        "endpoints": [
            endpoint("pod-a", "10.0.0.1", ready=True, serving=True, terminating=False),
            endpoint("pod-b", "10.0.0.2", ready=False, serving=False, terminating=False),
            endpoint("pod-c", "10.0.0.3", ready=False, serving=True, terminating=True),
        ]
    },
    {"endpoints": [endpoint("pod-a", "10.0.0.1"), {"addresses": ["fd00::4"], "conditions": {}}]},
    {"endpoints": None},
]


class Cluster:
    """The objects that are asked for; what is changed is kept."""

    def __init__(self, selector: Mapping[str, str]) -> None:
        self._selector = selector
        self.labelled: list[tuple[str, str, dict[str, str]]] = []

    def list(self, kind: Any, namespace: str, *, label_selector: str) -> Any:
        """Return the slices of the Service."""
        assert (kind.plural, namespace) == ("endpointslices", "serving")
        assert label_selector == "kubernetes.io/service-name=triton"
        return SimpleNamespace(items=SLICES)

    def service_selector(self, namespace: str, name: str) -> Mapping[str, str]:
        """Return the labels by which the Service selects."""
        assert (namespace, name) == ("serving", "triton")
        return self._selector

    def label_pod(self, namespace: str, name: str, labels: dict[str, str]) -> bool:
        """Keep what was set."""
        self.labelled.append((namespace, name, labels))
        return True


@pytest.fixture
def pods(monkeypatch: pytest.MonkeyPatch) -> ServicePods:
    """The pods behind a Service; the connection has a token."""
    connection = typed_connection(1, token="secret", metrics_port=8002, host="unused")
    monkeypatch.setenv("AIRFLOW_CONN_TRITON_FLEET", connection)
    return ServicePods(ServiceMembers(name="triton", namespace="serving", http_port=9000, grpc_port=9001))


def on(pods: ServicePods, selector: Mapping[str, str]) -> Cluster:
    """Have the pods be looked up in a cluster."""
    cluster = Cluster(selector)
    pods._hook.__dict__["objects"] = cluster
    return cluster


def test_pods_that_are_not_ready_yet_are_members_too() -> None:
    """Each pod once; one that is ending is none, one that does not say is ready."""
    assert endpoints_of(SLICES) == [
        ("pod-a", "10.0.0.1", True),
        ("pod-b", "10.0.0.2", False),
        ("fd00::4", "fd00::4", True),
    ]


def test_each_pod_is_asked_at_its_own_address(pods: ServicePods) -> None:
    """With the connection's token and the Service's ports."""
    on(pods, {})
    members = {one.name: one for one in asyncio.run(pods.current())}
    first, last = members["pod-a"].settings, members["fd00::4"].settings
    assert (first.http_address, first.grpc_address) == ("10.0.0.1:9000", "10.0.0.1:9001")
    assert first.metrics_address == "10.0.0.1:8002"
    assert first.headers == {"Authorization": "Bearer secret"}
    assert last.http_address == "[fd00::4]:9000"
    assert members["pod-b"].is_ready is False


def test_fenced_pod_is_not_selected_any_more(pods: ServicePods) -> None:
    """Its label changes, by which the Service finds it."""
    cluster = on(pods, {"app": "triton", FENCE_LABEL: "true"})
    asyncio.run(pods.fence("pod-b", "no answer"))
    assert cluster.labelled == [("serving", "pod-b", {FENCE_LABEL: "false"})]


def test_pod_is_not_fenced_by_a_label_that_changes_nothing(pods: ServicePods) -> None:
    """A Service that does not select by the label would go on to send it requests: that is said instead."""
    cluster = on(pods, {"app": "triton"})
    with pytest.raises(UserError, match="does not select by the label"):
        asyncio.run(pods.fence("pod-b", "no answer"))
    assert cluster.labelled == []
