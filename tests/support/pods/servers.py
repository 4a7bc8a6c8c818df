"""What pods talk to while a test lasts: an S3 on loopback, and a tritonserver with small models."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import boto3

from slipway_sandbox.services.triton import TritonPorts, TritonServer
from tests.support.pods.support import BUCKET, ObjectStore
from tests.support.serving.triton_install import triton_install
from tests.support.store.moto_server import moto_server

MODELS = Path(__file__).parent / "models"


@contextmanager
def running_store() -> Iterator[ObjectStore]:
    """An S3 with an empty bucket."""
    with moto_server() as endpoint:
        client = boto3.client(
            "s3",
            endpoint_url=endpoint,
            region_name="us-east-1",
            aws_access_key_id="testing",
            aws_secret_access_key="testing",
        )
        client.create_bucket(Bucket=BUCKET)
        yield ObjectStore(endpoint, client)


@contextmanager
def running_models(home: Path) -> Iterator[TritonServer]:
    """A tritonserver with the models beside this file, all on the Python backend."""
    repository = home / "models"
    for source in sorted(MODELS.iterdir()):
        version = repository / source.name / "1"
        version.mkdir(parents=True)
        (version / "model.py").write_text((source / "model.py").read_text())
        (repository / source.name / "config.pbtxt").write_text((source / "config.pbtxt").read_text())
    log = home / "triton.log"
    server = TritonServer(triton_install(), repository, TritonPorts.free(), log_path=log, exit_timeout_s=2)
    server.start()
    try:
        server.wait_ready(120)
        yield server
    finally:
        server.stop()
