"""A release's pods as containers on a real node: kubelet and containerd below a real control plane.

The operators are the project's own, over KubernetesPodOperator as it is. S3 is moto's, the staging server a real
tritonserver; both are on this machine, where pods reach them at their bridge.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException
from moto.server import ThreadedMotoServer

from slipway.hooks.s3_store import ModelStoreHook
from slipway.operators.benchmark import BenchmarkModelOperator
from slipway.operators.convert import ConvertModelOperator
from slipway.operators.smoke_test.run import RunSmokeTestOperator
from slipway.operators.staging import Staging
from slipway.operators.validate import ValidateModelOperator
from slipway.registry.registry import ModelRegistry
from slipway.release_record.record import ReleaseRecord
from slipway_core.errors import TransientError
from slipway_sandbox.host.ports import LOOPBACK
from slipway_sandbox.host.settings import PROJECT_ROOT
from slipway_sandbox.services.object_store import make_conditional_writes_atomic
from tests.support.conformance.control_plane import ADMIN
from tests.support.containers.engine import Engine, NoEngineError, containers_dir
from tests.support.containers.ledger import Ledger
from tests.support.containers.node.enclosure import BRIDGE, GATEWAY, enclosure
from tests.support.containers.node.engine_images import EngineImages
from tests.support.containers.node.node_cluster import NodeCluster, node_cluster, require_programs, versions
from tests.support.containers.node.node_release import (
    NAMESPACE,
    carry_out,
    landed,
    laying_out,
    prepare_namespace,
    run_pod,
    scored_release,
)
from tests.support.containers.node.processes import LIMIT_S, Process, sibling_processes
from tests.support.containers.node.relay import Relay
from tests.support.release.release_steps import Release, staging_server
from tests.support.store.connections import aws_connection, make_bucket
from tests.support.waiting import wait_until

# Where images are built first, a download of theirs may take long.
pytestmark = pytest.mark.timeout(1800)

IMAGES = ("onnx", "perf-analyzer", "score", "smoke-test", "verify")
# Keeps a pod's last status readable, as a Job's controller does.
FINALIZER = "slipway.dev/read-first"
PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
# The first process, a shell, and two that outlive it.
ENCLOSED = """
import subprocess, sys
from tests.support.containers.node.enclosure import enclosure
with enclosure() as made:
    subprocess.Popen(made.command("sh", "-c", "sleep 600 & setsid sleep 600 & wait"))
    print(made.pid, flush=True)
    sys.stdin.read()
"""
Note = Callable[[str, str], None]


@pytest.fixture(scope="module", autouse=True)
def programs() -> None:
    """Begin nothing where something is missing."""
    try:
        require_programs()
    except NoEngineError as error:
        pytest.exit(str(error), returncode=3)


@pytest.fixture(scope="module")
def cluster(
    programs: None, engine: Engine, build: Callable[[str], str], ledger: Ledger
) -> Iterator[NodeCluster]:
    """The node, with the images that a release of an ONNX model needs."""
    try:
        images = {build(name): f"docker.io/slipway/{name}:0.1.0" for name in IMAGES}
        began = time.monotonic()
        with node_cluster(containers_dir() / "node", EngineImages(engine, images).give) as running:
            ledger.notes.append(versions())
            ledger.notes.append(f"the node is ready after {time.monotonic() - began:.0f} s")
            yield running
    except NoEngineError as error:
        pytest.exit(str(error), returncode=3)


@pytest.fixture(scope="module")
def s3(cluster: NodeCluster) -> Iterator[tuple[str, Relay]]:
    """The address of an S3 on loopback, and the way to it that the pods have."""
    make_conditional_writes_atomic()
    server = ThreadedMotoServer(LOOPBACK, 0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    relay = cluster.relay(port)
    prepare_namespace(cluster, relay.address)
    yield f"http://{host}:{port}", relay
    server.stop()


@pytest.fixture
def way_to_s3(s3: tuple[str, Relay]) -> Iterator[Relay]:
    """What can make the pods' S3 hang."""
    yield s3[1]
    s3[1].resume()


@pytest.fixture(scope="module")
def store(cluster: NodeCluster, s3: tuple[str, Relay]) -> Iterator[ModelStoreHook]:
    """The hook on an empty bucket, and Airflow's connections to S3 and to the cluster."""
    endpoint, _ = s3
    extra = {"kube_config_path": str(cluster.plane.kubeconfig(ADMIN)), "namespace": NAMESPACE}
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("AIRFLOW_CONN_AWS_DEFAULT", aws_connection(endpoint))
        environment.setenv(
            "AIRFLOW_CONN_KUBERNETES_DEFAULT", json.dumps({"conn_type": "kubernetes", "extra": extra})
        )
        yield ModelStoreHook(make_bucket(endpoint, "slipway"))


def converting(release: Release) -> ConvertModelOperator:
    """The task that converts, as the DAG has it."""
    return ConvertModelOperator(
        task_id="convert", release=release.rendered, namespace=NAMESPACE, deferrable=True, poll_interval=1
    )


