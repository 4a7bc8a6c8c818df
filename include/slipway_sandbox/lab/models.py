"""A tiny model that answers a share of its requests with an error, as the files of a Triton repository.

Which requests it fails follows from its seed alone. Triton counts such an answer as a success in its own metrics;
the router sees HTTP 500 or a gRPC status.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from slipway_core.bucket_layout import repository_paths
from slipway_core.publishing.manifest import FileEntry, Manifest
from slipway_core.triton_config.build import served_signature
from slipway_core.triton_config.canonical import config_sha256
from slipway_core.triton_config.pbtxt import from_pbtxt
from slipway_sandbox.load.request_set import RequestSet

PROGRAM = Path(__file__).with_name("triton_model.py")

_CONFIG = """\
name: "{name}"
backend: "python"
max_batch_size: 0
input [ {{ name: "x", data_type: TYPE_FP32, dims: [ 1 ] }} ]
output [ {{ name: "y", data_type: TYPE_FP32, dims: [ 1 ] }} ]
instance_group [ {{ kind: KIND_CPU, count: 1 }} ]
version_policy: {{ specific {{ versions: [ {version} ] }} }}
parameters [
  {{ key: "error_percent", value: {{ string_value: "{error_percent:g}" }} }},
  {{ key: "seed", value: {{ string_value: "{seed}" }} }}
]
"""


def requests() -> RequestSet:
    """Return what clients of the model send: always the same number."""
    return RequestSet("x", np.ones((1, 1), dtype=np.float32), "y")


def repository_files(
    name: str, version: int, *, error_percent: float = 0.0, seed: int = 0
) -> dict[str, bytes]:
    """Return the repository of one version, content by path; it fails `error_percent` of its requests, 0 to 100."""
    paths = repository_paths(name, version, "model.py")
    config = _CONFIG.format(name=name, version=version, error_percent=error_percent, seed=seed)
    return {paths.config_file: config.encode(), paths.model_file: PROGRAM.read_bytes()}


def publish(
    s3: Any, bucket: str, name: str, version: int, *, error_percent: float = 0.0, seed: int = 0
) -> str:
    """Put a version where releases put theirs, its manifest last, and return its storageUri."""
    files = repository_files(name, version, error_percent=error_percent, seed=seed)
    return publish_files(s3, bucket, name, version, files)


def publish_files(s3: Any, bucket: str, name: str, version: int, files: Mapping[str, bytes]) -> str:
    """Put the repository of a version where releases put theirs, its manifest last, and return its storageUri."""
    paths = repository_paths(name, version)
    for path, content in files.items():
        s3.put_object(
            Bucket=bucket, Key=f"{paths.repository}{path}", Body=content, ChecksumAlgorithm="SHA256"
        )
    config = from_pbtxt(files[paths.config_file].decode())
    manifest = Manifest(
        model=name,
        version=version,
        created_at=datetime.now(UTC),
        files={path: FileEntry.of(content) for path, content in files.items()},
        config_sha256=config_sha256(config),
        signature=served_signature(config),
    )
    s3.put_object(Bucket=bucket, Key=paths.manifest, Body=manifest.to_bytes())
    return paths.storage_uri(bucket)
