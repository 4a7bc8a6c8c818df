"""A version that is published as the task does it, and what S3 tells of its objects."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from slipway.hooks.s3_store import ModelStoreHook
from slipway.operators.publish import PublishModelOperator
from slipway.registry.registry import ModelRegistry
from slipway_core.publishing.manifest import Manifest
from tests.support.release.scale_release import MODEL, convert, release_run_of, run

COMMIT = "0123456789abcdef0123456789abcdef01234567"


def below(store: ModelStoreHook, *prefixes: str) -> list[str]:
    """The keys below these prefixes."""
    return [entry.key for prefix in prefixes for entry in store.entries(prefix)]


def head(store: ModelStoreHook, key: str) -> Mapping[str, Any]:
    """What S3 tells of an object."""
    answer: Mapping[str, Any] = store.client.head_object(Bucket=store.bucket, Key=key)
    return answer


def published(store: ModelStoreHook, **publish: Any) -> Manifest:
    """Version 1, converted and published."""
    release_run = release_run_of(store, **publish)
    convert(store, release_run)
    run(PublishModelOperator, release_run)
    return ModelRegistry(store).require(MODEL, 1)


def encryption_of(store: ModelStoreHook, key: str) -> dict[str, Any]:
    """How an object is encrypted."""
    answer = head(store, key)
    names = ("ServerSideEncryption", "SSEKMSKeyId", "BucketKeyEnabled")
    return {name: answer[name] for name in names if name in answer}
