"""A small version that is published, for tuning: the model `table`, which batches."""

from __future__ import annotations

import io
from datetime import UTC, datetime
from typing import Any

import numpy as np

from slipway.hooks.s3_store import ModelStoreHook
from slipway.registry.registry import ModelRegistry, StoredSource
from slipway_core.publishing.manifest import FileEntry, Manifest, Provenance
from slipway_core.tensors import ModelSignature, TensorSpec
from slipway_core.triton_config.pbtxt import to_pbtxt
from tests.support.serving.models import table_model

MODEL = "table"
CONFIG: dict[str, Any] = {
    "name": MODEL,
    "platform": "onnxruntime_onnx",
    "backend": "onnxruntime",
    "default_model_filename": "model.onnx",
    "max_batch_size": 16,
    "input": [{"name": "x", "data_type": "TYPE_FP32", "dims": [2]}],
    "output": [{"name": "y", "data_type": "TYPE_FP32", "dims": [2]}],
    "instance_group": [{"kind": "KIND_CPU", "count": 1}],
    "dynamic_batching": {"max_queue_delay_microseconds": 300_000},
    "version_policy": {"specific": {"versions": [1]}},
}


def publish_table(store: ModelStoreHook) -> Manifest:
    """Publish version 1 with its golden set; return its manifest."""
    golden = io.BytesIO()
    np.savez(golden, x=np.ones((8, 2), np.float32), label=np.zeros(8, np.int64))
    contents = {f"{MODEL}/config.pbtxt": to_pbtxt(CONFIG).encode(), f"{MODEL}/1/model.onnx": table_model(2.0)}
    manifest = Manifest(
        model=MODEL,
        version=1,
        created_at=datetime(2026, 1, 2, tzinfo=UTC),
        files={path: FileEntry.of(content) for path, content in contents.items()},
        config_sha256="0" * 64,
        signature=ModelSignature(
            inputs=(TensorSpec(name="x", datatype="FP32", shape=(-1, 2)),),
            outputs=(TensorSpec(name="y", datatype="FP32", shape=(-1, 2)),),
        ),
        source=Provenance(files={"golden.npz": FileEntry.of(golden.getvalue())}),
    )
    store.write("incoming/table/1/golden.npz", golden.getvalue())
    sources: dict[str, bytes | StoredSource] = dict(contents)
    ModelRegistry(store).publish(manifest, sources, "incoming/table/1/golden.npz")
    return manifest
