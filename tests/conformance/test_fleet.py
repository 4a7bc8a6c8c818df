"""A fleet behind a real Service: the real controller writes its slices, its servers are real Tritons."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from slipway.hooks.s3_store import ModelStoreHook
from slipway_core.errors import ClusterUnavailableError, UserError
from tests.support.conformance.fleet.pods import FleetPods, fleet_pods
from tests.support.conformance.fleet.service import (
    LABEL,
    NAME,
    SERVERS,
    FleetService,
    fleet_service,
)
from tests.support.conformance.fleet.story import (
    LIMIT_S,
    bring,
    hung_server_is_replaced,
    kept,
    states,
    wait_for_pods,
)
from tests.support.conformance.kubelet import Fate
from tests.support.conformance.manifests import objects_of
from tests.support.conformance.real_cluster import RealCluster
from tests.support.fleet.servers import POLICY, write_versions
from tests.support.store.connections import make_bucket, own_connection
from tests.support.store.moto_server import moto_server
from tests.support.waiting import wait_until

pytestmark = pytest.mark.timeout(600)

# What the controller puts into one slice.
MOST_IN_A_SLICE = 100
# Four looks of three seconds each, and what a busy machine takes for the rest.
HUNG_LIMIT_S = 30.0


@pytest.fixture
def service(cluster: RealCluster) -> Iterator[FleetService]:
    """A namespace of the test's own; Airflow's account has no rights there yet."""
    with fleet_service(cluster.plane, cluster.new_namespace()) as made:
        yield made


@pytest.fixture
def store() -> Iterator[ModelStoreHook]:
    """A bucket."""
    with moto_server() as endpoint, own_connection(endpoint) as conn_id:
        yield ModelStoreHook(make_bucket(endpoint, "fleet"), conn_id)


# --- who is a member ---


def add_pods(service: FleetService, names: list[str], **metadata: Any) -> None:
    """Make pods as the manifest's Deployment would."""
    (template,) = [
        one["spec"]["template"]
        for one in objects_of(SERVERS, service.namespace)
        if one["kind"] == "Deployment"
    ]
    account = f"/api/v1/namespaces/{service.namespace}/serviceaccounts/default"
    wait_until(lambda: service.api.get(account), "the account of pods that name none")
    for name in names:
        body = {
            "metadata": {"name": name, "labels": template["metadata"]["labels"], **metadata},
            "spec": template["spec"],
        }
        service.api.must("POST", service.pod_path(), body)


def test_members_are_the_pods_of_all_slices(cluster: RealCluster, service: FleetService) -> None:
    """More than a slice holds: each once, one that is not ready among them, one that is ending not; fenced, one is in
    none any more.
    """
    api = service.api
    service.grant()
    service.deploy(replicas=0)
    (empty,) = wait_until(service.slices, "the slice of a Service without pods")
    assert empty["endpoints"] is None
    assert asyncio.run(service.members.current()) == []
    ready = [f"ready-{number}" for number in range(MOST_IN_A_SLICE)]
    cluster.fates.of_pod("waiting", Fate.UNREADY)
    add_pods(service, [*ready, "waiting"])
    # Nobody who asks for its end is heard before its finalizer is gone.
    add_pods(service, ["ending"], finalizers=["slipway.dev/test"])
    wait_until(lambda: service.named(ready=True) == {*ready, "ending"}, "all are ready", LIMIT_S)
    api.must("DELETE", service.pod_path("ending"))
    try:
        wait_until(lambda: any(one.is_ending for one in service.endpoints()), "one is ending", LIMIT_S)
        assert len(service.slices()) > 1
        members = {one.name: one for one in asyncio.run(service.members.current())}
        assert set(members) == {*ready, "waiting"}
        assert {name for name, one in members.items() if not one.is_ready} == {"waiting"}
        addresses = {one.pod: one.address for one in service.endpoints()}
        for name, one in members.items():
            assert one.settings.http_address == f"{addresses[name]}:8000"
            assert one.settings.grpc_address == f"{addresses[name]}:8001"
        asyncio.run(service.members.fence("ready-7", "no answer"))
        assert "ready-7" not in service.named()
        assert api.must("GET", service.pod_path("ready-7"))["metadata"]["labels"][LABEL] == "false"
    finally:
        api.merge(service.pod_path("ending"), {"metadata": {"finalizers": None}})


# --- rights ---


def test_without_a_right_it_is_said_which(service: FleetService) -> None:
    """The account has what the Role gives and nothing else; each right that is missing is named."""
    service.deploy(replicas=1)
    pod = str(min(wait_until(service.named, "a pod", LIMIT_S)))
    with pytest.raises(ClusterUnavailableError, match='cannot list resource "endpointslices"'):
        asyncio.run(service.members.current())
    with pytest.raises(ClusterUnavailableError, match='cannot get resource "services"'):
        asyncio.run(service.members.require_fencing())
    service.grant()
    assert [one.name for one in asyncio.run(service.members.current())] == [pod]
    asyncio.run(service.members.require_fencing())
    service.take_rule("pods")
    with pytest.raises(UserError, match="the right to patch pods"):
        asyncio.run(service.members.require_fencing())
    with pytest.raises(ClusterUnavailableError, match='cannot patch resource "pods"'):
        asyncio.run(service.members.fence(pod, "no answer"))
    assert service.named() == {pod}


