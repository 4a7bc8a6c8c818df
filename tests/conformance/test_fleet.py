"""A fleet behind a real Service: the real controller writes its slices, its servers are real Tritons."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from slipway.fleet import FleetOutcome
from slipway.hooks.s3_store import ModelStoreHook

from include.model_release.errors import ClusterUnavailableError, UserError
from include.model_release.fleet.document import FleetDocument
from tests.support.cluster.emulator import wait_until
from tests.support.conformance.fleet.pods import FleetPods, Led
from tests.support.conformance.fleet.service import (
    LABEL,
    NAME,
    SERVERS,
    FleetService,
    ServiceUsers,
    fleet_pods,
    fleet_service,
)
from tests.support.conformance.kubelet import Fate
from tests.support.conformance.manifests import objects_of
from tests.support.conformance.real_cluster import RealCluster
from tests.support.fleet.servers import POLICY, TritonFleet, write_versions
from tests.support.store.connections import make_bucket, own_connection
from tests.support.store.moto_server import moto_server

pytestmark = pytest.mark.timeout(600)

FENCE = POLICY.model_copy(update={"on_unreachable": "fence"})
# What the controller puts into one slice.
MOST_IN_A_SLICE = 100
LIMIT_S = 60.0


@pytest.fixture
def service(cluster: RealCluster) -> Iterator[FleetService]:
    """A namespace of the test's own; Airflow's account has no rights there yet."""
    with fleet_service(cluster) as made:
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
    wait_until(lambda: service.cluster.api.get(account), "the account of pods that name none")
    for name in names:
        body = {
            "metadata": {"name": name, "labels": template["metadata"]["labels"], **metadata},
            "spec": template["spec"],
        }
        service.cluster.api.must("POST", service.pod_path(), body)


def test_members_are_the_pods_of_all_slices(service: FleetService) -> None:
    """More than a slice holds: each once, one that is not ready among them, one that is ending not; fenced, one is in
    none any more.
    """
    api = service.cluster.api
    service.grant()
    service.deploy(replicas=0)
    (empty,) = wait_until(service.slices, "the slice of a Service without pods")
    assert empty["endpoints"] is None
    assert asyncio.run(service.members.current()) == []
    ready = [f"ready-{number}" for number in range(MOST_IN_A_SLICE)]
    service.cluster.fates.of_pod("waiting", Fate.UNREADY)
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
    service.cluster.api.merge(path, {"spec": {"selector": {LABEL: None}}})
    with pytest.raises(UserError, match="does not select by the label"):
        asyncio.run(service.members.require_fencing())


# --- releases ---


@pytest.fixture
def pods(service: FleetService, tmp_path: Path) -> Iterator[FleetPods]:
    """Three Tritons behind the Service, with nothing loaded."""
    service.grant()
    write_versions(tmp_path / "repository")
    with fleet_pods(service, tmp_path / "repository") as running:
        service.deploy(replicas=3)
        wait_until(lambda: len(service.named()) == 3, "the pods have addresses", LIMIT_S)
        wait_until(
            lambda: all(running.server(one).is_ready() for one in service.named()), "all live", LIMIT_S
        )
        yield running


def bring(
    service: FleetService, pods: FleetPods, store: ModelStoreHook, version: int, run_id: str, **fields: Any
) -> FleetOutcome:
    """Release a version to whoever is behind the Service."""
    given = {"members": Led(service.members, pods), "policy": FENCE, **fields}
    servers = {name: pods.server(name) for name in sorted(service.named())}
    return TritonFleet(servers).bring(store, version, run_id, **given)


def states(outcome: FleetOutcome) -> dict[str, tuple[str, int | None]]:
    """Return what came of it on each server."""
    return {name: (one.state, one.version) for name, one in outcome.servers.items()}


def kept(store: ModelStoreHook) -> FleetDocument:
    """Return what is kept of the fleet."""
    return FleetDocument.from_bytes(store.read("fleets/pair/fleet.json") or b"", "the document")


def test_server_that_hangs_leaves_the_service_and_another_joins(
    service: FleetService, pods: FleetPods, store: ModelStoreHook, capsys: pytest.CaptureFixture[str]
) -> None:
    """A first release makes the pods ready. In the next one a server hangs at the commit: it leaves the slices, the
    Deployment's next pod joins the release, and no user gets the version before again, also when the server goes on.
    """
    assert service.named(ready=True) == set()
    first = bring(service, pods, store, 1, "one")
    assert (first.outcome, first.from_version, first.reasons) == ("committed", None, ())
    wait_until(lambda: len(service.named(ready=True)) == 3, "the version makes the pods ready", LIMIT_S)
    before = service.named()
    hung = min(before)
    members = Led(service.members, pods)
    fence, took_s = members.fence, []

    async def fence_and_wait(name: str, reason: str) -> None:
        began = time.monotonic()
        await fence(name, reason)
        took_s.append(time.monotonic() - began)
        assert name not in service.named()

        def newcomers() -> bool:
            new = service.named() - before
            return bool(new) and all(pods.server(one).is_ready() for one in new)

        await asyncio.to_thread(wait_until, newcomers, "another pod has come", LIMIT_S)

    members.fence = fence_and_wait  # type: ignore[method-assign]
    process = pods.server(hung).process
    assert process is not None
    try:
        with ServiceUsers(service, pods) as users:
            second = bring(
                service,
                pods,
                store,
                2,
                "two",
                members=members,
                permit=lambda: process.send_signal(signal.SIGSTOP),
            )
            committed_s = time.monotonic()
            assert second.outcome == "committed", second.reasons
            (new,) = service.named() - before
            others = dict.fromkeys({*before, new} - {hung}, ("committed", 2))
            assert states(second) == {**others, hung: ("fenced", None)}
            assert set(kept(store).fenced) == {hung}
            wait_until(lambda: new in service.named(ready=True), "the new pod gets requests", LIMIT_S)
            process.send_signal(signal.SIGCONT)
            path = service.pod_path(hung)

            def is_ready_again() -> bool:
                conditions = service.cluster.api.must("GET", path)["status"]["conditions"]
                return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)

            wait_until(is_ready_again, "the server goes on", LIMIT_S)
            resumed_s = time.monotonic()
            wait_until(lambda: sum(users.versions_since(resumed_s).values()) > 30, "more answers", LIMIT_S)
    finally:
        process.send_signal(signal.SIGCONT)
    assert hung not in service.named()
    assert TritonFleet({hung: pods.server(hung)}).served()[hung] is not None
    assert users.failures(but_of=[hung]) == []
    assert set(users.versions_since(committed_s)) == {"2"}
    with capsys.disabled():
        lost = [one for one in users.asked if one.failure]
        print(
            f"\n{len(users.asked)} requests, {len(lost)} failed on the server that hung; fenced after {took_s[0]:.2f} s"
        )
    # Whoever has seen to it deletes the pod; it was replaced already.
    service.cluster.api.must("DELETE", service.pod_path(hung))
    again = bring(service, pods, store, 2, "three")
    assert (again.outcome, again.reasons) == ("committed", ())
    assert set(again.servers) == {*before, new} - {hung}
    assert kept(store).fenced == {}


def test_server_that_may_not_be_fenced_takes_all_back(
    service: FleetService, pods: FleetPods, store: ModelStoreHook
) -> None:
    """The right goes while the release runs: nobody goes on without the server, and the reason names the right."""
    bring(service, pods, store, 1, "one")
    before = service.named()
    hung = min(before)
    process = pods.server(hung).process
    assert process is not None

    def disturb() -> None:
        service.take_rule("pods")
        process.send_signal(signal.SIGSTOP)

    try:
        outcome = bring(service, pods, store, 2, "two", permit=disturb)
    finally:
        process.send_signal(signal.SIGCONT)
    assert outcome.outcome == "taken_back"
    assert any('cannot patch resource "pods"' in one for one in outcome.reasons), outcome.reasons
    assert service.named() == before
    left = kept(store)
    assert (left.version, left.fenced) == (1, {})
    again = bring(service, pods, store, 1, "three", policy=POLICY, is_running=lambda run_id: False)
    assert again.outcome == "committed"
    assert states(again) == dict.fromkeys(before, ("committed", 1))
