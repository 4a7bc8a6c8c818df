"""Airflow connections to servers on loopback, and buckets."""

from __future__ import annotations

import functools
import itertools
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from slipway_sandbox.host.ports import LOOPBACK

CREDENTIALS = {"login": "slipway-test", "password": "slipway-test"}


def aws_connection(endpoint: str) -> str:
    """Return an Airflow connection of type aws, as JSON, whose endpoint is `endpoint`."""
    extra = {"endpoint_url": endpoint, "region_name": "us-east-1"}
    return json.dumps({"conn_type": "aws", **CREDENTIALS, "extra": extra})


_numbers = itertools.count(1)


@contextmanager
def own_connection(endpoint: str) -> Iterator[str]:
    """Yield the id of a connection of type aws to `endpoint`, beside the one that tests change."""
    conn_id = f"slipway_tests_{next(_numbers)}"
    os.environ[f"AIRFLOW_CONN_{conn_id.upper()}"] = aws_connection(endpoint)
    try:
        yield conn_id
    finally:
        del os.environ[f"AIRFLOW_CONN_{conn_id.upper()}"]


def triton_connection(http_port: int, grpc_port: int) -> str:
    """Return an Airflow connection, as JSON, of a Triton on loopback."""
    extra = {"grpc_port": grpc_port}
    return json.dumps({"conn_type": "generic", "host": LOOPBACK, "port": http_port, "extra": extra})


def make_bucket(endpoint: str, name: str) -> str:
    """Make an empty bucket and return its name."""
    _client(endpoint).create_bucket(Bucket=name)
    return name


def list_buckets(endpoint: str) -> bool:
    """Tell whether a server answers who has the right keys."""
    try:
        _client(endpoint).list_buckets()
    except (BotoCoreError, ClientError):
        return False
    return True


@functools.cache
def _client(endpoint: str) -> Any:
    """A client of one server for all buckets: to make one takes ten times as long as to make a bucket."""
    return boto3.client(
        "s3",
        endpoint_url=endpoint,
        region_name="us-east-1",
        aws_access_key_id=CREDENTIALS["login"],
        aws_secret_access_key=CREDENTIALS["password"],
        config=Config(retries={"max_attempts": 1}),
    )
