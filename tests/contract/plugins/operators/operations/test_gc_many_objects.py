"""What a version of many objects costs repository_gc: requests, and memory."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime

import pytest
from moto.core import DEFAULT_ACCOUNT_ID
from moto.s3.models import s3_backends

from slipway.hooks.s3_store import ModelStoreHook
from slipway.registry.deletion import delete_version
from slipway_core.publishing.tombstone import Tombstone
from tests.support.store.publishing import held

OBJECTS = 1_200
PAGES = 2


@pytest.fixture
def many(store: ModelStoreHook) -> ModelStoreHook:
    """A version of many objects, put into the store's own memory: by requests it would take long."""
    backend = s3_backends[DEFAULT_ACCOUNT_ID]["aws"]
    names = [f"repository/digits/1/part-{number:05}" for number in range(OBJECTS - 1)]
    for name in (*names, "manifest.json"):
        backend.put_object(store.bucket, f"models/digits/1/{name}", b"weights")
    return store


def test_a_deletion_asks_for_each_object_once(many: ModelStoreHook) -> None:
    """One request to delete each; the listing is read before, and once more after: nothing else grows with them."""
    asked: Counter[str] = Counter()
    many.client.meta.events.register(
        "before-send.s3.*", lambda **sent: asked.update([sent["event_name"].rpartition(".")[2]])
    )
    tombstone = Tombstone(
        model="digits",
        version=1,
        begun_at=datetime.now(UTC),
        run="gc-1",
        plan_sha256="0" * 64,
        reason="nobody names it",
    )
    removed = delete_version(many, tombstone, held)
    assert removed.objects == OBJECTS
    assert asked["DeleteObject"] == OBJECTS
    assert asked["ListObjectsV2"] == PAGES + 1
    assert sum(asked.values()) - asked["DeleteObject"] - asked["ListObjectsV2"] <= 4
