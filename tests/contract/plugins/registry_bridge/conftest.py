"""A real MLflow server, a release file that names a registered model of it, and an emulated cluster."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from slipway.hooks.s3_store import ModelStoreHook
from tests.support.cluster.emulator import Emulator
from tests.support.registry.mlflow_server import MlflowServer, running_mlflow
from tests.support.registry.registry_steps import Bridge

_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def mlflow(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MlflowServer]:
    """The server."""
    with running_mlflow(tmp_path_factory.mktemp("mlflow")) as server:
        yield server


@pytest.fixture(scope="session")
def emulator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Emulator]:
    """An emulated cluster with the namespace `models`."""
    one = Emulator(tmp_path_factory.mktemp("cluster"), namespaces=["models"])
    one.start()
    yield one
    one.kill()


@pytest.fixture
def bridge(
    store: ModelStoreHook,
    mlflow: MlflowServer,
    emulator: Emulator,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Bridge]:
    """The model `digits`, with a registered model of its own."""
    kubernetes = {"conn_type": "kubernetes", "extra": {"kube_config_path": str(emulator.kubeconfig)}}
    monkeypatch.setenv("AIRFLOW_CONN_KUBERNETES_DEFAULT", json.dumps(kubernetes))
    monkeypatch.setenv("AIRFLOW_CONN_MLFLOW_DEFAULT", mlflow.connection())
    one = Bridge(store, mlflow, emulator, tmp_path, f"digits {next(_numbers)}")
    yield one
    one.remove_service()