def test_service_without_the_label_in_its_selector_fences_nobody(service: FleetService) -> None:
    """The label would change nothing; neither would one on pods of a Service that is not there."""
    service.grant()
    with pytest.raises(UserError, match="has no Service"):
        asyncio.run(service.members.require_fencing())
    service.deploy(replicas=0)
    path = f"/api/v1/namespaces/{service.namespace}/services/{NAME}"
    service.api.merge(path, {"spec": {"selector": {LABEL: None}}})
    with pytest.raises(UserError, match="does not select by the label"):
        asyncio.run(service.members.require_fencing())


# --- releases ---


@pytest.fixture
def pods(cluster: RealCluster, service: FleetService, tmp_path: Path) -> Iterator[FleetPods]:
    """Three Tritons behind the Service, with nothing loaded."""
    service.grant()
    write_versions(tmp_path / "repository")
    with fleet_pods(cluster, service, tmp_path / "repository") as running:
        service.deploy(replicas=3)
        wait_for_pods(running, 3)
        yield running


def first_release(pods: FleetPods, store: ModelStoreHook) -> set[str]:
    """Bring version 1 to all pods; return them."""
    outcome = bring(pods, store, 1, "one")
    assert outcome.outcome == "committed", outcome.reasons
    return pods.service.named()


def test_server_that_hangs_leaves_the_service_and_another_joins(
    pods: FleetPods, store: ModelStoreHook, capsys: pytest.CaptureFixture[str]
) -> None:
    """No user gets the version before again, also when the server goes on; the next pod joins the same release."""
    told = hung_server_is_replaced(pods, store)
    with capsys.disabled():
        print(f"\n{told}")


def test_pod_that_is_deleted_does_not_count_and_its_successor_joins(
    service: FleetService, pods: FleetPods, store: ModelStoreHook
) -> None:
    """In the middle of a release, as when its node is drained: nobody waits for the one, the other gets the version."""
    before = first_release(pods, store)
    deleted = min(before)

    @cache  # it is asked more than once
    def drain_node() -> None:
        service.api.must("DELETE", service.pod_path(deleted))

        wait_until(lambda: deleted not in service.named(), "the pod is gone", LIMIT_S)
        wait_for_pods(pods, 3)

    outcome = bring(pods, store, 2, "two", permit=drain_node, policy=POLICY)
    assert outcome.outcome == "committed", outcome.reasons
    assert states(outcome) == dict.fromkeys(service.named(), ("committed", 2))
    assert deleted not in outcome.servers


def test_api_that_hangs_does_not_hold_up_a_commit(
    cluster: RealCluster,
    service: FleetService,
    pods: FleetPods,
    store: ModelStoreHook,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """From the commit on the servers that are known are enough."""
    first_release(pods, store)
    processes = cluster.processes
    began_s: list[float] = []

    @cache  # it is asked more than once
    def hang() -> None:
        processes.pause("kube-apiserver")
        began_s.append(time.monotonic())

    try:
        outcome = bring(pods, store, 2, "two", permit=hang)
        took_s = time.monotonic() - began_s[0]
    finally:
        processes.resume("kube-apiserver")
    assert outcome.outcome == "committed", outcome.reasons
    assert states(outcome) == dict.fromkeys(service.named(), ("committed", 2))
    assert took_s < HUNG_LIMIT_S
    with capsys.disabled():
        print(f"\nthe API hangs: {took_s:.1f} s from the permission to the end")


def test_server_that_may_not_be_fenced_takes_all_back(
    service: FleetService, pods: FleetPods, store: ModelStoreHook
) -> None:
    """The right goes while the release runs: nobody goes on without the server, and the reason names the right."""
    before = first_release(pods, store)
    hung = min(before)

    @cache  # it is asked more than once
    def disturb() -> None:
        service.take_rule("pods")
        pods.signal(hung, signal.SIGSTOP)

    try:
        outcome = bring(pods, store, 2, "two", permit=disturb)
    finally:
        pods.signal(hung, signal.SIGCONT)
    assert outcome.outcome == "taken_back"
    assert any('cannot patch resource "pods"' in one for one in outcome.reasons), outcome.reasons
    assert service.named() == before
    left = kept(store)
    assert (left.version, left.fenced) == (1, {})
    again = bring(pods, store, 1, "three", policy=POLICY, is_running=lambda run_id: False)
    assert again.outcome == "committed"
    assert states(again) == dict.fromkeys(before, ("committed", 1))
