"""Manifests of published versions, and what an inference server says of a model."""

from __future__ import annotations

from functools import cache
from typing import Any

from benchmarks.fuzz import mutate
from benchmarks.fuzz.documents import json_bytes, mutated_json
from benchmarks.fuzz.target import Target
from slipway_core.publishing.manifest import Manifest, differences
from slipway_core.tensors import signature_from_metadata

_ENTRY = {"size_bytes": 3, "sha256": "a" * 64}
_TENSOR = {"name": "x", "datatype": "FP32", "shape": [-1, 64]}
_MANIFESTS: tuple[dict[str, Any], ...] = (
    {
        "schema_version": 2,
        "model": "digits",
        "version": 2,
        "created_at": "2026-01-02T03:04:05Z",
        "files": {"digits/config.pbtxt": _ENTRY, "digits/2/model.onnx": _ENTRY},
        "attachments": {"golden.npz": _ENTRY},
        "config_sha256": "b" * 64,
        "signature": {"inputs": [_TENSOR], "outputs": [{**_TENSOR, "name": "y"}]},
        "source": {
            "accuracy": 0.9,
            "trained_at": "2026-01-01T00:00:00+02:00",
            "metadata": {"a": [1, None]},
            "files": {"model.onnx": _ENTRY},
            "hub": {"name": "a/b", "revision": "c"},
        },
        "tools": {"onnx": "1.18"},
        "engines": [{"gpu": "NVIDIA L4", "compute_capability": "8.9", "tensorrt": "10.8.0.43"}],
        "project_version": "0.1.0",
        "project_commit": "abc",
    },
)
_METADATA: tuple[dict[str, Any], ...] = (
    {
        "name": "digits",
        "versions": ["2"],
        "platform": "onnxruntime_onnx",
        "inputs": [{**_TENSOR, "shape": ["-1", "64"]}],
        "outputs": [{**_TENSOR, "name": "y"}],
    },
)


@cache
def _seed() -> Manifest:
    return Manifest.from_bytes(json_bytes(_MANIFESTS[0]))


def _read_manifest(content: bytes) -> None:
    manifest = Manifest.from_bytes(content)
    again = Manifest.from_bytes(manifest.to_bytes())
    assert again.content_digest() == manifest.content_digest()
    differences(_seed(), manifest)


TARGETS = (
    Target(
        "manifest",
        lambda: [json_bytes(tree) for tree in _MANIFESTS],
        lambda rng, _: mutated_json(rng, _MANIFESTS),
        _read_manifest,
    ),
    Target(
        "server_metadata",
        lambda: list(_METADATA),
        mutate.tree,
        lambda value: signature_from_metadata(value if isinstance(value, dict) else {}),
    ),
)