@contextmanager
def staged(
    cluster: NodeCluster,
    store: ModelStoreHook,
    release: Release,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Staging]:
    """A published version on a staging server, which this machine and the pods reach by the same address."""
    with staging_server(store, folder) as hook:
        staging = release.stage()
        ways = [cluster.relay(int(one.rpartition(":")[2])) for one in (hook.http_address, hook.grpc_address)]
        there = {"conn_type": "generic", "host": GATEWAY, "port": ways[0].port}
        there["extra"] = {"grpc_port": ways[1].port}
        monkeypatch.setenv("AIRFLOW_CONN_TRITON_STAGING", json.dumps(there))
        yield staging


def the_pod(cluster: NodeCluster) -> dict[str, Any]:
    """The one pod that there is."""
    (pod,) = cluster.api.items(PODS)
    return pod


def running_container(cluster: NodeCluster) -> str:
    """The id of the one pod's container; empty while it has not begun."""
    found = the_pod(cluster)["status"].get("containerStatuses", [])
    return next((one["containerID"] for one in found if "running" in one["state"]), "")


def all_gone(cluster: NodeCluster) -> None:
    """Wait until no pod is left: the operators take theirs away."""
    wait_until(lambda: not cluster.api.items(PODS), "the pod is gone", LIMIT_S)


def stages(store: ModelStoreHook, release: Release) -> dict[str, str]:
    """How each stage of a release ended, by its record."""
    run = release.release_run
    state = ReleaseRecord(store, run.model, run.version, run.release_id).state()
    return {stage.name: stage.outcome for stage in state.stages}


