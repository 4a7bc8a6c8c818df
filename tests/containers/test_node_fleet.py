"""A fleet on a real node: scheduler, kubelet, containerd and the real controller of EndpointSlices.

Each server has an address of its own, is asked by its probes, and is started anew by the kubelet where it ends.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from slipway.hooks.s3_store import ModelStoreHook
from tests.support.conformance.fleet.service import FleetService, fleet_service
from tests.support.conformance.fleet.story import (
    LIMIT_S,
    bring,
    hung_server_is_replaced,
    states,
    wait_for_pods,
)
from tests.support.containers.engine import Engine, NoEngineError, containers_dir
from tests.support.containers.ledger import Ledger
from tests.support.containers.node.engine_images import EngineImages
from tests.support.containers.node.fleet_pods import NodePods
from tests.support.containers.node.node_cluster import NodeCluster, node_cluster, versions
from tests.support.store.connections import make_bucket, own_connection
from tests.support.store.moto_server import moto_server
from tests.support.waiting import wait_until

pytestmark = pytest.mark.timeout(600)

NAMESPACE = "serving"


@pytest.fixture
def cluster(engine: Engine, ledger: Ledger) -> Iterator[NodeCluster]:
    """The node, with no image but the one that holds a pod's namespaces."""
    try:
        began = time.monotonic()
        with node_cluster(containers_dir() / "node", EngineImages(engine).give) as running:
            ledger.notes.append(versions())
            ledger.notes.append(f"the node is ready after {time.monotonic() - began:.0f} s")
            yield running
    except NoEngineError as error:
        pytest.exit(str(error), returncode=3)


@pytest.fixture
def service(cluster: NodeCluster) -> Iterator[FleetService]:
    """A namespace in which Airflow's account has the rights of the Role."""
    cluster.api.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
    with fleet_service(cluster.plane, NAMESPACE) as made:
        made.grant()
        yield made


@pytest.fixture
def pods(cluster: NodeCluster, service: FleetService, tmp_path: Path) -> NodePods:
    """Three containers with nothing loaded."""
    made = NodePods(cluster, service, tmp_path)
    service.deploy(3, made.run_triton)
    return made


@pytest.fixture
def store() -> Iterator[ModelStoreHook]:
    """A bucket."""
    with moto_server() as endpoint, own_connection(endpoint) as conn_id:
        yield ModelStoreHook(make_bucket(endpoint, "fleet"), conn_id)


def test_fleet_of_containers(pods: NodePods, store: ModelStoreHook, ledger: Ledger) -> None:
    """A server that hangs is replaced; one that dies is started anew by the kubelet, gets no request while it has no
    model, and is brought to the version by the next release of it.
    """
    ledger.notes.append(hung_server_is_replaced(pods, store))
    service = pods.service
    members = wait_for_pods(pods, 3)
    wait_until(lambda: service.named(ready=True) == members, "all get requests", LIMIT_S)
    dead = min(members)
    pods.signal(dead, signal.SIGKILL)

    def is_started_anew() -> bool:
        (status,) = service.api.must("GET", service.pod_path(dead))["status"]["containerStatuses"]
        return status["restartCount"] == 1 and "running" in status["state"] and pods.lives(dead)

    wait_until(is_started_anew, "the kubelet starts it anew", LIMIT_S)
    assert service.named(ready=True) == members - {dead}
    assert service.named() == members
    outcome = bring(pods, store, 2, "four")
    assert outcome.outcome == "committed", outcome.reasons
    assert states(outcome) == dict.fromkeys(members, ("committed", 2))
    wait_until(lambda: service.named(ready=True) == members, "it gets requests again", LIMIT_S)
