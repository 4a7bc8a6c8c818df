"""Manifests of version 2 of the model `digits`: good ones, and documents that must be refused."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

from slipway_core.publishing.manifest import FileEntry, Manifest, Provenance
from slipway_core.tensors import ModelSignature, TensorSpec
from slipway_rules.version_manifest import MANIFEST_LIMIT_BYTES

SIGNATURE = ModelSignature(
    inputs=(TensorSpec(name="pixels", datatype="FP32", shape=(-1, 64)),),
    outputs=(TensorSpec(name="probabilities", datatype="FP32", shape=(-1, 10)),),
)
CONFIG_SHA256 = "c" * 64


def make_manifest(**changes: Any) -> Manifest:
    """Return a manifest of version 2 with these fields changed."""
    fields: dict[str, Any] = {
        "model": "digits",
        "version": 2,
        "created_at": datetime(2026, 11, 21, tzinfo=UTC),
        "files": {
            "digits/config.pbtxt": FileEntry.of(b"config"),
            "digits/2/model.onnx": FileEntry.of(b"model"),
        },
        "config_sha256": CONFIG_SHA256,
        "signature": SIGNATURE,
        "source": Provenance(dataset_version="2026-11", accuracy=0.97, framework="scikit-learn 1.7"),
        "tools": {"onnx": "1.20"},
        "project_version": "0.1.0",
    }
    return Manifest.model_validate(fields | changes)


ENTRY = FileEntry.of(b"")
OWN = {"digits/config.pbtxt": ENTRY, "digits/2/model.onnx": ENTRY}
DOCUMENT: dict[str, Any] = json.loads(make_manifest(attachments={"golden.npz": ENTRY}).to_bytes())


def changed(field: str, value: str) -> bytes:
    """Return a manifest in which one field is this JSON."""
    marked = json.dumps({**DOCUMENT, field: "MARK"})
    return marked.replace('"MARK"', value).encode()


def sized(size: str) -> bytes:
    """Return a manifest whose file has this size."""
    return changed("files", f'{{"digits/2/a": {{"size_bytes": {size}, "sha256": "{"0" * 64}"}}}}')


HOSTILE = {
    "not UTF-8": b"\xff\xfe{}",
    "deep": b"[" * 500_000,
    "deep metadata": changed("source", '{"metadata": {"a": ' + "[" * 100_000 + "]" * 100_000 + "}}"),
    "accuracy not a number": changed("source", '{"accuracy": NaN}'),
    "infinite accuracy": changed("source", '{"accuracy": Infinity}'),
    "number too large for JSON": changed("source", '{"metadata": {"a": 1e999}}'),
    "not a number in metadata": changed("source", '{"metadata": {"a": [{"b": NaN}]}}'),
    "half a character": changed("source", '{"metadata": {"a": "\\ud800"}}'),
    "size of 10^30": sized("1" + "0" * 30),
    "size of 10^10000": sized("1" + "0" * 10_000),
    "negative size": sized("-1"),
    "time before UTC": changed("created_at", '"0001-01-01T00:00:00+14:00"'),
    "time after UTC": changed("created_at", '"9999-12-31T23:59:59-14:00"'),
    "path upwards": changed("files", json.dumps({"../../x": ENTRY.model_dump()})),
    "long path": changed("files", json.dumps({"a" * 1000: ENTRY.model_dump()})),
    "15,000 unknown keys": json.dumps({**DOCUMENT, **{f"key {n}": n for n in range(15_000)}}).encode(),
    "30,000 files": changed("files", json.dumps({f"digits/2/{n}": ENTRY.model_dump() for n in range(30_000)})),
    "a long name": json.dumps({**DOCUMENT, "x" * 4_000_000: 1}).encode(),
    "above the limit": b" " * (MANIFEST_LIMIT_BYTES + 1),
}  # fmt: skip
