"""Small models of the Python backend for the smoke test, each with one fault; published with a manifest."""

from __future__ import annotations

import hashlib

import numpy as np

from slipway_core.publishing.manifest import FileEntry, Manifest
from slipway_core.tensors import ModelSignature
from tests.support.pods.support import ObjectStore, npz

CONFIG = """
name: "{name}"
backend: "python"
max_batch_size: 4
input [ {{ name: "x" data_type: TYPE_FP32 dims: [ 2 ] }} ]
output [ {{ name: "y" data_type: TYPE_FP32 dims: [ 2 ] }} ]
instance_group [ {{ kind: KIND_CPU count: {instances} }} ]
{more}
"""

WARMUP = """
model_warmup [ { name: "zeros" batch_size: 1 inputs { key: "x" value {
  data_type: TYPE_FP32 dims: [ 2 ] zero_data: true } } } ]
"""

PROGRAM = """
import os, signal, time
import numpy as np
import triton_python_backend_utils as pb_utils

KEPT = []


class TritonPythonModel:
    def initialize(self, args):
        self.instance = int(args["model_instance_name"].rpartition("_")[2])

    def execute(self, requests):
        return [self.answer(pb_utils.get_input_tensor_by_name(one, "x").as_numpy()) for one in requests]

    def answer(self, x):
        y = 2 * x
{fault}
        return pb_utils.InferenceResponse([pb_utils.Tensor("y", y.astype("float32"))])
"""

FAULTS = {
    "sound": "pass",
    # Kilobytes a request that nobody gives back.
    "leaking": "KEPT.append(np.ones(64 * 1024, np.uint8))",
    "uneven": "y = y + self.instance",
    # The server itself, as a fault in a backend of C++ would end it.
    "mortal": "if not np.isfinite(x).all(): os.kill(os.getppid(), signal.SIGSEGV); time.sleep(60)",
    "cold": "if not x.any(): os.kill(os.getppid(), signal.SIGSEGV); time.sleep(60)",
    "tired": "KEPT.append(1); len(KEPT) > 75 and (os.kill(os.getppid(), signal.SIGSEGV), time.sleep(60))",
    # A good model that takes its time, and one that takes too long for one input.
    "slow": "time.sleep(0.4)",
    "brooding": "not np.isfinite(x).all() and time.sleep(4)",
    "refusing": "if not x.any(): raise ValueError('no zeros, please')",
}


def published(name: str, *, instances: int = 1, more: str = "") -> tuple[dict[str, bytes], str]:
    """Return the objects of version 1 of the model of that fault by their keys, and the manifest's digest."""
    files = {
        f"{name}/config.pbtxt": CONFIG.format(name=name, instances=instances, more=more).encode(),
        f"{name}/1/model.py": PROGRAM.format(fault=f"        {FAULTS[name]}").encode(),
    }
    manifest = Manifest.model_validate(
        {
            "model": name,
            "version": 1,
            "created_at": "2026-01-02T00:00:00Z",
            "files": {path: FileEntry.of(content) for path, content in files.items()},
            "config_sha256": "0" * 64,
            "signature": ModelSignature(inputs=(), outputs=()),
        }
    ).to_bytes()
    rows = np.arange(1, 17, dtype=np.float32).reshape(8, 2)
    root = f"models/{name}/1"
    objects = {f"{root}/repository/{path}": content for path, content in files.items()}
    objects[f"{root}/golden.npz"] = npz(x=rows, label=rows[:, 0])
    objects[f"{root}/manifest.json"] = manifest
    return objects, hashlib.sha256(manifest).hexdigest()


def put_model(store: ObjectStore, name: str, *, instances: int = 1, more: str = "") -> tuple[str, str, str]:
    """Publish it; return source, golden set, and the manifest's digest."""
    objects, digest = published(name, instances=instances, more=more)
    for key, content in objects.items():
        store.put(key, content)
    root = store.url(f"models/{name}/1")
    return f"{root}/repository", f"{root}/golden.npz", digest
