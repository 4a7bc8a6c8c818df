"""Watches: nothing is missed, nothing is told twice, and a client that was away too long is sent back to
list.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import kubernetes_asyncio
import pytest
from kubernetes import client, watch
from kubernetes.client.rest import ApiException

from tests.support.cluster.emulator import KSERVE, Emulator, inference_service

Address = tuple[str, str, str, str]


@pytest.fixture
def address(name: str) -> Address:
    """A namespace of its own for each test, so that its watches see nothing else."""
    return KSERVE[0], KSERVE[1], name, KSERVE[3]


def create(custom: client.CustomObjectsApi, address: Address, name: str, **labels: str) -> dict[str, Any]:
    """A new InferenceService at the address."""
    body = inference_service(name)
    body["metadata"] = {"name": name, "labels": labels}
    created: dict[str, Any] = custom.create_namespaced_custom_object(*address, body)
    return created


def seen(
    custom: client.CustomObjectsApi, address: Address, count: int, **query: Any
) -> list[tuple[str, str]]:
    """The first `count` events of a watch, as (type, name)."""
    stream = watch.Watch().stream(custom.list_namespaced_custom_object, *address, timeout_seconds=10, **query)
    events = []
    for event in stream:
        events.append((event["type"], event["object"]["metadata"]["name"]))
        if len(events) == count:
            break
    return events


def test_a_watch_without_a_version_begins_with_what_is_there(
    custom: client.CustomObjectsApi, address: Address
) -> None:
    """Present objects come as ADDED, in order of their names."""
    for name in ("b", "a"):
        create(custom, address, name)
    assert seen(custom, address, 2) == [("ADDED", "a"), ("ADDED", "b")]


def test_a_watch_from_a_lists_version_tells_what_came_after(
    custom: client.CustomObjectsApi, address: Address
) -> None:
    """List and then watch: each later change once, none of the earlier ones."""
    create(custom, address, "a")
    version = custom.list_namespaced_custom_object(*address)["metadata"]["resourceVersion"]
    create(custom, address, "b")
    custom.patch_namespaced_custom_object(*address, "a", {"spec": {"predictor": {"canaryTrafficPercent": 5}}})
    custom.delete_namespaced_custom_object(*address, "b")
    expected = [("ADDED", "b"), ("MODIFIED", "a"), ("DELETED", "b")]
    assert seen(custom, address, 3, resource_version=version) == expected


def test_a_watch_with_a_selector_sees_objects_come_and_go(
    custom: client.CustomObjectsApi, address: Address
) -> None:
    """An object that begins to match is ADDED, one that ceases to match is DELETED."""
    version = create(custom, address, "a")["metadata"]["resourceVersion"]
    for value in ("gold", "gold2", None):
        patch = {"metadata": {"labels": {"tier": value}}}
        custom.patch_namespaced_custom_object(*address, "a", patch)
    events = seen(custom, address, 3, resource_version=version, label_selector="tier")
    assert events == [("ADDED", "a"), ("MODIFIED", "a"), ("DELETED", "a")]


def test_a_watch_ends_after_the_time_that_was_asked_for(
    custom: client.CustomObjectsApi, address: Address
) -> None:
    """timeoutSeconds ends a watch without an error."""
    stream = watch.Watch().stream(custom.list_namespaced_custom_object, *address, timeout_seconds=1)
    assert list(stream) == []


@pytest.mark.parametrize("version", ["1", "99999999999999999"])
def test_a_version_that_the_history_does_not_hold_is_410(
    custom: client.CustomObjectsApi, address: Address, version: str
) -> None:
    """From a version of another life of the server the client has to list again."""
    with pytest.raises(ApiException) as gone:
        seen(custom, address, 1, resource_version=version)
    assert gone.value.status == 410
    assert "too old resource version" in gone.value.reason


def test_a_history_that_ran_over_is_410(make_emulator: Callable[..., Emulator]) -> None:
    """A client that fell behind by more changes than are kept is told so, and one within them is served."""
    cluster = make_emulator(watch_history=3)
    cluster.start()
    custom = client.CustomObjectsApi(cluster.api_client())
    versions = [create(custom, KSERVE, f"a{i}")["metadata"]["resourceVersion"] for i in range(5)]
    with pytest.raises(ApiException) as gone:
        seen(custom, KSERVE, 1, resource_version=versions[0])
    assert gone.value.status == 410
    events = seen(custom, KSERVE, 3, resource_version=versions[1])
    assert events == [("ADDED", "a2"), ("ADDED", "a3"), ("ADDED", "a4")]


def test_the_asynchronous_client_follows_live_changes(emulator: Emulator, address: Address) -> None:
    """kubernetes_asyncio sees a change that is made while it watches, and gets 410 for a version too old."""

    async def follow() -> list[str]:
        configuration = kubernetes_asyncio.client.Configuration()
        await kubernetes_asyncio.config.load_kube_config(
            str(emulator.kubeconfig), client_configuration=configuration
        )
        async with kubernetes_asyncio.client.ApiClient(configuration) as api:
            custom = kubernetes_asyncio.client.CustomObjectsApi(api)
            await custom.create_namespaced_custom_object(
                *address, inference_service("a") | {"metadata": {"name": "a"}}
            )
            percent = {"spec": {"predictor": {"canaryTrafficPercent": 5}}}
            # Left to itself this client sends a dict as a JSON patch, which no server takes.
            merge_patch: dict[str, Any] = {"_content_type": "application/merge-patch+json"}
            events = []
            async with kubernetes_asyncio.watch.Watch() as watcher:
                stream = watcher.stream(custom.list_namespaced_custom_object, *address, timeout_seconds=10)
                async for event in stream:
                    events.append(event["type"])
                    if event["type"] == "ADDED":
                        await custom.patch_namespaced_custom_object(*address, "a", percent, **merge_patch)
                    elif event["type"] == "MODIFIED":
                        await custom.delete_namespaced_custom_object(*address, "a")
                    else:
                        break
            async with kubernetes_asyncio.watch.Watch() as watcher:
                old = watcher.stream(
                    custom.list_namespaced_custom_object, *address, resource_version="1", timeout_seconds=5
                )
                with pytest.raises(kubernetes_asyncio.client.ApiException) as gone:
                    await anext(old)
                assert gone.value.status == 410
            return events

    assert asyncio.run(follow()) == ["ADDED", "MODIFIED", "DELETED"]
