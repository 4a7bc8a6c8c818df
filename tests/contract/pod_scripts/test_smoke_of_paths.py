"""smoke_test.py with a real tritonserver, of a version whose configuration names files below /mnt/models."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest

from slipway_core.publishing.manifest import FileEntry, Manifest
from slipway_core.tensors import ModelSignature
from tests.support.pods.support import ObjectStore, Pod, npz
from tests.support.serving.text_model import text_model_files

pytestmark = pytest.mark.timeout(600)


@pytest.mark.parametrize("root", ["/mnt/models", "/srv/llm"])
def test_a_model_that_opens_its_files_by_absolute_paths_is_loaded(
    smoke_pod: Pod, store: ObjectStore, prefix: str, root: str
) -> None:
    """The servers have that folder and the pod has not: the paths lead to where the version was downloaded."""
    files = text_model_files("chat", 1, {"hello": ["It", " is"]})
    files = {path: content.replace(b"/mnt/models/", f"{root}/".encode()) for path, content in files.items()}
    manifest = Manifest.model_validate(
        {
            "model": "chat",
            "version": 1,
            "created_at": "2026-01-02T00:00:00Z",
            "files": {path: FileEntry.of(content) for path, content in files.items()},
            "config_sha256": "0" * 64,
            "signature": ModelSignature(inputs=(), outputs=()),
        }
    ).to_bytes()
    at = "models/chat/1"
    for path, content in files.items():
        store.put(f"{at}/repository/{path}", content)
    store.put(f"{at}/golden.npz", npz(text_input=np.array([["hello"]]), answer=np.array(["It is"])))
    store.put(f"{at}/manifest.json", manifest)
    run = smoke_pod.run(
        "smoke_test.py",
        *("--source", store.url(f"{at}/repository"), "--golden", store.url(f"{at}/golden.npz")),
        *("--manifest-sha256", hashlib.sha256(manifest).hexdigest(), "--loads", "1", "--requests", "10"),
        *("--serving-root", root),
        prefix=prefix,
    )
    assert run.exit_code == 0, run.stdout + run.stderr
    assert run.result is not None
    assert [one["status"] for one in run.result["loads"]] == ["loaded"], run.result["loads"]
