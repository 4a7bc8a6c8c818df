"""The command `slipway doctor`, called where everything runs: S3, a queue, the cluster, Tritons, Envoy, the guard."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import boto3
import pytest
import pytest_asyncio
from kubernetes.client import CoreV1Api

from slipway_core.doctor.kserve import CONFIG_MAP, DISALLOWED
from slipway_core.rollout.next_action import FirstDeploy
from slipway_guard.cluster import Cluster, connect
from slipway_guard.heartbeat import Heartbeat
from slipway_sandbox.services.airflow import NEEDED_OPTIONS
from slipway_sandbox.services.triton import TritonPorts, TritonServer
from tests.support.serving.published import GOOD
from tests.support.serving.serving_stack import ServingStack, manifest
from tests.support.serving.triton_install import triton_install
from tests.support.store.connections import aws_connection, triton_connection

pytestmark = [pytest.mark.timeout(600), pytest.mark.asyncio]

ROOT = Path(__file__).resolve().parents[4]
MANIFESTS = ROOT / "include" / "manifests"
LIMIT_S = 300
ALL = ("--write", "--event", "--plant")


@asynccontextmanager
async def staging(folder: Path) -> AsyncIterator[TritonPorts]:
    """A staging server in explicit mode."""
    (folder / "staging").mkdir()
    ports = TritonPorts.free()
    server = TritonServer(
        triton_install(),
        str(folder / "staging"),
        ports,
        mode="explicit",
        log_path=folder / "staging.log",
        exit_timeout_s=1,
    )
    server.start()
    try:
        await asyncio.to_thread(server.wait_ready, 60)
        yield ports
    finally:
        await asyncio.to_thread(server.stop)


@contextmanager
def made_queue(environment: dict[str, str]) -> Iterator[str]:
    """Make bucket settings and queue as the manifests say; yield the queue's URL. The bucket's policy goes again."""
    given = {
        "endpoint_url": environment["AWS_ENDPOINT_URL"],
        "region_name": "us-east-1",
        "aws_access_key_id": "test",
        "aws_secret_access_key": "test",
    }
    s3, sqs = boto3.client("s3", **given), boto3.client("sqs", **given)

    def text_of(name: str) -> Any:
        text = (MANIFESTS / name).read_text(encoding="utf-8")
        named = text.replace("BUCKET", "slipway").replace("ACCOUNT", "123456789012")
        return named.replace("REGION", "us-east-1")

    s3.put_bucket_versioning(Bucket="slipway", VersioningConfiguration={"Status": "Enabled"})
    lifecycle = json.loads(text_of("bucket/lifecycle.json"))
    s3.put_bucket_lifecycle_configuration(Bucket="slipway", LifecycleConfiguration=lifecycle)
    s3.put_bucket_policy(Bucket="slipway", Policy=text_of("bucket/policy.json"))
    sqs.create_queue(QueueName="slipway-intake-dead-letters")
    url = sqs.create_queue(QueueName="slipway-intake", Attributes=json.loads(text_of("queue/queue.json")))
    s3.put_bucket_notification_configuration(
        Bucket="slipway", NotificationConfiguration=json.loads(text_of("queue/notification.json"))
    )
    try:
        yield str(url["QueueUrl"])
    finally:
        s3.delete_bucket_policy(Bucket="slipway")


@pytest.fixture
def queue_url(published_bucket: dict[str, str]) -> Iterator[str]:
    """The queue that the bucket tells."""
    with made_queue(published_bucket) as url:
        yield url


@pytest_asyncio.fixture
async def environment(
    serving_stack: ServingStack, published_bucket: dict[str, str], queue_url: str, tmp_path: Path
) -> AsyncIterator[dict[str, str]]:
    """What a worker's environment holds, with a model that is live and a guard that looks."""
    service = manifest(GOOD)
    service["metadata"]["annotations"] = {"serving.kserve.io/deploymentMode": "Knative"}
    await serving_stack.reach(FirstDeploy(service))
    guard = Heartbeat(Cluster(connect(str(serving_stack.emulator.kubeconfig)), ("models",)))
    guard.beat()
    guard.finish(30.0)
    config = {
        "storageInitializer": {"image": "kserve/storage-initializer:v0.20.0"},
        "inferenceService": {"serviceAnnotationDisallowedList": list(DISALLOWED)},
    }
    data = {key: json.dumps(value) for key, value in config.items()}
    namespace, name = CONFIG_MAP
    CoreV1Api(serving_stack.emulator.api_client()).patch_namespaced_config_map(
        name, namespace, {"data": data}
    )
    releases = tmp_path / "releases"
    releases.mkdir()
    (releases / "table.yaml").write_text(
        "model: table\nsource: {format: onnx}\nrollout: {namespace: models}\n", encoding="utf-8"
    )
    options = {
        f"AIRFLOW__{section}__{option}".upper(): value
        for section, given in NEEDED_OPTIONS.items()
        for option, value in given.items()
    }
    http = {"conn_type": "http", "host": "127.0.0.1", "schema": "http"}
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("AIRFLOW", "SLIPWAY"))}
    async with staging(tmp_path) as ports:
        yield {
            **kept,
            **options,
            "AIRFLOW__API__BASE_URL": "",
            "AIRFLOW_CONN_AWS_DEFAULT": aws_connection(published_bucket["AWS_ENDPOINT_URL"]),
            "AIRFLOW_CONN_KUBERNETES_DEFAULT": os.environ["AIRFLOW_CONN_KUBERNETES_DEFAULT"],
            "AIRFLOW_CONN_TRITON_STAGING": triton_connection(ports.http, ports.grpc),
            "AIRFLOW_CONN_SLIPWAY_METRICS": json.dumps({**http, "port": serving_stack.envoy.admin_port}),
            "AIRFLOW_CONN_SLIPWAY_INGRESS": json.dumps({**http, "port": serving_stack.envoy.ingress_port}),
            "AIRFLOW_VAR_SLIPWAY_BUCKET": "slipway",
            "SLIPWAY_INTAKE_QUEUE_URL": queue_url,
            "SLIPWAY_RELEASES_DIR": str(releases),
            "PYTHONPATH": f"{ROOT / 'plugins'}:{ROOT / 'include'}",
            "NO_COLOR": "1",
        }


