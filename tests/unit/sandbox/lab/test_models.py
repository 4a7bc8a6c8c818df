from __future__ import annotations

import json
import sys
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from slipway_core.publishing.manifest import FileEntry, Manifest
from slipway_core.triton_config.pbtxt import from_pbtxt
from slipway_sandbox.lab.models import PROGRAM, publish, repository_files


class Tensor:
    def __init__(self, name: str, value: Any) -> None:
        self.name, self.value = name, value

    def as_numpy(self) -> Any:
        return self.value


class InferenceResponse:
    def __init__(self, outputs: list[Tensor] | None = None, error: Exception | None = None) -> None:
        self.outputs, self.error = outputs, error


def backend() -> ModuleType:
    """What Triton's Python backend gives a model."""
    module = ModuleType("triton_python_backend_utils")
    module.__dict__.update(
        Tensor=Tensor,
        InferenceResponse=InferenceResponse,
        TritonError=RuntimeError,
        get_input_tensor_by_name=lambda request, name: next(one for one in request if one.name == name),
    )
    return module


def answers(
    error_percent: float, seed: int, monkeypatch: pytest.MonkeyPatch, count: int = 1000
) -> list[bool]:
    """Which of so many requests the model fails."""
    monkeypatch.setitem(sys.modules, "triton_python_backend_utils", backend())
    scope: dict[str, Any] = {}
    exec(compile(PROGRAM.read_text(), PROGRAM, "exec"), scope)  # noqa: S102 - as Triton does
    model = scope["TritonPythonModel"]()
    config = from_pbtxt(
        repository_files("moody", 1, error_percent=error_percent, seed=seed)["moody/config.pbtxt"]
    )
    model.initialize({"model_config": json.dumps(config)})
    request = [Tensor("x", np.array([21.0], dtype=np.float32))]
    responses = model.execute([request] * count)
    assert all(one.outputs[0].value == [42.0] for one in responses if one.error is None)
    return [one.error is not None for one in responses]


@pytest.mark.parametrize("percent", [2.0, 5.0, 20.0])
def test_the_share_of_errors_is_as_asked_for(percent: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of many requests about so many percent are failed; the others are answered with twice their input."""
    failed = sum(answers(percent, 1, monkeypatch, count=20_000)) / 20_000
    assert failed == pytest.approx(percent / 100, rel=0.1)


@pytest.mark.parametrize(("percent", "failed"), [(0.0, 0), (100.0, 1000)])
def test_none_and_all_are_exact(percent: float, failed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A sound model never fails, a broken one always does."""
    assert sum(answers(percent, 1, monkeypatch)) == failed


def test_the_seed_decides_which_requests_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same seed fails the same requests, another one others."""
    first = answers(20.0, 1, monkeypatch)
    assert answers(20.0, 1, monkeypatch) == first
    assert answers(20.0, 2, monkeypatch) != first


class Bucket:
    """Keeps what is put."""

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}

    def put_object(self, *, Bucket: str, Key: str, Body: bytes, **_: str) -> None:  # noqa: N803 - boto3's names
        self.objects[f"{Bucket}/{Key}"] = Body


def test_a_version_lies_where_releases_put_theirs() -> None:
    """The storageUri names the repository, which serves the one version that it is named after."""
    bucket = Bucket()
    assert publish(bucket, "slipway", "moody", 3) == "s3://slipway/models/moody/3/repository"
    prefix = "slipway/models/moody/3/repository/moody"
    manifest = Manifest.from_bytes(bucket.objects.pop("slipway/models/moody/3/manifest.json"))
    assert set(bucket.objects) == {f"{prefix}/config.pbtxt", f"{prefix}/3/model.py"}
    files = {f"slipway/models/moody/3/repository/{path}": entry for path, entry in manifest.files.items()}
    assert files == {key: FileEntry.of(content) for key, content in bucket.objects.items()}
    config = from_pbtxt(bucket.objects[f"{prefix}/config.pbtxt"].decode())
    assert config["version_policy"] == {"specific": {"versions": [3]}}
