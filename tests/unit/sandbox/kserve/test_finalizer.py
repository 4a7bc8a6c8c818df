"""The finalizer of KServe's controller: what it does to those who create, patch and delete."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from slipway_sandbox.cluster.errors import ApiError
from slipway_sandbox.cluster.storage.store import ObjectStore
from slipway_sandbox.kserve.finalizer import FINALIZER, Finalizers
from tests.support.waiting import until

ADDRESS = ("inferenceservices", "default", "digits")
SERVICE = {
    "apiVersion": "serving.kserve.io/v1beta1",
    "kind": "InferenceService",
    "metadata": {"name": "digits", "namespace": "default"},
    "spec": {"predictor": {"model": {"modelFormat": {"name": "triton"}, "storageUri": "s3://models/1"}}},
}
_LIMIT_S = 5.0


@pytest_asyncio.fixture
async def store() -> AsyncIterator[ObjectStore]:
    """A store whose InferenceServices the controller holds."""
    objects = ObjectStore()
    task = asyncio.create_task(Finalizers(objects).run())
    yield objects
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


def _finalizers(store: ObjectStore) -> list[str]:
    found: list[str] = store.get(*ADDRESS)["metadata"].get("finalizers") or []
    return found


def _is_gone(store: ObjectStore) -> bool:
    return store.list("inferenceservices") == []


async def test_who_patches_by_the_version_that_the_create_answered_meets_a_conflict(
    store: ObjectStore,
) -> None:
    """The finalizer makes a new version and no new generation; the object as it is now can be patched."""
    created = store.create(SERVICE)["metadata"]
    await until(lambda: _finalizers(store) == [FINALIZER], "the finalizer")
    patch: dict[str, Any] = {
        "metadata": {"resourceVersion": created["resourceVersion"], "labels": {"a": "b"}}
    }
    with pytest.raises(ApiError) as refused:
        store.merge_patch(*ADDRESS, patch)
    assert (refused.value.status, refused.value.reason) == (409, "Conflict")
    present = store.get(*ADDRESS)["metadata"]
    assert present["generation"] == created["generation"]
    patch["metadata"]["resourceVersion"] = present["resourceVersion"]
    assert store.merge_patch(*ADDRESS, patch)["metadata"]["labels"] == {"a": "b"}


async def test_a_deleted_object_is_marked_and_then_gone(store: ObjectStore) -> None:
    """DELETE answers with the object, its deletionTimestamp and a new generation; it is gone a moment later."""
    store.create(SERVICE)
    await until(lambda: _finalizers(store), "the finalizer")
    deleted = store.delete(*ADDRESS)["metadata"]
    assert deleted["deletionTimestamp"]
    assert (deleted["deletionGracePeriodSeconds"], deleted["generation"]) == (0, 2)
    assert store.get(*ADDRESS)["metadata"]["deletionTimestamp"] == deleted["deletionTimestamp"]
    await until(lambda: _is_gone(store), "the object's end")


async def test_a_finalizer_of_somebody_else_is_left_alone(store: ObjectStore) -> None:
    """KServe takes off its own alone, and does not come back to an object that is to go."""
    store.create({**SERVICE, "metadata": {**SERVICE["metadata"], "finalizers": ["example.com/hold"]}})
    await until(lambda: _finalizers(store) == ["example.com/hold", FINALIZER], "the finalizer")
    store.delete(*ADDRESS)
    await until(lambda: _finalizers(store) == ["example.com/hold"], "the release")
    store.merge_patch(*ADDRESS, {"metadata": {"finalizers": None}})
    assert _is_gone(store)


async def test_an_object_of_the_same_name_is_held_anew(store: ObjectStore) -> None:
    """Who creates while the old object is still marked is told that it exists; afterwards all begins again."""
    store.create(SERVICE)
    await until(lambda: _finalizers(store), "the finalizer")
    store.delete(*ADDRESS)
    with pytest.raises(ApiError) as refused:
        store.create(SERVICE)
    assert refused.value.reason == "AlreadyExists"
    await until(lambda: _is_gone(store), "the object's end")
    store.create(SERVICE)
    await until(lambda: _finalizers(store) == [FINALIZER], "the finalizer of the new object")
