"""Version 1 of a model, released and live on a real tritonserver over a real S3 protocol; an emulated cluster."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from slipway.hooks.s3_store import ModelStoreHook
from slipway.hooks.triton import TritonHook
from slipway_sandbox.host.ports import LOOPBACK
from slipway_sandbox.services.triton import TritonServer
from tests.support.cluster.emulator import Emulator
from tests.support.release.revalidation_run import (
    RELEASE_FILE,
    LiveService,
    RevalidationRun,
    live_server,
    load,
    promoted,
    publish,
)


@pytest.fixture(scope="module")
def emulator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Emulator]:
    """An emulated cluster with the namespace `models`, and no controller in it."""
    one = Emulator(tmp_path_factory.mktemp("cluster"), namespaces=["models"])
    one.start()
    yield one
    one.kill()


@pytest.fixture
def service(
    emulator: Emulator, store: ModelStoreHook, monkeypatch: pytest.MonkeyPatch
) -> Iterator[LiveService]:
    """The model's InferenceService, which is not there yet."""
    connection = {"conn_type": "kubernetes", "extra": {"kube_config_path": str(emulator.kubeconfig)}}
    monkeypatch.setenv("AIRFLOW_CONN_KUBERNETES_DEFAULT", json.dumps(connection))
    one = LiveService(emulator, store.bucket)
    yield one
    one.clear()


@pytest.fixture
def run(store: ModelStoreHook, service: LiveService, tmp_path: Path) -> RevalidationRun:
    """Runs of the workflow over one release file."""
    folder = tmp_path / "releases"
    folder.mkdir()
    (folder / "rent.yaml").write_text(RELEASE_FILE, encoding="utf-8")
    return RevalidationRun(store, folder)


@pytest.fixture
def server(store: ModelStoreHook, tmp_path: Path, service: LiveService) -> Iterator[TritonServer]:
    """Version 1, published and promoted, is live; nobody has kept its answers."""
    publish(store, 1, slope=2.01)
    promoted(store, 1)
    with live_server(store, 1, tmp_path) as one:
        load(one)
        service.serve(1, f"http://{LOOPBACK}:{one.ports.http}")
        yield one


@pytest.fixture
def released(
    store: ModelStoreHook, hook: TritonHook, tmp_path: Path, service: LiveService
) -> Iterator[TritonServer]:
    """Version 1 has gone through staging, where its answers were kept, and is live."""
    release = publish(store, 1, slope=2.01)
    release.prepare().load().validate()
    promoted(store, 1)
    with live_server(store, 1, tmp_path) as one:
        load(one)
        service.serve(1, f"http://{LOOPBACK}:{one.ports.http}")
        yield one
