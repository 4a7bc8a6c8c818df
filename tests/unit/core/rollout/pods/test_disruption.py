"""A node that was lost, told from a model that crashes, by the pods' own status."""

from __future__ import annotations

from typing import Any

import pytest

from slipway_core.rollout.pods.disruption import disruption, pod_states

REVISION = "digits-predictor-00002"
READY = {"type": "Ready", "status": "True"}
CONTAINERS_READY = {"type": "ContainersReady", "status": "True"}


def pod(
    name: str,
    *conditions: dict[str, str],
    containers: Any = (),
    status: Any = None,
    revision: str = REVISION,
    **more: Any,
) -> dict[str, Any]:
    """A pod of a Knative revision, as the API gives it."""
    return {
        "metadata": {"name": name, "uid": name, "labels": {"serving.knative.dev/revision": revision}},
        "status": {"conditions": [*conditions], "containerStatuses": [*containers], **(status or {})},
    }


def disrupted(reason: str) -> dict[str, str]:
    """The condition that Kubernetes writes into a pod that it is about to end."""
    return {"type": "DisruptionTarget", "status": "True", "reason": reason}


HEALTHY = pod("a", READY, CONTAINERS_READY, containers=({"restartCount": 0},))
OTHER = pod("b", READY, CONTAINERS_READY)
SILENT = pod("a", {"type": "Ready", "status": "False"}, CONTAINERS_READY)


def said(before: list[dict[str, Any]], now: list[dict[str, Any]], weight: int = 20) -> str:
    """What is said of the pods of the candidate."""
    return disruption(pod_states(before, REVISION), pod_states(now, REVISION), weight)


@pytest.mark.parametrize(
    "reason",
    ["PreemptionByScheduler", "DeletionByTaintManager", "EvictionByEvictionAPI", "DeletionByPodGC"],
)
def test_a_pod_that_is_ended_for_others_is_no_crash(reason: str) -> None:
    """Preemption, a taint, a drain and a pod whose node is gone are the cluster's doing, and named."""
    assert said([HEALTHY], [pod("a", READY, disrupted(reason)), OTHER]) == f"a: {reason}"


@pytest.mark.parametrize("reason", ["NodeLost", "NodeShutdown", "Terminated", "Preempting"])
def test_a_node_that_went_is_no_crash(reason: str) -> None:
    """The status' own reason tells of a node that is lost or shut down."""
    assert said([HEALTHY], [pod("a", status={"reason": reason}), OTHER]) == f"a: {reason}"


def test_a_silent_kubelet_is_a_lost_node() -> None:
    """The control plane writes Ready False, and nobody writes that the containers are not ready."""
    assert said([HEALTHY], [SILENT, OTHER]) == "a: its node does not answer"
    gated = {**SILENT, "spec": {"readinessGates": [{"conditionType": "example.com/ready"}]}}
    assert said([HEALTHY], [gated, OTHER]) == ""


@pytest.mark.parametrize(
    "own",
    [
        pod("a", READY, containers=({"restartCount": 1},)),
        pod("a", disrupted("TerminationByKubelet"), status={"reason": "Evicted"}),
        pod("a", status={"reason": "Evicted"}),
        pod("a", status={"reason": "OOMKilled"}),
        pod("a", disrupted("EvictionByEvictionAPI"), containers=({"restartCount": 2},)),
        pod(
            "a", disrupted("EvictionByEvictionAPI"), containers=({"state": {"terminated": {"exitCode": 1}}},)
        ),
        pod(
            "a",
            disrupted("EvictionByEvictionAPI"),
            containers=({"state": {"terminated": {"exitCode": 137, "reason": "OOMKilled"}}},),
        ),
        pod("a", {"type": "DisruptionTarget", "status": "False", "reason": "PreemptionByScheduler"}),
        pod("a", {"type": "Ready", "status": "False"}, {"type": "ContainersReady", "status": "False"}),
        pod("a", disrupted("PreemptionByScheduler"), revision="digits-predictor-00001"),
        {"metadata": None, "status": "NodeLost"},
    ],
)
def test_what_may_be_the_models_own_fault_excuses_nothing(own: dict[str, Any]) -> None:
    """A crash, memory, an eviction for the node's memory, another revision's pod, or a status that cannot be read."""
    assert said([HEALTHY], [own, OTHER]) == ""


def test_what_was_so_before_excuses_nothing_now() -> None:
    """A pod that was lost before the step began says nothing of the step; nor do restarts from before count as new."""
    lost = pod("a", disrupted("PreemptionByScheduler"))
    assert said([lost, OTHER], [lost, OTHER]) == ""
    restarted = pod("c", READY, containers=({"restartCount": 3},))
    assert said([restarted], [restarted, lost, OTHER]) == "a: PreemptionByScheduler"


def test_most_users_are_not_left_without_a_pod() -> None:
    """Above half of the users, with no other pod that answers, they are taken back whoever took the pod away."""
    lost = pod("a", READY, disrupted("PreemptionByScheduler"))
    assert said([HEALTHY], [lost], weight=50) == "a: PreemptionByScheduler"
    assert said([HEALTHY], [lost], weight=51) == ""
    assert said([HEALTHY], [lost, OTHER], weight=99) == "a: PreemptionByScheduler"
    leaving = {**OTHER, "metadata": {**OTHER["metadata"], "deletionTimestamp": "2026-01-01T00:00:00Z"}}
    assert said([HEALTHY], [lost, leaving], weight=99) == ""
