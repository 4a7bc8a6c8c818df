"""A version that has landed, in a cluster where nothing is live yet."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from slipway.hooks.s3_store import ModelStoreHook
from slipway.operators.admission import facts
from slipway.operators.admission.admit import AdmitReleaseOperator
from slipway.release_run import ReleaseRun
from tests.support.release.admission import FORM, RELEASE_FILE, Admit, context


@pytest.fixture
def releases(tmp_path: Path) -> Path:
    """A folder with the release file of `digits`."""
    (tmp_path / "digits.yaml").write_text(RELEASE_FILE)
    return tmp_path


@pytest.fixture
def landed(store: ModelStoreHook) -> ModelStoreHook:
    """A bucket in which training has left version 2."""
    for name in ("model.onnx", "golden.npz"):
        store.write(f"incoming/digits/2/{name}", b"content")
    store.write_json("incoming/digits/2/ready.json", {"model": "digits", "version": 2})
    return store


@pytest.fixture
def admit(store: ModelStoreHook, releases: Path, monkeypatch: pytest.MonkeyPatch) -> Admit:
    """Asks for a release in a cluster where nothing is live yet; `running` are the runs that are under way."""
    monkeypatch.setattr(facts, "observe_service", lambda hook: None)

    def ask(run_id: str = "digits-2", running: tuple[str, ...] = (), **params: Any) -> ReleaseRun:
        operator = AdmitReleaseOperator(task_id="admit", releases_dir=str(releases), bucket=store.bucket)
        return ReleaseRun.parse(operator.execute(context(run_id, running, {**FORM, **params})))

    return ask
