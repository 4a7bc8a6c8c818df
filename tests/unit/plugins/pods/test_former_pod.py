"""The pod that a task finds under its own name."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any, cast

import pytest
from airflow.providers.cncf.kubernetes.operators.pod import KubernetesPodOperator
from airflow.sdk import Context
from kubernetes.client import ApiException
from kubernetes.client import models as k8s

from slipway.pods import former_pod
from slipway.pods.execution import _PodOperator
from slipway.pods.former_pod import await_gone
from slipway_core.errors import PodStartError

NAME = "convert-ranker-1-ab"
CONTEXT = cast(Context, {})


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Looks follow each other at once."""
    monkeypatch.setattr(former_pod, "POLL_S", 0.001)


def pod(name: str = NAME, *, ending: bool = False, phase: str = "Running", **labels: str) -> k8s.V1Pod:
    deleted = datetime(2026, 11, 26, tzinfo=UTC) if ending else None
    metadata = k8s.V1ObjectMeta(name=name, namespace="models", labels=labels, deletion_timestamp=deleted)
    return k8s.V1Pod(metadata=metadata, status=k8s.V1PodStatus(phase=phase))


class Cluster:
    """Shows one pod after the other under the task's name (the last one stays), and keeps what is created and ended."""

    def __init__(self, *shown: k8s.V1Pod | None) -> None:
        self._shown: Iterator[k8s.V1Pod | None] = iter(shown)
        self._last: k8s.V1Pod | None = None
        self.created: list[str] = []
        self.ended: list[str] = []

    def get_pod(self, name: str, namespace: str) -> k8s.V1Pod:
        """Reads a pod."""
        self._last = next(self._shown, self._last)
        if self._last is None or self._last.metadata.name != name:
            raise ApiException(status=404)
        return self._last

    def create_pod(self, pod: k8s.V1Pod) -> k8s.V1Pod:
        """Creates one."""
        self.created.append(pod.metadata.name)
        return pod

    def delete_pod(self, pod: k8s.V1Pod) -> None:
        """Ends one."""
        self.ended.append(pod.metadata.name)


def task_in(cluster: Cluster) -> _PodOperator:
    """The operator of a task whose pod has that name."""
    operator = _PodOperator(
        task_id="convert", name=NAME, random_name_suffix=False, image="x", namespace="models"
    )
    operator.__dict__["hook"] = cluster
    operator.__dict__["pod_manager"] = cluster
    operator.pod_request_obj = pod()
    return operator


def test_a_pod_of_an_earlier_try_that_is_at_work_is_gone_on_with() -> None:
    """No second one is started."""
    cluster = Cluster(pod(try_number="1"))
    found = task_in(cluster).get_or_create_pod(pod(), CONTEXT)
    assert found.metadata.labels == {"try_number": "1"}
    assert cluster.created == []


def test_a_pod_that_is_ending_is_waited_for_and_never_taken() -> None:
    """It looks as if it ran for half a minute yet; its name is free when it is gone."""
    cluster = Cluster(pod(ending=True), pod(ending=True), None)
    task_in(cluster).get_or_create_pod(pod(), CONTEXT)
    assert cluster.created == [NAME]


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_a_pod_that_is_over_makes_room_for_a_new_one(phase: str) -> None:
    """What it left is none of this try's; the new one is not made before its name is free."""
    cluster = Cluster(pod(phase=phase), pod(ending=True), None)
    task_in(cluster).get_or_create_pod(pod(), CONTEXT)
    assert cluster.ended == [NAME]
    assert cluster.created == [NAME]


def test_another_measurements_pod_is_not_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither by what an earlier try has noted, nor by labels, of which a later measurement's pod has all."""
    cluster = Cluster(None)
    other = pod(f"{NAME}-2")
    monkeypatch.setattr(KubernetesPodOperator, "_get_pod_from_task_state_store", lambda self, context: other)
    task_in(cluster).get_or_create_pod(pod(), CONTEXT)
    assert cluster.created == [NAME]


def test_a_pod_that_does_not_go_is_an_error_that_names_it() -> None:
    """A node that is lost keeps its pods for ever."""
    told: list[str] = []
    with pytest.raises(PodStartError, match=rf"{NAME}.*does not end.*Terminating since"):
        await_gone(lambda: pod(ending=True), told.append, limit_s=0.01)
    assert len(told) == 1


def test_a_pod_without_deletion_is_returned_at_once() -> None:
    """And so is that there is none."""
    here = pod()
    assert await_gone(lambda: here, _no) is here
    assert await_gone(lambda: None, _no) is None


def _no(told: Any) -> None:
    raise AssertionError(told)
