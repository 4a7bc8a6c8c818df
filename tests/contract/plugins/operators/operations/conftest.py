"""Old versions in a bucket, a release file, and an emulated cluster in which version 4 is live."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kubernetes import client
from kubernetes.client.rest import ApiException

from slipway.hooks.s3_store import ModelStoreHook
from slipway.operators.operations import gc
from tests.support.cluster.emulator import Emulator, inference_service
from tests.support.release.retention_run import RELEASE_FILE, GcRun, LaterClock, lay_down
from tests.support.store.laid_down import LaidDown
from tests.support.store.publishing import Prepare

SERVICES = ("serving.kserve.io", "v1beta1", "models", "inferenceservices")


class Services:
    """The InferenceServices of the namespace `models`."""

    def __init__(self, emulator: Emulator) -> None:
        self.emulator = emulator
        self._custom = client.CustomObjectsApi(emulator.api_client())

    def name(self, version: int, service: str = "digits") -> None:
        """Create an InferenceService that serves this version."""
        body: dict[str, Any] = inference_service(service, uri=f"s3://b/models/digits/{version}/repository")
        body["metadata"]["namespace"] = "models"
        self._custom.create_namespaced_custom_object(*SERVICES, body)

    def clear(self) -> None:
        """Delete all."""
        for one in self._custom.list_namespaced_custom_object(*SERVICES)["items"]:
            try:
                self._custom.delete_namespaced_custom_object(*SERVICES, one["metadata"]["name"])
            except ApiException as error:
                if error.status != 404:
                    raise


@pytest.fixture(scope="module")
def emulator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Emulator]:
    """An emulated cluster with the namespace `models`."""
    one = Emulator(tmp_path_factory.mktemp("cluster"), namespaces=["models"])
    one.start()
    yield one
    one.kill()


@pytest.fixture
def services(emulator: Emulator, monkeypatch: pytest.MonkeyPatch) -> Iterator[Services]:
    """The cluster's InferenceServices: one, which serves version 4."""
    connection = {"conn_type": "kubernetes", "extra": {"kube_config_path": str(emulator.kubeconfig)}}
    monkeypatch.setenv("AIRFLOW_CONN_KUBERNETES_DEFAULT", json.dumps(connection))
    one = Services(emulator)
    one.name(4)
    yield one
    one.clear()


@pytest.fixture
def releases_dir(tmp_path: Path) -> Path:
    """A folder with one release file, which keeps one promoted version, and each for 30 days."""
    (tmp_path / "digits.yaml").write_text(RELEASE_FILE, encoding="utf-8")
    return tmp_path


@pytest.fixture(scope="session")
def laid_down() -> LaidDown:
    """Versions 1 to 4, as `lay_down` publishes them."""
    return LaidDown()


@pytest.fixture
def gc_run(
    store: ModelStoreHook,
    laid_down: LaidDown,
    prepare_version: Prepare,
    services: Services,
    releases_dir: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> GcRun:
    """A run over versions 1 to 4, 90 days after they were released: 4 is live, 3 was before it."""
    monkeypatch.setattr(gc, "datetime", LaterClock)
    laid_down.into(store, lambda: lay_down(store, prepare_version, range(1, 5)))
    return GcRun(store, releases_dir)
