"""Why a pod has left no result, by what a cluster says of it."""

from __future__ import annotations

import pytest
from kubernetes.client import models as k8s
from slipway.pods.failures import PodLimits, silent_end

from include.model_release.errors import TransientError, UserError

LIMITS = PodLimits(image="slipway/onnx:0.1.0", memory="2Gi", disk="20Gi", scratch="20Gi", deadline_s=780)
WANTED = "s3://models/work/result.json"


def ended(reason: str, exit_code: int, condition: k8s.V1PodCondition) -> k8s.V1Pod:
    """A pod as a real cluster showed it: its container's end, and a condition."""
    terminated = k8s.V1ContainerStateTerminated(exit_code=exit_code, reason=reason)
    container = k8s.V1ContainerStatus(
        name="base",
        image=LIMITS.image,
        image_id="",
        ready=False,
        restart_count=0,
        state=k8s.V1ContainerState(terminated=terminated),
    )
    return k8s.V1Pod(
        status=k8s.V1PodStatus(phase="Failed", conditions=[condition], container_statuses=[container])
    )


@pytest.mark.parametrize(
    "reason", ["EvictionByEvictionAPI", "PreemptionByScheduler", "DeletionByTaintManager"]
)
def test_a_pod_that_the_cluster_ended_for_anothers_sake_is_tried_again_and_says_why(reason: str) -> None:
    """Its node was drained or lost, or needed by a pod of higher priority: nobody has to mend anything."""
    condition = k8s.V1PodCondition(type="DisruptionTarget", status="True", reason=reason)
    error = silent_end("convert-1", ended("Error", 143, condition), LIMITS, wanted=WANTED, failure=None)
    assert isinstance(error, TransientError)
    assert error.found == reason


def test_a_pod_that_was_killed_for_its_memory_is_a_persons_to_mend() -> None:
    """The condition that every pod has says nothing about its end."""
    condition = k8s.V1PodCondition(type="Ready", status="False", reason="PodFailed")
    error = silent_end("convert-1", ended("OOMKilled", 137, condition), LIMITS, wanted=WANTED, failure=None)
    assert isinstance(error, UserError)
    assert error.found == "OOMKilled"
