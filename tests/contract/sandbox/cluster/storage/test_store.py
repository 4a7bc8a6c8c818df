"""The store by itself: merge patches as the RFC has them, and no input that breaks it."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slipway_sandbox.cluster.admission.pod_rules import quantity_value
from slipway_sandbox.cluster.errors import ApiError
from slipway_sandbox.cluster.merge import merge_patched
from slipway_sandbox.cluster.storage.store import ObjectStore
from tests.support.cluster.emulator import inference_service, pod
from tests.support.examples import examples

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 200) | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda children: (
        st.lists(children, max_size=3) | st.dictionaries(st.text(max_size=5), children, max_size=3)
    ),
    max_leaves=8,
)


@pytest.mark.parametrize(
    ("target", "patch", "expected"),
    [
        ({"a": "b"}, {"a": "c"}, {"a": "c"}),
        ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
        ({"a": "b"}, {"a": None}, {}),
        ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
        ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
        ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
        ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
        ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
        (["a", "b"], ["c", "d"], ["c", "d"]),
        ({"a": "b"}, ["c"], ["c"]),
        ({"a": "foo"}, None, None),
        ({"a": "foo"}, "bar", "bar"),
        ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
        ([1, 2], {"a": "b", "c": None}, {"a": "b"}),
        ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
    ],
)
def test_merge_patches_work_as_in_the_rfc(target: Any, patch: Any, expected: Any) -> None:
    """The examples of RFC 7386, and the patched object is left as it was."""
    before = json.dumps(target)
    assert merge_patched(target, patch) == expected
    assert json.dumps(target) == before


@given(JSON, JSON)
def test_a_merge_patch_twice_is_a_merge_patch_once(target: Any, patch: Any) -> None:
    """Repeating a patch changes nothing."""
    once = merge_patched(target, patch)
    assert merge_patched(once, patch) == once


def _with_part_replaced(body: dict[str, Any], path: list[str | int], value: Any) -> dict[str, Any]:
    """A copy of `body` in which the part at `path` is `value`."""
    copy: dict[str, Any] = json.loads(json.dumps(body))
    part: Any = copy
    for key in path[:-1]:
        part = part[key]
    part[path[-1]] = value
    return copy


PATHS: list[tuple[dict[str, Any], list[str | int]]] = [
    (pod("x", "true"), ["metadata"]),
    (pod("x", "true"), ["metadata", "name"]),
    (pod("x", "true"), ["metadata", "generateName"]),
    (pod("x", "true"), ["metadata", "namespace"]),
    (pod("x", "true"), ["metadata", "labels"]),
    (pod("x", "true"), ["spec"]),
    (pod("x", "true"), ["spec", "containers"]),
    (pod("x", "true"), ["spec", "containers", 0]),
    (pod("x", "true"), ["spec", "containers", 0, "env"]),
    (pod("x", "true"), ["spec", "containers", 0, "resources"]),
    (pod("x", "true"), ["spec", "activeDeadlineSeconds"]),
    (inference_service("x"), ["metadata", "annotations"]),
    (inference_service("x"), ["metadata", "finalizers"]),
    (inference_service("x"), ["spec"]),
    (inference_service("x"), ["spec", "predictor"]),
    (inference_service("x"), ["spec", "predictor", "model"]),
    (inference_service("x"), ["spec", "predictor", "minReplicas"]),
]


@settings(max_examples=examples(75), deadline=None)
@given(st.sampled_from(PATHS), JSON)
def test_any_object_is_stored_or_refused(target: tuple[dict[str, Any], list[str | int]], value: Any) -> None:
    """Whatever stands in the place of a part, the answer is an object or an API error, never a crash."""
    body, path = target
    store = ObjectStore()
    try:
        answer = store.create(_with_part_replaced(body, path, value))
    except ApiError as error:
        answer = error.body()
    if answer["kind"] == "Status":
        # KServe's webhook panics at a predictor that runs nothing.
        assert answer["code"] in (400, 403, 422) or (answer["code"] == 500 and "panic: " in answer["message"])
        assert answer["message"]
    else:
        metadata = answer["metadata"]
        kind = "pods" if answer["kind"] == "Pod" else "inferenceservices"
        assert store.get(kind, metadata["namespace"], metadata["name"]) == answer


@settings(max_examples=examples(50), deadline=None)
@given(JSON)
def test_any_patch_is_applied_or_refused(patch: Any) -> None:
    """Whatever a patch of the spec holds, the stored object stays valid."""
    store = ObjectStore()
    before = store.create(inference_service("x"))
    try:
        after = store.merge_patch("inferenceservices", "default", "x", {"spec": {"predictor": patch}})
    except ApiError:
        after = before
    assert store.get("inferenceservices", "default", "x") == after


async def test_watchers_see_what_one_writer_does_while_they_are_slow() -> None:
    """A watcher that does not read for a while misses nothing and sees every state once."""
    store = ObjectStore()
    watcher = store.watch("inferenceservices")
    store.create(inference_service("x"))
    first = await anext(watcher)
    for percent in range(1, 51):
        patch = {"spec": {"predictor": {"canaryTrafficPercent": percent}}}
        store.merge_patch("inferenceservices", "default", "x", patch)
    seen = [(await asyncio.wait_for(anext(watcher), 60))[1] for _ in range(50)]
    assert first[0] == "ADDED"
    assert [each["spec"]["predictor"]["canaryTrafficPercent"] for each in seen] == list(range(1, 51))


def test_what_the_store_gives_out_is_a_copy() -> None:
    """Changing a returned object changes nothing in the store."""
    store = ObjectStore()
    created = store.create(inference_service("x"))
    created["spec"]["predictor"]["model"]["storageUri"] = "s3://elsewhere"
    uri = store.get("inferenceservices", "default", "x")["spec"]["predictor"]["model"]["storageUri"]
    assert uri == "s3://models/digits/1/repository"


@pytest.mark.parametrize(
    ("quantity", "value"),
    [
        ("2", 2.0),
        ("500m", 0.5),
        ("2Gi", 2 * 1024.0**3),
        ("1k", 1000.0),
        ("3M", 3e6),
        ("1e3", 1000.0),
        (4, 4.0),
    ],
)
def test_quantities_are_read_as_kubernetes_writes_them(quantity: object, value: float) -> None:
    """Suffixes of ten and of two, exponents and plain numbers."""
    assert quantity_value(quantity) == pytest.approx(value)


def test_a_quantity_that_is_none_is_refused() -> None:
    """What is no quantity is an error that shows what one looks like."""
    with pytest.raises(ValueError, match="'much' is not a Kubernetes quantity"):
        quantity_value("much")