def test_nothing_runs_on_when_the_lane_is_killed() -> None:
    """Its processes end with it, orphans and sessions of their own too; the next run removes its bridge."""
    lane = subprocess.Popen(
        [sys.executable, "-c", ENCLOSED], cwd=PROJECT_ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert lane.stdout is not None
    first = int(lane.stdout.readline())
    inside = wait_until(
        lambda: (found := sibling_processes(first))[3:] and found, "all processes are there", LIMIT_S
    )
    lane.kill()
    lane.wait()
    wait_until(lambda: not any(one.is_running() for one in inside), "no process is left", LIMIT_S)
    bridge = Path("/sys/class/net") / BRIDGE
    assert bridge.exists()
    with enclosure():
        assert bridge.exists()
    assert not bridge.exists()


def test_a_converter_runs_as_a_container_without_any_right(
    cluster: NodeCluster, store: ModelStoreHook, way_to_s3: Relay, ran: Note
) -> None:
    """Its process is user 10001 without a capability, on a read-only root; the conversion passes."""
    release, seen = landed(store, "rights"), []

    def look() -> None:
        wait_until(way_to_s3.is_waited_for.is_set, "the converter asks S3", LIMIT_S)
        (container,) = the_pod(cluster)["status"]["containerStatuses"]
        seen.append(Process.of(cluster, container["containerID"]))
        way_to_s3.resume()

    way_to_s3.hang()
    began = time.monotonic()
    carry_out(partial(converting, release), look)
    (process,) = seen
    status = process.status
    assert status["Uid"].split() == status["Gid"].split() == ["10001"] * 4
    assert (int(status["CapEff"], 16), int(status["CapBnd"], 16)) == (0, 0)
    assert (status["NoNewPrivs"], status["Seccomp"]) == ("1", "2")
    assert "ro" in process.root.split(",")
    assert stages(store, release) == {"convert": "passed"}
    all_gone(cluster)
    ran("onnx", f"looked at from outside while it converted ({time.monotonic() - began:.0f} s)")


def test_a_version_is_converted_published_laid_out_and_measured(
    cluster: NodeCluster,
    store: ModelStoreHook,
    ledger: Ledger,
    ran: Note,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The release's pods up to the benchmark are containers: converter, storage initializer, load generator."""
    release, began = landed(store, "tabular"), time.monotonic()
    carry_out(partial(converting, release))
    manifest = release.publish()
    assert "tabular/1/model.onnx" in manifest.files
    told = run_pod(cluster, laying_out(release))
    assert re.search(r"tabular/1/model\.onnx \d+", told), told
    with staged(cluster, store, release, tmp_path, monkeypatch) as staging:
        carry_out(
            lambda: BenchmarkModelOperator(
                task_id="benchmark",
                release=release.rendered,
                staging=staging.model_dump_json(),
                namespace=NAMESPACE,
                deferrable=True,
                poll_interval=1,
            )
        )
    assert stages(store, release)["benchmark"] == "passed"
    all_gone(cluster)
    seconds = time.monotonic() - began
    ledger.notes.append(f"converted, published, laid out, staged and measured in {seconds:.0f} s")
    for name, what in (
        ("onnx", "a release's conversion"),
        ("verify", "init container of a pod"),
        ("perf-analyzer", "a release's benchmark on a tritonserver"),
    ):
        ran(name, what)


def test_a_version_is_tried_on_a_server_of_its_own_and_scored(
    cluster: NodeCluster, store: ModelStoreHook, ran: Note, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The smoke test's pod runs a tritonserver without any right; the scorer's pod gives the figure that decides."""
    release, seen = scored_release(store, "scored", tmp_path), []
    carry_out(partial(converting, release))
    release.publish()
    _, digest = ModelRegistry(store).require_with_digest("scored", 1)

    def look() -> None:
        container = wait_until(lambda: running_container(cluster), "the pod runs", LIMIT_S)
        seen.append(Process.of(cluster, container))

    began = time.monotonic()
    carry_out(
        lambda: RunSmokeTestOperator(
            task_id="smoke_test",
            release=release.rendered,
            manifest_sha256=digest,
            namespace=NAMESPACE,
            deferrable=True,
            poll_interval=1,
        ),
        look,
    )
    tried_s = time.monotonic() - began
    evidence = store.read_json(f"{release.release_run.evidence_prefix}smoke_test.json")
    assert evidence["verdict"]["status"] == "pass", evidence["verdict"]
    assert seen[0].status["Uid"].split() == ["10001"] * 4
    all_gone(cluster)
    with staged(cluster, store, release, tmp_path, monkeypatch) as staging:
        began = time.monotonic()
        carry_out(
            lambda: ValidateModelOperator(
                task_id="validate",
                release=release.rendered,
                staging=staging.model_dump_json(),
                namespace=NAMESPACE,
                deferrable=True,
                poll_interval=1,
            )
        )
    report = store.read_json(f"{release.release_run.evidence_prefix}validation.json")
    assert report["numbers"]["sums_to_one"] == 1.0
    found = stages(store, release)
    assert (found["smoke_test"], found["validate"]) == ("passed", "passed")
    all_gone(cluster)
    ran("smoke-test", f"a release's smoke test, tritonserver in the pod ({tried_s:.0f} s)")
    ran("score", f"a release's scorer ({time.monotonic() - began:.0f} s)")


def test_a_pod_that_is_killed_for_its_memory_says_so(
    cluster: NodeCluster, store: ModelStoreHook, ran: Note
) -> None:
    """The kernel kills it at its limit; the task fails without retries and names the limit and where to raise it."""
    release = landed(store, "hungry", "resources: {memory: 40Mi}")
    with pytest.raises(AirflowFailException, match="was killed because it used too much memory") as failed:
        carry_out(partial(converting, release))
    assert "resources.memory: 40Mi" in str(failed.value)
    assert "OOMKilled" in str(failed.value)
    assert stages(store, release) == {"convert": "failed"}
    all_gone(cluster)
    ran("onnx", "OOMKilled with 40Mi, explained")


@pytest.mark.parametrize("is_kept", [True, False], ids=["kept", "gone"])
def test_a_pod_whose_node_is_drained_is_run_again(
    cluster: NodeCluster, store: ModelStoreHook, way_to_s3: Relay, ran: Note, is_kept: bool
) -> None:
    """A pod that is evicted by the API is nobody's fault: the task is tried again, and passes.

    The reason is told as long as the API still has the pod; otherwise it ended without a result, and no more is known.
    """
    release, paths = landed(store, f"drained-{'kept' if is_kept else 'gone'}"), []

    def drain() -> None:
        wait_until(way_to_s3.is_waited_for.is_set, "the converter asks S3", LIMIT_S)
        pod = the_pod(cluster)["metadata"]
        paths.append(f"{PODS}/{pod['name']}")
        if is_kept:
            cluster.api.merge(paths[0], {"metadata": {"finalizers": [FINALIZER]}})
        metadata = {name: pod[name] for name in ("name", "namespace")}
        eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": metadata}
        cluster.api.must("POST", f"{paths[0]}/eviction", eviction)
        if not is_kept:
            all_gone(cluster)

    way_to_s3.hang()
    with pytest.raises(TransientError, match="ended without a result") as failed:
        carry_out(partial(converting, release), drain)
    if is_kept:
        assert "EvictionByEvictionAPI" in str(failed.value)
        cluster.api.merge(paths[0], {"metadata": {"finalizers": None}})
    all_gone(cluster)
    way_to_s3.resume()
    carry_out(partial(converting, release))
    assert stages(store, release) == {"convert": "passed"}
    all_gone(cluster)
    ran("onnx", f"evicted by the API, {'explained, ' if is_kept else ''}run again")


def test_a_pod_that_is_evicted_for_its_disk_says_so(
    cluster: NodeCluster, store: ModelStoreHook, way_to_s3: Relay, ran: Note
) -> None:
    """The kubelet ends a pod that writes more than its volume may hold; the message names the key to raise."""
    release = landed(store, "large", "scratch_size: 2Mi", padding_bytes=16_000_000)
    way_to_s3.hang(after_bytes=8_000_000)
    began = time.monotonic()
    with pytest.raises(AirflowFailException, match="was evicted because it used too much disk") as failed:
        carry_out(partial(converting, release))
    assert 'volume "scratch" exceeds the limit "2Mi"' in str(failed.value)
    assert stages(store, release) == {"convert": "failed"}
    all_gone(cluster)
    seconds = time.monotonic() - began
    ran("onnx", f"evicted by the kubelet for its volume after {seconds:.0f} s, explained")
