"""What arrives: ready.json, and the bodies of the queue's messages."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

from benchmarks.fuzz.documents import json_bytes, mutated_json
from benchmarks.fuzz.target import Target
from slipway_core.intake import IncomingVersion, parse_messages, parse_ready
from slipway_core.publishing.manifest import FileEntry, Manifest, Provenance
from slipway_core.tensors import ModelSignature

_ARRIVED = IncomingVersion("digits", 2)
_READY: tuple[dict[str, Any], ...] = (
    {"model": "digits", "version": 2},
    {
        "model": "digits",
        "version": 2,
        "files": {"model.onnx": "a" * 64, "golden.npz": "b" * 64},
        "dataset_version": "2026-01",
        "accuracy": 0.97,
        "trained_at": "2026-01-02T03:04:05Z",
        "framework": "scikit-learn 1.8",
        "start": "by_hand",
        "metadata": {"run": 7, "note": "x", "nested": {"a": [1, 2.5, None]}},
    },
)
_RECORD = {
    "eventVersion": "2.1",
    "eventName": "ObjectCreated:Put",
    "s3": {
        "bucket": {"name": "slipway"},
        "object": {"key": "incoming/digits/2/ready.json", "size": 9, "eTag": "x", "sequencer": "0A"},
    },
}
_BODIES: tuple[dict[str, Any], ...] = (
    {"Records": [_RECORD]},
    {"Records": [_RECORD, {**_RECORD, "eventName": "s3:ObjectCreated:CompleteMultipartUpload"}]},
    {"Service": "Amazon S3", "Event": "s3:TestEvent", "Bucket": "slipway"},
)


def _read_ready(content: bytes) -> None:
    """What is taken must be fit to be written into the manifest, after the conversion was paid for."""
    ready = parse_ready(content, _ARRIVED)
    source = Provenance(
        dataset_version=ready.dataset_version,
        accuracy=ready.accuracy,
        trained_at=ready.trained_at,
        framework=ready.framework,
        metadata=ready.metadata,
    )
    manifest = Manifest(
        model="digits",
        version=2,
        created_at=datetime(2026, 1, 1, tzinfo=UTC),
        files={"digits/config.pbtxt": FileEntry(size_bytes=1, sha256="a" * 64)},
        config_sha256="b" * 64,
        signature=ModelSignature(inputs=(), outputs=()),
        source=source,
    )
    written = manifest.to_bytes()
    assert Manifest.from_bytes(written) == manifest


def _read_body(content: bytes) -> None:
    text = content.decode("utf-8", "replace")
    result = parse_messages([text], "slipway")
    json.dumps(result.ignored).encode()


TARGETS = (
    Target(
        "ready_json",
        lambda: [json_bytes(tree) for tree in _READY],
        lambda rng, _: mutated_json(rng, _READY),
        _read_ready,
    ),
    Target(
        "queue_message",
        lambda: [json_bytes(tree) for tree in _BODIES],
        lambda rng, _: mutated_json(rng, _BODIES),
        _read_body,
    ),
)
