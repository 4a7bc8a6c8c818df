"""A staging server over this test's bucket, and the folder in which it sees its repository as files."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from slipway.hooks.s3_store import ModelStoreHook
from slipway.hooks.triton import TritonHook
from slipway_sandbox.services.triton import TritonPorts, TritonServer
from tests.support.release.staged_answers import connect
from tests.support.serving.triton_install import triton_install


@pytest.fixture
def mounted(tmp_path: Path) -> Path:
    """The folder in which the staging server sees its model repository as files."""
    folder = tmp_path / "mounted"
    folder.mkdir()
    return folder


@pytest.fixture
def server(store: ModelStoreHook, tmp_path: Path) -> Iterator[TritonServer]:
    """A staging server over this test's bucket, on which nothing is loaded yet."""
    server = TritonServer(
        triton_install(),
        f"s3://{store.client.meta.endpoint_url}/{store.bucket}/staging",
        TritonPorts.free(),
        mode="explicit",
        environment={
            "AWS_ACCESS_KEY_ID": "slipway-test",
            "AWS_SECRET_ACCESS_KEY": "slipway-test",
            "AWS_DEFAULT_REGION": "us-east-1",
        },
        log_path=tmp_path / "triton.log",
        exit_timeout_s=1,
    )
    store.write("staging/README", b"A folder of the object store is there when something is in it.")
    server.start()
    try:
        server.wait_ready(30)
        yield server
    finally:
        server.stop()


@pytest.fixture
def hook(server: TritonServer, mounted: Path, monkeypatch: pytest.MonkeyPatch) -> TritonHook:
    """The hook on that server, whose connection says where it sees its repository as files."""
    connect(monkeypatch, server, repository_path=str(mounted))
    return TritonHook(timeout_s=60)
