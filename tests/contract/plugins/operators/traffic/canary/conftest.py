"""A release of version 3 over version 2, whose InferenceService is a model of Knative."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from slipway import release_context
from slipway.hooks.s3_store import ModelStoreHook
from slipway.metrics.sources.scrape import EnvoyMetricsHook
from slipway.operators.base import ReleaseOperator
from slipway.registry.registry import ModelRegistry
from slipway.release_run import ReleaseRun, StableVersion
from slipway_core.metrics.samples import Counters, Reading
from slipway_core.spec.release_file import parse_release_spec
from slipway_core.spec.rollout.preview import Preview
from slipway_sandbox.lab.simulation.knative_model import KnativeModel
from tests.support.canary.doubles import LeaseDouble, ServiceDouble
from tests.support.canary.operators import Operate, stable_uri
from tests.support.release.proofs import admitted, gates_passed
from tests.support.store.laid_down import LaidDown
from tests.support.store.publication import Publication


@pytest.fixture(scope="session")
def admitted_version() -> LaidDown:
    """Version 3 and its record, as `release_run` makes them."""
    return LaidDown()


@pytest.fixture
def release_run(
    store: ModelStoreHook, prepare_version: Callable[..., Publication], admitted_version: LaidDown
) -> ReleaseRun:
    """Version 3 is admitted, over version 2, and published."""
    spec = parse_release_spec("model: digits\nsource: {format: onnx}\n", "digits.yaml")
    release_run = ReleaseRun(
        release_id="digits-3",
        model="digits",
        version=3,
        bucket=store.bucket,
        spec=spec,
        stable=StableVersion(version=2, storage_uri=f"s3://{store.bucket}/models/digits/2/repository"),
    )

    def write() -> None:
        one = prepare_version(3)
        ModelRegistry(store).publish(one.manifest, one.sources, one.golden)
        admitted(store, release_run)
        gates_passed(store, release_run)

    admitted_version.into(store, write)
    return release_run


@pytest.fixture
def service(release_run: ReleaseRun, monkeypatch: pytest.MonkeyPatch) -> ServiceDouble:
    """The InferenceService, on which version 2 has all users."""
    model = KnativeModel()
    model.create({"metadata": {}, "spec": {"predictor": {"model": {"storageUri": stable_uri(release_run)}}}})
    model.settle()
    double = ServiceDouble(model)
    monkeypatch.setattr(release_context, "KServeHook", lambda *arguments: double)
    return double


@pytest.fixture(autouse=True)
def lease(release_run: ReleaseRun, monkeypatch: pytest.MonkeyPatch) -> LeaseDouble:
    """The canary's lease, which this release holds."""
    double = LeaseDouble()
    double.acquire(release_run.release_id, lease_s=60, candidate_uri="", stable_uri="")
    monkeypatch.setattr(release_context, "LeaseHook", lambda *arguments: double)
    return double


@pytest.fixture(autouse=True)
def _metrics(monkeypatch: pytest.MonkeyPatch) -> None:
    """The candidate has answered 40 requests, 7 of them with an error."""
    monkeypatch.setenv(
        "AIRFLOW_CONN_SLIPWAY_METRICS", '{"conn_type": "http", "host": "127.0.0.1", "port": 1}'
    )
    monkeypatch.setattr(EnvoyMetricsHook, "streams_seen", lambda self, namespace, inference_service: 0)
    monkeypatch.setattr(
        EnvoyMetricsHook,
        "read",
        lambda self, revisions: {name: Reading.of(1.0, {"router": Counters(40, 7)}) for name in revisions},
    )


@pytest.fixture
def operate(release_run: ReleaseRun, service: ServiceDouble) -> Operate:
    """Executes an operator for the release."""

    def execute(operator: type[ReleaseOperator]) -> Any:
        return operator(task_id="task", release=release_run.model_dump_json()).execute({})

    return execute


# --- the preview ---


@pytest.fixture
def previewing(release_run: ReleaseRun) -> ReleaseRun:
    """The release with a preview."""
    rollout = release_run.spec.rollout.model_copy(update={"preview": Preview()})
    return release_run.model_copy(update={"spec": release_run.spec.model_copy(update={"rollout": rollout})})
