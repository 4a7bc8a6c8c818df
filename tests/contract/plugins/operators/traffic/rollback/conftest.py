"""Version 2 is live over version 1, and somebody wants to go back."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from slipway import release_context
from slipway.hooks.s3_store import ModelStoreHook
from slipway.operators.rollback import NameRollbackOperator
from slipway.registry.registry import ModelRegistry
from slipway.release_run import ReleaseRun
from slipway.traffic.reconciler import reconcile
from slipway_core.errors import StoreUnavailableError
from slipway_core.rollout.next_action import Promote, StartCanary
from slipway_sandbox.lab.simulation.knative_model import KnativeModel
from tests.support.canary.doubles import LeaseDouble, ServiceDouble
from tests.support.release.proofs import promoted
from tests.support.release.rollback_by_hand import RELEASE_FILE, RunDouble, uri
from tests.support.store.laid_down import LaidDown
from tests.support.store.publication import Publication


@pytest.fixture
def service(store: ModelStoreHook, monkeypatch: pytest.MonkeyPatch) -> ServiceDouble:
    """Version 2 was promoted over version 1."""
    model = KnativeModel()
    model.create({"metadata": {}, "spec": {"predictor": {"model": {"storageUri": uri(store, 1)}}}})
    model.settle()
    double = ServiceDouble(model)
    reconcile(double, StartCanary(uri(store, 2), 50, release_id="digits-2", version=2), timeout_s=60)  # type: ignore[arg-type]
    reconcile(double, Promote(uri(store, 2)), timeout_s=60)  # type: ignore[arg-type]
    monkeypatch.setattr(release_context, "KServeHook", lambda *arguments: double)
    return double


@pytest.fixture(autouse=True)
def lease(monkeypatch: pytest.MonkeyPatch) -> LeaseDouble:
    """Nobody holds a canary."""
    double = LeaseDouble()
    monkeypatch.setattr(release_context, "LeaseHook", lambda *arguments: double)
    return double


@pytest.fixture(scope="session")
def two_versions() -> LaidDown:
    """Versions 1 and 2 with their records, as `published` makes them."""
    return LaidDown()


@pytest.fixture(autouse=True)
def published(
    store: ModelStoreHook, prepare_version: Callable[..., Publication], two_versions: LaidDown
) -> None:
    """Versions 1 and 2 were released."""

    def write() -> None:
        for version in (1, 2):
            one = prepare_version(version)
            ModelRegistry(store).publish(one.manifest, one.sources, one.golden)
            promoted(store, "digits", version)

    two_versions.into(store, write)


@pytest.fixture(autouse=True)
def _metrics(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the metrics are nobody answers."""
    monkeypatch.setenv(
        "AIRFLOW_CONN_SLIPWAY_METRICS", '{"conn_type": "http", "host": "127.0.0.1", "port": 1}'
    )


@pytest.fixture
def name_it(store: ModelStoreHook, service: ServiceDouble, tmp_path: Path) -> Callable[..., ReleaseRun]:
    """Runs the first task and returns the release run of the rollback."""
    (tmp_path / "digits.yaml").write_text(RELEASE_FILE)

    def execute(run: RunDouble, waited: int = 0) -> ReleaseRun:
        operator = NameRollbackOperator(task_id="admit", releases_dir=str(tmp_path), bucket=store.bucket)
        return ReleaseRun.parse(operator.execute(run.context, waited=waited))

    return execute


@pytest.fixture
def earlier(
    store: ModelStoreHook, service: ServiceDouble, prepare_version: Callable[..., Publication]
) -> int:
    """Version 9 is live over 2 by now, and version 1 is not the one that was live before."""
    one = prepare_version(9)
    ModelRegistry(store).publish(one.manifest, one.sources, one.golden)
    promoted(store, "digits", 9)
    reconcile(service, StartCanary(uri(store, 9), 50, release_id="digits-9", version=9), timeout_s=60)  # type: ignore[arg-type]
    reconcile(service, Promote(uri(store, 9)), timeout_s=60)  # type: ignore[arg-type]
    return 1


# --- with the object store away ---


@pytest.fixture
def store_away(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """S3 answers nothing, until it is undone."""

    def away(self: ModelStoreHook, *arguments: Any, **options: Any) -> Any:
        raise StoreUnavailableError("S3 did not answer")

    patch = pytest.MonkeyPatch()
    for method in ("read", "write_once", "entries", "read_with_etag", "stat"):
        patch.setattr(ModelStoreHook, method, away)
    return patch
