"""What a model registry sends: MLflow's answers, folders of artifacts, webhooks."""

from __future__ import annotations

import base64
import hashlib
import hmac
from contextlib import suppress
from typing import Any

from benchmarks.fuzz.documents import json_bytes, mutated_json
from benchmarks.fuzz.target import BrokenPromiseError, Target
from slipway_core.documents.json_source import parse_json
from slipway_core.errors import VersionConflictError, WebhookRefusedError
from slipway_core.operations.registry_answers import (
    BucketFolder,
    FileTally,
    artifact_folder,
    parse_folder,
    parse_registered_model,
    parse_registry_version,
    parse_registry_versions,
)
from slipway_core.operations.registry_arrival import InBucket, Origin, next_step
from slipway_core.operations.registry_webhook import read_delivery

_ROOT = "s3://mlflow/1/"
_SECRET = "a secret of the fuzzer"  # noqa: S105
_VERSION: dict[str, Any] = {
    "name": "Digits",
    "version": "3",
    "creation_timestamp": 1795348271788,
    "status": "READY",
    "source": f"{_ROOT}a/artifacts/model",
    "run_id": "a",
    "tags": [{"key": "slipway.arrival", "value": "arrived"}],
}
_MODEL = {"registered_model": {"name": "Digits", "aliases": [{"alias": "candidate", "version": "3"}]}}
_FOLDER = {
    "files": [{"path": "model.onnx", "is_dir": False, "file_size": 5}, {"path": "sub", "is_dir": True}]
}
_WEBHOOK = {
    "entity": "model_version_alias",
    "action": "created",
    "data": {"name": "Digits", "alias": "candidate", "version": "3"},
}


def _read_version(content: bytes) -> None:
    """An address that is followed leads nowhere but below the root."""
    version = parse_registry_version(parse_json(content, "the answer"))
    with suppress(VersionConflictError):
        next_step(
            Origin.of("Digits", version), version.status, InBucket(published={"mlflow": dict(version.tags)})
        )
        raise BrokenPromiseError("a version of another origin was taken for this one")
    folder = artifact_folder(version.source, [_ROOT])
    if isinstance(folder, BucketFolder) and (folder.bucket != "mlflow" or not folder.prefix.startswith("1/")):
        raise BrokenPromiseError("another place in S3 is read")


def _read_folder(content: bytes) -> None:
    tally = FileTally(1000)
    for entry in parse_folder(parse_json(content, "the answer")):
        tally.file(entry.name, entry.size_bytes)
    if any("/" in name or ".." in name or name.startswith(".") for name in tally.files):
        raise BrokenPromiseError("a file may have a name that leads elsewhere")


def _read_webhook(content: bytes) -> None:
    """Signed, it is read or names no model; unsigned, it is refused before it is read."""
    digest = hmac.new(_SECRET.encode(), b"delivery-1.1000." + content, hashlib.sha256).digest()
    headers = {
        "x-mlflow-delivery-id": "delivery-1",
        "x-mlflow-timestamp": "1000",
        "x-mlflow-signature": f"v1,{base64.b64encode(digest).decode()}",
    }
    read_delivery(headers, content, _SECRET, 1000.0)
    with suppress(WebhookRefusedError):
        unsigned = {**headers, "x-mlflow-signature": content[:200].decode("latin-1")}
        read_delivery(unsigned, content, _SECRET, 1000.0)
        raise BrokenPromiseError("a webhook that is not signed was taken")


TARGETS = tuple(
    Target(
        name,
        lambda tree=tree: [json_bytes(tree)],  # type: ignore[misc]
        lambda rng, _, tree=tree: mutated_json(rng, (tree,)),  # type: ignore[misc]
        read,
    )
    for name, tree, read in (
        ("registry_version", {"model_version": _VERSION}, _read_version),
        (
            "registry_versions",
            {"model_versions": [_VERSION, _VERSION]},
            lambda content: parse_registry_versions(parse_json(content, "the answer")),
        ),
        (
            "registered_model",
            _MODEL,
            lambda content: parse_registered_model(parse_json(content, "the answer")),
        ),
        ("registry_folder", _FOLDER, _read_folder),
        ("registry_webhook", _WEBHOOK, _read_webhook),
    )
)