def call(environment: dict[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    """Call the command."""
    return subprocess.run(
        [sys.executable, "-m", "slipway.cli.main", "doctor", *arguments],
        env=environment,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )


async def test_a_whole_installation_is_examined(
    serving_stack: ServingStack, environment: dict[str, str]
) -> None:
    """With all that may be asked for nothing has failed; unknown are the images alone, which no node has pulled."""
    with serving_stack.load() as load:
        await serving_stack.until(lambda: load.answers["http 2"] > 20, "answers")
        done = await asyncio.to_thread(call, environment, *ALL, "-o", "json")
    report = json.loads(done.stdout)
    unwell = {(line["examination"], line["status"]) for line in report["lines"]} - {
        (line["examination"], "ok") for line in report["lines"]
    }
    assert unwell == {
        ("connections", "skipped"),
        ("clocks", "skipped"),
        ("images", "unknown"),
    }
    assert (done.returncode, report["exit_code"]) == (2, 2)
    assert "ok       rights: pods in default" in done.stderr
    assert "unknown" in done.stderr.splitlines()[-1]


async def test_one_examination_that_has_failed_is_the_exit_code(environment: dict[str, str]) -> None:
    """The line has the command that mends it."""
    del environment["AIRFLOW_CONN_TRITON_STAGING"]
    done = await asyncio.to_thread(call, environment, "--only", "connections")
    assert done.returncode == 1
    assert "FAILED   connections: connection triton_staging: there is none" in done.stdout
    assert "mend:     airflow connections add triton_staging" in done.stdout
