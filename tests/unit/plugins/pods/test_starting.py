"""The wait for a release's pod to begin: what is waited for, for how long, and what ends it."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.providers.cncf.kubernetes.triggers.pod import KubernetesPodTrigger
from airflow.providers.cncf.kubernetes.utils.pod_manager import PodLaunchTimeoutException
from kubernetes.client import models as k8s

from slipway.pods.starting import (
    NODE_LIMIT_S,
    PULL_LIMIT_S,
    AsyncReleasePodManager,
    Begun,
    InVain,
    ReleasePodManager,
    StartWait,
    Waiting,
    plain,
)
from slipway.pods.trigger import ReleasePodTrigger
from tests.support.rollout.pod_statuses import UNSCHEDULABLE, container

ON_A_NODE = {"type": "PodScheduled", "status": "True"}
STARTUP_S = 120.0


def pod(
    *containers: dict[str, Any], phase: str = "Pending", on_a_node: bool = True, **more: Any
) -> dict[str, Any]:
    """A release's pod as the API gives it."""
    found = {
        "phase": phase,
        "conditions": [ON_A_NODE] if on_a_node else [],
        "containerStatuses": [*containers],
    }
    return {"metadata": {"name": "convert-1"}, "status": {**found, **more}}


def pulling(reason: str, message: str) -> dict[str, Any]:
    return pod(container("base", waiting={"reason": reason, "message": message}))


def ended_after(seen: Callable[[float], dict[str, Any]]) -> tuple[float, str, list[str]]:
    """After how many seconds a wait ends, how, and what was said before."""
    wait, told = StartWait(STARTUP_S, STARTUP_S, 0.0), []
    for now_s in range(5000):
        match wait.next(seen(float(now_s)), float(now_s)):
            case Begun():
                return now_s, "begun", told
            case InVain(why):
                return now_s, why, told
            case Waiting(now):
                told += [now] if now and now not in told else []
    raise AssertionError("it waits for ever")


@pytest.mark.parametrize(
    "message",
    [
        "read: connection reset by peer",
        "dial tcp: lookup registry.example.org: no such host",
        "unexpected status from HEAD request: 500 Internal Server Error",
        "429 Too Many Requests",
        "pull access denied, repository does not exist or may require authorization: no basic auth credentials",
        "denied: Your authorization token has expired",
    ],
)
def test_an_image_that_may_come_is_waited_for_with_a_limit_of_its_own(message: str) -> None:
    """The kubelet pulls again by itself; the time to begin counts from when it has the image."""
    after_s, why, told = ended_after(lambda _: pulling("ErrImagePull", message))
    assert after_s == PULL_LIMIT_S > STARTUP_S
    assert message in why
    assert message in told[0]

    def comes(now_s: float) -> dict[str, Any]:
        creating = container("base", waiting={"reason": "ContainerCreating"})
        if now_s < 300:
            return pulling("ImagePullBackOff", f'Back-off pulling image "x": ErrImagePull: {message}')
        return pod(creating) if now_s < 400 else pod(container("base"), phase="Running")

    assert ended_after(comes)[:2] == (400, "begun")


@pytest.mark.parametrize(
    ("reason", "message"),
    [
        ("ErrImagePull", "manifest unknown"),
        ("ErrImagePull", "rpc error: code = NotFound desc = not found"),
        ("InvalidImageName", "couldn't parse image name"),
        ("ErrImageNeverPull", ""),
    ],
)
def test_an_image_that_is_not_there_or_can_be_none_ends_the_wait_at_once(reason: str, message: str) -> None:
    """Nothing is waited for that a person must mend."""
    after_s, why, _ = ended_after(lambda _: pulling(reason, message))
    assert after_s == 0
    assert reason in why


def test_what_the_registry_said_is_kept_while_a_kubelet_only_backs_off() -> None:
    """Older ones do not repeat it."""

    def seen(now_s: float) -> dict[str, Any]:
        if now_s < 5:
            return pulling("ErrImagePull", "429 Too Many Requests")
        return pulling("ImagePullBackOff", 'Back-off pulling image "registry.example.org/slipway/onnx:0.1.0"')

    after_s, why, _ = ended_after(seen)
    assert after_s == PULL_LIMIT_S
    assert "429 Too Many Requests" in why


