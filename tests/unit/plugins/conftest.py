"""A release of version 3 over version 2, and an InferenceService in a model of Knative, whose waits end at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from slipway.release_run import ReleaseRun, StableVersion
from slipway.traffic import reconciler, step_cluster, window_reader
from slipway_core.spec.release_file import parse_release_spec
from slipway_sandbox.lab.simulation.knative_model import KnativeModel
from tests.support.canary.doubles import STABLE_URI


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Readings and turns follow each other at once."""
    monkeypatch.setattr(window_reader, "READING_INTERVAL_S", 0.01)
    monkeypatch.setattr(step_cluster, "PAUSED_POLL_S", 0.01)
    monkeypatch.setattr(reconciler, "POLL_INTERVAL_S", 0.001)


@pytest.fixture
def release_run() -> ReleaseRun:
    """Version 3 shall be released over version 2."""
    spec = parse_release_spec("model: digits\nsource: {format: onnx}\n", "digits.yaml")
    return ReleaseRun(
        release_id="digits-3",
        model="digits",
        version=3,
        bucket="slipway",
        spec=spec,
        stable=StableVersion(version=2, storage_uri=STABLE_URI),
    )


@pytest.fixture
def live() -> Callable[..., KnativeModel]:
    """Makes an InferenceService on which version 2 has all users."""

    def make(**settings: Any) -> KnativeModel:
        model = KnativeModel(**settings)
        model.create({"metadata": {}, "spec": {"predictor": {"model": {"storageUri": STABLE_URI}}}})
        model.settle()
        return model

    return make
