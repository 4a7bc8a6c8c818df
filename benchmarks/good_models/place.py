"""Where the releases happen: an object store and a staging server of this run's own."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from benchmarks.processes import CREDENTIALS, s3_client
from benchmarks.publishing.measure import object_store
from slipway_sandbox.host.images import build_image
from slipway_sandbox.host.ports import LOOPBACK
from slipway_sandbox.services.triton import TritonPorts, TritonServer
from slipway_sandbox.services.triton_install import TritonInstall

BUCKET = "good-models"
_READY_LIMIT_S = 120


@contextmanager
def staging(folder: Path) -> Iterator[Mapping[str, str]]:
    """Give the environment in which Airflow's operators reach the store and an empty staging server.

    :param folder: for Airflow's files and the server's log.
    """
    with object_store() as endpoint:
        store = s3_client(endpoint)
        store.create_bucket(Bucket=BUCKET)
        store.put_object(
            Bucket=BUCKET, Key="staging/README", Body=b"a folder is there when something is in it"
        )
        server = TritonServer(
            TritonInstall.prepare(venv=build_image("triton", report=lambda *_: None)),
            f"s3://{endpoint}/{BUCKET}/staging",
            TritonPorts.free(),
            mode="explicit",
            environment=CREDENTIALS,
            log_path=folder / "staging.log",
            exit_timeout_s=3,
        )
        server.start()
        try:
            server.wait_ready(_READY_LIMIT_S)
            yield _environment(endpoint, server.ports, folder / "airflow")
        finally:
            server.stop(grace_s=1)


def _environment(endpoint: str, ports: TritonPorts, home: Path) -> dict[str, str]:
    aws = {
        "conn_type": "aws",
        "login": CREDENTIALS["AWS_ACCESS_KEY_ID"],
        "password": CREDENTIALS["AWS_SECRET_ACCESS_KEY"],
        "extra": {"endpoint_url": endpoint, "region_name": CREDENTIALS["AWS_DEFAULT_REGION"]},
    }
    triton = {
        "conn_type": "generic",
        "host": LOOPBACK,
        "port": ports.http,
        "extra": {"grpc_port": ports.grpc},
    }
    return {
        **CREDENTIALS,
        "AWS_ENDPOINT_URL": endpoint,
        "AIRFLOW_HOME": str(home),
        "AIRFLOW_CONN_AWS_DEFAULT": json.dumps(aws),
        "AIRFLOW_CONN_TRITON_STAGING": json.dumps(triton),
    }
