"""The S3 connection: what botocore knows of a service is read once per process, and by nobody whom it was read for."""

from __future__ import annotations

import json
import os
from pathlib import Path

import botocore.loaders
import pytest

from slipway.hooks import s3_connection
from slipway.hooks.s3_connection import S3Connection, read_descriptions_ahead

KEYS = "aws://key:secret@/?region_name=eu-central-1"


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing was read before, and a connection is there."""
    s3_connection._loader.cache_clear()
    monkeypatch.setenv("AIRFLOW_CONN_STORE", KEYS)


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Which descriptions were read from their files."""
    files: list[str] = []
    load = botocore.loaders.JSONFileLoader.load_file

    def watched(loader: botocore.loaders.JSONFileLoader, file_path: str) -> object:
        if (found := load(loader, file_path)) is not None:
            files.append(file_path)
        return found

    monkeypatch.setattr(botocore.loaders.JSONFileLoader, "load_file", watched)
    return files


def _client() -> object:
    client = S3Connection(aws_conn_id="store").get_client_type()
    client.get_paginator("list_objects_v2")
    return client


def test_second_client_reads_no_description(read: list[str]) -> None:
    first = _client()
    assert read
    read.clear()
    assert _client() is not first
    assert read == []


def test_nothing_is_left_to_read_for_who_comes_after(read: list[str]) -> None:
    """What the scheduler has read before it forks, its tasks need not read."""
    read_descriptions_ahead()
    assert read
    read.clear()
    _client()
    assert read == []


def test_reading_ahead_asks_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    """It looks for no credentials either, which on a machine in the cloud would be a request."""
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)

    def refuse(*_: object) -> None:
        pytest.fail("a connection was opened")

    monkeypatch.setattr("socket.socket.connect", refuse)
    read_descriptions_ahead()


def test_descriptions_of_ones_own_are_found(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """`AWS_DATA_PATH` may name a newer description of a service, as for any boto3 client."""
    _client()
    folder = tmp_path / "s3" / "2099-01-01"
    folder.mkdir(parents=True)
    for name in ("service-2", "endpoint-rule-set-1"):
        description = botocore.loaders.create_loader().load_service_model("s3", name)
        if name == "service-2":
            description["metadata"]["apiVersion"] = folder.name
        (folder / f"{name}.json").write_text(json.dumps(description))
    monkeypatch.setenv("AWS_DATA_PATH", str(tmp_path))
    client = S3Connection(aws_conn_id="store").get_client_type()
    assert client.meta.service_model.api_version == folder.name


def test_an_asynchronous_session_is_the_providers_own() -> None:
    """It is of another kind, and has one reading of the descriptions already."""
    session = S3Connection(aws_conn_id="store").get_session(deferrable=True)
    assert session.get_component("data_loader") is not s3_connection._loader(None)
