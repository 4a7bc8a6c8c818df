"""Slipway's variable and connections from one of Airflow's secrets backends, in a process that has no others."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest

from tests.support.store.connections import CREDENTIALS, make_bucket
from tests.support.store.moto_server import moto_server

pytestmark = pytest.mark.timeout(600)

BUCKET = "slipway-secrets-backends"
TRITON = {"conn_type": "triton", "host": "triton.example", "port": 8000, "extra": {"grpc_port": 8001}}
# What the pages read from, and what an operator asks a server by.
PROGRAM = """
import json
from airflow.sdk import BaseHook
from slipway.web.sources import sources

found = sources()
triton = BaseHook.get_connection("triton_staging")
print(json.dumps({"bucket": found.store.bucket, "there": found.store.exists("here"),
                  "triton": [triton.host, triton.port, triton.extra_dejson]}))
"""


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    """moto's S3 and Secrets Manager, with one object in the bucket."""
    with moto_server() as one:
        make_bucket(one, BUCKET)
        _client("s3", one).put_object(Bucket=BUCKET, Key="here", Body=b"x")
        yield one


def test_the_file_of_a_local_backend(endpoint: str, tmp_path: Path) -> None:
    """Variables and connections as files, such as a mounted Secret of Kubernetes."""
    variables, connections = tmp_path / "variables.json", tmp_path / "connections.json"
    variables.write_text(json.dumps({"slipway_bucket": BUCKET}))
    connections.write_text(json.dumps({"aws_default": _aws(endpoint), "triton_staging": TRITON}))
    files = {"variables_file_path": str(variables), "connections_file_path": str(connections)}
    _expect(_read("airflow.secrets.local_filesystem.LocalFilesystemBackend", files, tmp_path, {}))


def test_aws_secrets_manager(endpoint: str, tmp_path: Path) -> None:
    """Each a secret of its own, below Airflow's prefixes; the backend's own access is the process's (here moto)."""
    secrets = _client("secretsmanager", endpoint)
    for name, value in {
        "airflow/variables/slipway_bucket": BUCKET,
        "airflow/connections/aws_default": json.dumps(_aws(endpoint)),
        "airflow/connections/triton_staging": json.dumps(TRITON),
    }.items():
        secrets.create_secret(Name=name, SecretString=value)
    own = {
        "AWS_ENDPOINT_URL": endpoint,
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_ACCESS_KEY_ID": CREDENTIALS["login"],
        "AWS_SECRET_ACCESS_KEY": CREDENTIALS["password"],
    }
    backend = "airflow.providers.amazon.aws.secrets.secrets_manager.SecretsManagerBackend"
    _expect(_read(backend, {"extra_conn_words": {}}, tmp_path, own))


def _aws(endpoint: str) -> dict[str, object]:
    extra = {"endpoint_url": endpoint, "region_name": "us-east-1"}
    return {"conn_type": "aws", **CREDENTIALS, "extra": extra}


def _client(service: str, endpoint: str) -> Any:
    return boto3.client(
        service,
        endpoint_url=endpoint,
        region_name="us-east-1",
        aws_access_key_id=CREDENTIALS["login"],
        aws_secret_access_key=CREDENTIALS["password"],
    )


def _read(
    backend: str, options: dict[str, object], home: Path, environment: dict[str, str]
) -> dict[str, object]:
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("AIRFLOW_CONN_", "AIRFLOW_VAR_", "AWS_"))
    }
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env={
            **kept,
            **environment,
            "AIRFLOW__SECRETS__BACKEND": backend,
            "AIRFLOW__SECRETS__BACKEND_KWARGS": json.dumps(options),
            "PYTHONPATH": os.pathsep.join(sys.path),
        },
        cwd=home,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    found: dict[str, object] = json.loads(done.stdout.strip().splitlines()[-1])
    return found


def _expect(found: dict[str, object]) -> None:
    assert found == {"bucket": BUCKET, "there": True, "triton": ["triton.example", 8000, {"grpc_port": 8001}]}