@pytest.mark.parametrize("key", ["initContainerStatuses", "containerStatuses"])
def test_the_image_of_a_container_that_the_cluster_has_added_counts_too(key: str) -> None:
    """A mesh's init container, a vault's sidecar."""
    added = container("vault", waiting={"reason": "InvalidImageName", "message": "x"})
    after_s, why, _ = ended_after(lambda _: pod(container("base"), **{key: [added]}))
    assert after_s == 0
    assert "InvalidImageName" in why


def test_a_node_that_is_being_made_is_waited_for_and_said() -> None:
    """While the scheduler calls the pod unschedulable; without its word the time to begin is the limit."""
    unschedulable = pod(on_a_node=False, conditions=[UNSCHEDULABLE])
    after_s, why, told = ended_after(lambda _: unschedulable)
    assert after_s == NODE_LIMIT_S > STARTUP_S
    assert "9 Insufficient nvidia.com/gpu" in why
    assert "9 Insufficient nvidia.com/gpu" in told[0]
    assert ended_after(lambda _: pod(on_a_node=False))[0] == STARTUP_S

    def gets_one(now_s: float) -> dict[str, Any]:
        if now_s < 600:
            return unschedulable
        return pod() if now_s < 700 else pod(container("base"), phase="Running")

    assert ended_after(gets_one)[:2] == (700, "begun")


def test_a_pod_that_does_not_begin_on_its_node_is_waited_for_as_the_release_file_says() -> None:
    """A volume that is not there, for instance."""
    after_s, why, _ = ended_after(lambda _: pod(container("base", waiting={"reason": "ContainerCreating"})))
    assert after_s == STARTUP_S
    assert "on its node" in why


def test_a_pod_that_somebody_ends_before_it_begins_is_not_waited_for() -> None:
    """It will never begin."""
    ending = pod()
    ending["metadata"]["deletionTimestamp"] = "2026-11-26T10:00:00Z"
    assert ended_after(lambda _: ending)[0] == 0


@pytest.mark.parametrize("is_async", [False, True], ids=["worker", "triggerer"])
async def test_both_waits_are_the_same(monkeypatch: pytest.MonkeyPatch, is_async: bool) -> None:
    """In a worker and in the triggerer: a pull that fails twice is none that has failed."""
    states = [
        k8s.V1ContainerState(waiting=k8s.V1ContainerStateWaiting(reason="ErrImagePull", message="EOF"))
    ] * 3
    states += [
        k8s.V1ContainerState(waiting=k8s.V1ContainerStateWaiting(reason="ErrImagePull", message="not found"))
    ]
    shown = iter(states)

    def read(*_: Any) -> k8s.V1Pod:
        status = k8s.V1ContainerStatus(
            name="base", image="x", image_id="", ready=False, restart_count=0, state=next(shown)
        )
        on_a_node = k8s.V1PodCondition(type="PodScheduled", status="True")
        return k8s.V1Pod(
            status=k8s.V1PodStatus(phase="Pending", conditions=[on_a_node], container_statuses=[status])
        )

    async def read_async(*_: Any) -> k8s.V1Pod:
        return read()

    manager: Any = (
        AsyncReleasePodManager(async_hook=SimpleNamespace())  # type: ignore[arg-type]
        if is_async
        else ReleasePodManager(kube_client=SimpleNamespace())  # type: ignore[arg-type]
    )
    monkeypatch.setattr(manager, "read_pod", read_async if is_async else read)
    with pytest.raises(PodLaunchTimeoutException, match="not found"):
        await manager.await_pod_start(k8s.V1Pod(), 120, 120, 0.001)
    assert next(shown, None) is None


def test_the_trigger_of_releases_is_made_of_the_providers_and_comes_back_as_itself() -> None:
    """The triggerer makes it again from what it was serialized to."""
    given: dict[str, Any] = {
        "pod_name": "convert-1",
        "pod_namespace": "models",
        "trigger_start_time": "2026-11-26T10:00:00Z",
        "base_container_name": "base",
        "startup_timeout": 7,
        "trigger_kwargs": {"attempt": 2},
    }
    trigger = ReleasePodTrigger.like(KubernetesPodTrigger(**given))
    path, arguments = trigger.serialize()
    assert path == "slipway.pods.trigger.ReleasePodTrigger"
    again = ReleasePodTrigger(**arguments)
    assert again.serialize() == trigger.serialize()
    assert isinstance(again.pod_manager, AsyncReleasePodManager)


def test_a_pod_that_is_gone_is_nothing() -> None:
    """Neither client gives more than None then."""
    assert plain(None) == {}
